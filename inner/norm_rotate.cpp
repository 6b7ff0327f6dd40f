#include "inner/norm_rotate.h"

#include <torch/csrc/autograd/custom_function.h>

#include <bit>
#include <cmath>

#include "base/error.h"

// Once for each width of vector registers; the processor picks at start.
#define ATOLL_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

namespace atl {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kBlock = 64;  // rows whose weight gradients are summed together, whatever the number of threads
constexpr int kLanes = 16;           // sums run in this many lanes, so that the compiler may vectorise them

inline float widen(std::uint16_t x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16U); }
inline float widen(float x) { return x; }
inline void narrow(float x, float& out) { out = x; }
inline void narrow(float x, std::uint16_t& out) {  // to nearest even; a NaN stays one
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
  out = static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FC0U : rounded);
}

inline float sum_of_products(const float* a, const float* b, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] += a[i + k] * b[i + k];
  for (int k = 0; i < n; ++i, ++k) lanes[k] += a[i] * b[i];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  return lanes[0];
}

// y: (a, b) -> (a cos - sign b sin, b cos + sign a sin), in place; nothing when cos is null.
inline void turn(float* y, const float* cos, const float* sin, float sign, std::int64_t half) {
  if (cos == nullptr) return;
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = y[i], b = y[i + half], s = sign * sin[i];
    y[i] = a * cos[i] - b * s;
    y[i + half] = b * cos[i] + a * s;
  }
}

// Row r of x [outer, inner, d] starts at (r / inner) * outer_stride + (r % inner) * inner_stride.
struct Rows {
  std::int64_t count = 0, width = 0, inner = 1, outer_stride = 0, inner_stride = 0;
  std::int64_t at(std::int64_t r) const { return r / inner * outer_stride + r % inner * inner_stride; }
};
struct Turns {  // of row r: position r / heads % length
  const float *cos = nullptr, *sin = nullptr;
  std::int64_t heads = 1, length = 1;
  std::int64_t at(std::int64_t r, std::int64_t half) const { return r / heads % length * half; }
};

template <class X>
inline void forward_rows(const X* x, const Rows& rows, const float* weight, float eps, const Turns& turns,
                         std::uint16_t* y, float* inverse, float* work, std::int64_t from, std::int64_t to) {
  const std::int64_t d = rows.width;
  for (std::int64_t r = from; r < to; ++r) {
    const X* in = x + rows.at(r);
    for (std::int64_t i = 0; i < d; ++i) work[i] = widen(in[i]);
    const float scale = 1 / std::sqrt(sum_of_products(work, work, d) / static_cast<float>(d) + eps);
    inverse[r] = scale;
    for (std::int64_t i = 0; i < d; ++i) work[i] = work[i] * scale * weight[i];
    const std::int64_t turn_at = turns.at(r, d / 2);
    if (turns.cos != nullptr) turn(work, turns.cos + turn_at, turns.sin + turn_at, 1, d / 2);
    for (std::int64_t i = 0; i < d; ++i) narrow(work[i], y[r * d + i]);
  }
}

// With n = x * scale: d weight += dy n;  dx = scale (dy w - n mean(dy w n)).
template <class X>
inline void backward_rows(const X* x, const Rows& rows, const float* weight, const float* inverse, const Turns& turns,
                          const std::uint16_t* dy, const Rows& dy_rows, X* dx, float* d_weight, float* work,
                          std::int64_t from, std::int64_t to) {
  const std::int64_t d = rows.width;
  float *n = work, *g = work + d;
  for (std::int64_t r = from; r < to; ++r) {
    const X* in = x + rows.at(r);
    const std::uint16_t* out = dy + dy_rows.at(r);
    const float scale = inverse[r];
    for (std::int64_t i = 0; i < d; ++i) n[i] = widen(in[i]) * scale;
    for (std::int64_t i = 0; i < d; ++i) g[i] = widen(out[i]);
    const std::int64_t turn_at = turns.at(r, d / 2);
    if (turns.cos != nullptr) turn(g, turns.cos + turn_at, turns.sin + turn_at, -1, d / 2);
    for (std::int64_t i = 0; i < d; ++i) d_weight[i] += g[i] * n[i];
    for (std::int64_t i = 0; i < d; ++i) g[i] *= weight[i];
    const float mean = sum_of_products(g, n, d) / static_cast<float>(d);
    for (std::int64_t i = 0; i < d; ++i) narrow(scale * (g[i] - n[i] * mean), dx[r * d + i]);
  }
}

