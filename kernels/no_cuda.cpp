// Instead of the .cu files in a build without CUDA, so that a call says why it cannot work.
#include "base/error.h"
#include "kernels/accumulate.h"
#include "kernels/adam.h"
#include "kernels/add.h"
#include "kernels/bf16.h"
#include "kernels/block_codes.h"
#include "kernels/buffer_cuda.h"
#include "kernels/codebook.h"
#include "kernels/delta.h"
#include "kernels/finite.h"
#include "kernels/hash.h"
#include "kernels/heavy_ball.h"
#include "kernels/mix.h"
#include "kernels/nesterov.h"
#include "kernels/norm.h"
#include "kernels/sgd.h"
#include "kernels/topk.h"

namespace atl::kernels::detail {

namespace {

[[noreturn]] void refuse(const char* what) {
  throw Bug(text(what, " was asked to run on cuda, but this binary was built without it (ATOLL_CUDA=OFF)"));
}

}  // namespace

void delta_cuda(const float*, const float*, float*, std::size_t, const Place&) { refuse("delta"); }
void sgd_cuda(float*, const float*, std::size_t, float, const Place&) { refuse("sgd"); }
void nesterov_cuda(float*, float*, const float*, std::size_t, float, float, const Place&) { refuse("nesterov"); }
void heavy_ball_cuda(float*, float*, const float*, std::size_t, float, float, const Place&) { refuse("heavy_ball"); }
void adam_cuda(float*, float*, float*, const float*, std::size_t, const AdamStep&, const Place&) { refuse("adam"); }
void add_scaled_cuda(float*, const float*, std::size_t, float, const Place&) { refuse("add_scaled"); }
void set_zero_cuda(float*, std::size_t, const Place&) { refuse("set_zero"); }
void mix_cuda(float*, const float*, std::size_t, float, const Place&) { refuse("mix"); }
void to_bf16_cuda(const float*, std::uint16_t*, std::size_t, const Place&) { refuse("to_bf16"); }
void from_bf16_cuda(const std::uint16_t*, float*, std::size_t, const Place&) { refuse("from_bf16"); }
void encode_blocks_cuda(BlockCode, const float*, std::size_t, std::size_t, unsigned char*, const Place&) {
  refuse("encode_blocks");
}
void decode_blocks_cuda(BlockCode, const unsigned char*, float*, std::size_t, std::size_t, const Place&) {
  refuse("decode_blocks");
}
void encode_codebook_cuda(unsigned, const float*, std::size_t, std::size_t, unsigned char*, const Place&) {
  refuse("encode_codebook");
}
void decode_codebook_cuda(unsigned, const unsigned char*, float*, std::size_t, std::size_t, const Place&) {
  refuse("decode_codebook");
}
void encode_topk_cuda(TopkShape, const float*, std::size_t, unsigned char*, const Place&) { refuse("encode_topk"); }
void decode_topk_cuda(TopkShape, const unsigned char*, float*, std::size_t, const Place&) { refuse("decode_topk"); }
double sum_of_squares_cuda(const float*, std::size_t, const Place&) { refuse("sum_of_squares"); }
bool all_finite_cuda(const float*, std::size_t, const Place&) { refuse("all_finite"); }
Hash128 hash_values_cuda(const float*, std::size_t, std::uint64_t, const Place&) { refuse("hash_values"); }
void weighted_mean_cuda(const float* const*, const double*, std::size_t, double, float*, std::size_t, const Place&) {
  refuse("weighted_mean");
}
void weighted_mean_cuda(const std::uint16_t* const*, const double*, std::size_t, double, float*, std::size_t,
                        const Place&) {
  refuse("weighted_mean_bf16");
}

int cuda_devices() { return 0; }
float* allocate_cuda(std::size_t, const Place&) { refuse("a buffer"); }
void free_cuda(float*, const Place&) noexcept {}
void copy_cuda(const void*, const Place&, void*, const Place&, std::size_t) { refuse("copy"); }

}  // namespace atl::kernels::detail
