#include "inner/functions.h"

#include <torch/csrc/autograd/custom_function.h>

namespace atl {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, double sign) {
  const auto half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  at::Tensor y = at::empty(x.sizes(), x.options());
  at::Tensor first = y.narrow(-1, 0, half), second = y.narrow(-1, half, half);
  at::mul_out(first, a, cos);
  at::mul_out(second, b, cos);
  first.addcmul_(b, sin, -sign);
  second.addcmul_(a, sin, sign);
  return y;
}

struct Rotate : Function<Rotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return turned(x, cos, sin, 1);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {turned(gradients[0], saved[0], saved[1], -1), {}, {}};  // a rotation's transpose turns back
  }
};

struct SwiGlu : Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    context->save_for_backward({gate_up});
    const auto half = gate_up.size(-1) / 2;
    return at::silu(gate_up.narrow(-1, 0, half)).mul_(gate_up.narrow(-1, half, half));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gate_up = context->get_saved_variables()[0];
    const auto half = gate_up.size(-1) / 2;
    const at::Tensor gate = gate_up.narrow(-1, 0, half), up = gate_up.narrow(-1, half, half);
    at::Tensor out = at::empty(gate_up.sizes(), gate_up.options());
    at::Tensor d_gate = out.narrow(-1, 0, half), d_up = out.narrow(-1, half, half);
    at::silu_out(d_up, gate);
    d_up.mul_(gradients[0]);
    at::silu_backward_out(d_gate, gradients[0] * up, gate);
    return {out};
  }
};

struct Loss : Function<Loss> {
  static variable_list forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets,
                               double z_loss) {
    const at::Tensor log_p = at::log_softmax(logits, -1);
    const at::Tensor index = targets.unsqueeze(1);
    const at::Tensor chosen = log_p.gather(1, index);               // [N, 1]
    const at::Tensor log_z = logits.gather(1, index).sub_(chosen);  // log p = x - log Z
    const at::Tensor cross_entropy = chosen.mean().neg();
    const at::Tensor objective = z_loss == 0 ? cross_entropy.clone() : cross_entropy + z_loss * log_z.square().mean();
    context->save_for_backward({log_p, log_z, index});
    context->saved_data["z_loss"] = z_loss;
    context->mark_non_differentiable({cross_entropy});
    return {cross_entropy, objective};
  }
  // d objective / d x_ij = (p_ij (1 + 2 z log Z_i) - [j = target_i]) / N
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const double z_loss = context->saved_data["z_loss"].toDouble();
    const at::Tensor scale = gradients[1] / static_cast<double>(saved[0].size(0));
    at::Tensor out = saved[0].exp();
    out.mul_((saved[1] * (2 * z_loss) + 1.0).mul_(scale));
    out.scatter_add_(1, saved[2], scale.neg().expand_as(saved[2]));
    return {out, {}, {}};
  }
};

}  // namespace

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return Rotate::apply(x, cos, sin);
}

at::Tensor swiglu(const at::Tensor& gate_up) { return SwiGlu::apply(gate_up); }

TokenLoss token_loss(const at::Tensor& logits, const at::Tensor& targets, double z_loss) {
  const variable_list both = Loss::apply(logits, targets, z_loss);
  return {both[0], both[1]};
}

}  // namespace atl