// target_clones does not go with templates: one of each.
#define ATOLL_BOTH(X)                                                                                               \
  ATOLL_WIDE void forward_wide(const X* x, const Rows& rows, const float* weight, float eps, const Turns& turns,    \
                               std::uint16_t* y, float* inverse, float* work, std::int64_t from, std::int64_t to) { \
    forward_rows(x, rows, weight, eps, turns, y, inverse, work, from, to);                                          \
  }                                                                                                                 \
  ATOLL_WIDE void backward_wide(const X* x, const Rows& rows, const float* weight, const float* inverse,            \
                                const Turns& turns, const std::uint16_t* dy, const Rows& dy_rows, X* dx,            \
                                float* d_weight, float* work, std::int64_t from, std::int64_t to) {                 \
    backward_rows(x, rows, weight, inverse, turns, dy, dy_rows, dx, d_weight, work, from, to);                      \
  }
ATOLL_BOTH(float)
ATOLL_BOTH(std::uint16_t)

// [..., d] as rows; the last dimension is contiguous, the two before it have any strides, those before are contiguous in them.
Rows rows_of(const at::Tensor& x) {
  const std::int64_t d = x.size(-1), inner = x.dim() > 1 ? x.size(-2) : 1;
  return {.count = x.numel() / d,
          .width = d,
          .inner = inner,
          .outer_stride = x.dim() > 2 ? x.stride(-3) : 0,
          .inner_stride = x.dim() > 1 ? x.stride(-2) : d};
}
at::Tensor readable(const at::Tensor& x) {
  bool fits = x.stride(-1) == 1;
  for (std::int64_t i = 0; i + 3 < x.dim(); ++i) fits = fits && x.stride(i) == x.stride(i + 1) * x.size(i + 1);
  return fits ? x : x.contiguous();
}
template <class T>
T* data(const at::Tensor& x) {
  return static_cast<T*>(x.data_ptr());
}
Turns turns_of(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  if (cos.numel() == 0) return {};
  return {.cos = cos.data_ptr<float>(), .sin = sin.data_ptr<float>(), .heads = x.size(-2), .length = x.size(-3)};
}

struct NormRotate : Function<NormRotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given, const at::Tensor& weight, double eps,
                            const at::Tensor& cos, const at::Tensor& sin) {
    const at::Tensor x = readable(given);
    const Rows rows = rows_of(x);
    const Turns turns = turns_of(x, cos, sin);
    at::Tensor y = at::empty(x.sizes(), x.options().dtype(at::kBFloat16));
    at::Tensor inverse = at::empty({rows.count}, weight.options());
    const auto run = [&]<class X>(const X* in) {
      at::parallel_for(0, rows.count, 512, [&](std::int64_t from, std::int64_t to) {
        std::vector<float> work(static_cast<std::size_t>(rows.width));
        forward_wide(in, rows, weight.data_ptr<float>(), static_cast<float>(eps), turns, data<std::uint16_t>(y),
                     inverse.data_ptr<float>(), work.data(), from, to);
      });
    };
    x.scalar_type() == at::kFloat ? run(data<const float>(x)) : run(data<const std::uint16_t>(x));
    context->save_for_backward({x, weight, inverse, cos, sin});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &inverse = saved[2];
    const at::Tensor dy = readable(gradients[0].to(at::kBFloat16));
    const Rows rows = rows_of(x), dy_rows = rows_of(dy);
    const Turns turns = turns_of(x, saved[3], saved[4]);
    at::Tensor dx = at::empty(x.sizes(), x.options());
    const std::int64_t blocks = (rows.count + kBlock - 1) / kBlock;
    at::Tensor d_weight = at::zeros({blocks, rows.width}, weight.options());
    const auto run = [&]<class X>(X* out) {
      at::parallel_for(0, blocks, 8, [&](std::int64_t from, std::int64_t to) {
        std::vector<float> work(static_cast<std::size_t>(2 * rows.width));
        for (std::int64_t b = from; b < to; ++b)
          backward_wide(data<const X>(x), rows, weight.data_ptr<float>(), inverse.data_ptr<float>(), turns,
                        data<const std::uint16_t>(dy), dy_rows, out, d_weight.data_ptr<float>() + b * rows.width,
                        work.data(), b * kBlock, std::min(rows.count, (b + 1) * kBlock));
      });
    };
    x.scalar_type() == at::kFloat ? run(data<float>(dx)) : run(data<std::uint16_t>(dx));
    return {dx, d_weight.sum(0), {}, {}, {}};
  }
};

}  // namespace

at::Tensor norm_bf16(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor none = at::empty({0}, weight.options());  // autograd takes no undefined tensor
  return norm_rotate_bf16(x, weight, eps, none, none);
}

at::Tensor norm_rotate_bf16(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                            const at::Tensor& sin) {
  ATOLL_CHECK(x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) &&
                  weight.scalar_type() == at::kFloat && weight.numel() == x.size(-1),
              x.toString(), ", ", x.size(-1), " wide, with ", weight.numel(), " weights");
  return NormRotate::apply(x, weight, eps, cos, sin);
}

}  // namespace atl
