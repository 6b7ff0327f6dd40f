#include "app/clock_model.h"

#include <algorithm>

#include "base/error.h"

namespace atl {

ClockModel::ClockModel(const Config& config, std::size_t slots) : config_(config), arrives_(slots, 0.0) {
  ATOLL_CHECK(config.step_seconds > 0 && config.bandwidth_mbit > 0 && config.rtt_ms >= 0, config.step_seconds,
              " s a step, ", config.bandwidth_mbit, " Mbit/s, ", config.rtt_ms, " ms");
}

void ClockModel::step() {
  now_ += config_.step_seconds;
  compute_ += config_.step_seconds;
}

void ClockModel::sent(int slot, std::size_t payload_bytes, bool with_header) {
  carry(slot, now_, payload_bytes, with_header);
}

void ClockModel::sent_during_step(int slot, std::size_t payload_bytes, bool with_header, int i, int n) {
  const double backward = 1.0 / 3 + 2.0 / 3 * (i + 1) / n;  // a backward pass costs twice a forward pass
  carry(slot, now_ + config_.step_seconds * backward, payload_bytes, with_header);
}

void ClockModel::waited(int slot) { now_ = std::max(now_, arrives_[static_cast<std::size_t>(slot)]); }

void ClockModel::carry(int slot, double at, std::size_t payload_bytes, bool with_header) {
  link_free_ = std::max(at, link_free_) + exchange_seconds(payload_bytes, with_header);
  arrives_[static_cast<std::size_t>(slot)] = link_free_;
}

double ClockModel::exchange_seconds(std::size_t payload_bytes, bool with_header) const {
  if (config_.sites == 1) return 0;
  constexpr std::size_t kInline = 4096;
  const double rtt = config_.rtt_ms / 1000;
  const double wire = 8.0 * static_cast<double>(payload_bytes) / (config_.bandwidth_mbit * 1e6);
  const double header = with_header && payload_bytes > kInline ? rtt / 2 : 0;
  if (config_.sites == 2) return header + wire + rtt / 2;
  return header + 2.0 * (config_.sites - 1) / config_.sites * wire + rtt;
}

}  // namespace atl
