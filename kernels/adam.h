// Adam as an outer step, in the order of operations of torch.optim.Adam.  Source: arXiv:1412.6980, Algorithm 1; as a
// server's optimizer: FedAdam, arXiv:2003.00295, Algorithm 2 (with bias correction here).
#pragma once
#include <cstddef>
#include <span>

#include "kernels/place.h"

namespace atl::kernels {

// One step's numbers, worked out by the caller in double and rounded once.
struct AdamStep {
  float beta1 = 0.9F, beta2 = 0.99F;
  float lr = 0;       // η / (1 - beta1^t)
  float root = 1;     // sqrt(1 - beta2^t)
  float eps = 1e-8F;  // added to sqrt(v) / root
};

// m <- beta1 m + (1 - beta1) d;  v <- beta2 v + (1 - beta2) d d;  theta <- theta - lr m / (sqrt(v) / root + eps)
// Bit-equal twins (a NaN may have other bits): same IEEE operations, same order, no fused multiply-add.
// theta, m, v: [n], read and written; d: [n], read; all at `place`, not overlapping; n = 0 is allowed.
// cuda: queued on place.stream and not waited for.  Throws Bug on unequal lengths, and for cuda in a build without it.
void adam(std::span<float> theta, std::span<float> m, std::span<float> v, std::span<const float> d,
          const AdamStep& step, Place place);

namespace detail {  // called by adam() and the twin test, by nothing else
void adam_cpu(float* theta, float* m, float* v, const float* d, std::size_t n, const AdamStep& step);
void adam_cuda(float* theta, float* m, float* v, const float* d, std::size_t n, const AdamStep& step,
               const Place& place);
}  // namespace detail

}  // namespace atl::kernels
