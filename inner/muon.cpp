#include "inner/muon.h"

#include <array>

#include "base/error.h"

namespace atl {
namespace {

struct Coefficients {
  double a, b, c;
};
constexpr std::array<Coefficients, 5> kNewtonSchulz{{{4.0848, -6.8946, 2.9270},
                                                     {3.9505, -6.3029, 2.6377},
                                                     {3.7418, -5.5913, 2.3037},
                                                     {2.8769, -3.1427, 1.2046},
                                                     {2.8366, -3.0525, 1.2012}}};
constexpr double kNormEps = 1e-7;

std::vector<std::int64_t> rows_of_parts(const ModelConfig& m, const ParamSpec& spec) {
  if (spec.name.ends_with(".qkv")) {
    const auto head = static_cast<std::int64_t>(m.width / m.heads);
    const std::int64_t q = static_cast<std::int64_t>(m.heads) * head, kv = static_cast<std::int64_t>(m.kv_heads) * head;
    return {q, kv, kv};
  }
  if (spec.name.ends_with(".gate_up")) return {spec.shape[0] / 2, spec.shape[0] / 2};
  return {spec.shape[0]};
}

}  // namespace

bool is_muon(const ParamSpec& spec) { return spec.shape.size() == 2 && spec.name.starts_with("layers."); }

std::vector<MuonMatrix> muon_matrices(const ModelConfig& model, const ParamLayout::Entry& entry) {
  const std::int64_t cols = entry.spec.shape[1];
  std::vector<MuonMatrix> matrices;
  std::size_t offset = entry.span.offset;
  for (const std::int64_t rows : rows_of_parts(model, entry.spec)) {
    const auto count = static_cast<std::size_t>(rows * cols);
    matrices.push_back({.span = {offset, count}, .rows = rows, .cols = cols});
    offset += count;
  }
  ATOLL_CHECK(offset == entry.span.end(), entry.spec.name, ": its matrices end at ", offset, ", the tensor at ",
              entry.span.end());
  return matrices;
}

at::Tensor orthogonalised(const at::Tensor& g, Precision precision) {
  const bool tall = g.size(0) > g.size(1);
  at::Tensor x = g / (g.norm() + kNormEps);
  if (tall) x = x.t();
  if (precision == Precision::bf16) x = x.to(at::kBFloat16);
  for (const auto& [a, b, c] : kNewtonSchulz) {
    const at::Tensor square = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(square, square, square, b, c), x, a, 1);
  }
  if (tall) x = x.t();
  return x.to(g.scalar_type());
}

}  // namespace atl
