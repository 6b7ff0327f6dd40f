#include "app/clock_model.h"

#include <algorithm>

#include "base/error.h"
#include "comm/average.h"
#include "comm/header.h"

namespace atl {

Traffic traffic_of(std::size_t n, int sites, int all, const Codec& codec, const Codec& mean_codec, bool with_header) {
  if (all == 1) return {};
  const bool is_inline = travels_inline(codec.encoded_bytes(n));
  const int among = is_inline ? all : sites;  // what travels with a header goes to all
  const double headers =
      with_header || is_inline ? static_cast<double>(Header::kBytes) * static_cast<double>(all - 1) : 0;
  return {.bytes = headers + static_cast<double>(sent_payload_bytes(n, 0, among, codec, mean_codec)),
          .trips = is_inline || among <= 2 || codec.sparse() ? 1 : 2,
          .headers = headers};
}

ClockModel::ClockModel(const Config& config, std::size_t slots) : config_(config), arrives_(slots, 0.0) {
  ATOLL_CHECK(config.step_seconds > 0 && config.bandwidth_mbit > 0 && config.rtt_ms >= 0, config.step_seconds,
              " s a step, ", config.bandwidth_mbit, " Mbit/s, ", config.rtt_ms, " ms");
}

void ClockModel::step() {
  now_ += config_.step_seconds;
  compute_ += config_.step_seconds;
}

void ClockModel::sent(int slot, const Traffic& traffic) { carry(slot, now_, traffic); }

void ClockModel::sent_during_step(int slot, const Traffic& traffic, int i, int n) {
  const double backward = 1.0 / 3 + 2.0 / 3 * (i + 1) / n;  // a backward pass costs twice a forward pass
  carry(slot, now_ + config_.step_seconds * backward, traffic);
}

void ClockModel::waited(int slot) { now_ = std::max(now_, arrives_[static_cast<std::size_t>(slot)]); }

void ClockModel::carry(int slot, double at, const Traffic& traffic) {
  link_free_ = std::max(at, link_free_) + exchange_seconds(traffic);
  arrives_[static_cast<std::size_t>(slot)] = link_free_;
}

double ClockModel::exchange_seconds(const Traffic& traffic) const {
  return 8 * traffic.bytes / (config_.bandwidth_mbit * 1e6) + traffic.trips * config_.rtt_ms / 2000;
}

}  // namespace atl
