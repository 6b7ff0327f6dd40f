#include "star.h"

#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/error.h"
#include "tun.h"

namespace atl::wan {
namespace {

constexpr int kAtOnce = 64;  // packets of a site, before the others' are looked at
constexpr Time kLate = std::chrono::milliseconds(1);
constexpr Time kRedraw = std::chrono::milliseconds(10);

Time of_ms(double ms) { return Time(static_cast<std::int64_t>(ms * 1e6)); }

std::size_t queue_of(const StarConfig& config) {
  if (config.queue_bytes > 0) return config.queue_bytes;
  return std::max<std::size_t>(16 * kMtu, static_cast<std::size_t>(config.mbit * config.rtt_ms * 1e3 / 8));
}

}  // namespace

std::string address_of(std::size_t site) { return "10.88.0." + std::to_string(site + 1); }

Star::Star(const StarConfig& config, std::vector<Site> sites) : config_(config) {
  const Line line(config.mbit * 1e6, queue_of(config));
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const int tun = open_tun(sites[i].netns, "wan0", address_of(i));
    ends_.push_back({.site = sites[i],
                     .tun = tun,
                     .up = line,
                     .down = line,
                     .random = std::mt19937_64(config.seed * kMostSites + i)});
  }
}
Star::~Star() {
  for (const End& end : ends_) close(end.tun);
}

std::vector<int> Star::descriptors() const {
  std::vector<int> all;
  for (const End& end : ends_) all.push_back(end.tun);
  return all;
}

Time Star::delay(End& end, Time now) {
  if (config_.jitter_ms > 0 && now >= end.next_draw) {
    end.jitter = of_ms(std::uniform_real_distribution(-config_.jitter_ms, config_.jitter_ms)(end.random));
    end.next_draw = now + kRedraw;
  }
  return of_ms(config_.rtt_ms / 2) + end.jitter;
}

// What the site has sent enters its uplink.
void Star::take(End& end, Time now) {
  std::array<char, 65536> buffer;
  for (int i = 0; i < kAtOnce; ++i) {
    const ssize_t n = read(end.tun, buffer.data(), buffer.size());
    if (n <= 0) return;
    if (n < 20 || buffer[0] >> 4 != 4) continue;  // IPv4 only
    if (config_.loss_percent > 0 && std::uniform_real_distribution(0.0, 100.0)(end.random) < config_.loss_percent) {
      ++end.lost;
      continue;
    }
    const auto left = end.up.enter(now, static_cast<std::size_t>(n));
    if (!left) continue;
    Time due = *left + delay(end, now);
    if (!end.to_centre.empty()) due = std::max(due, end.to_centre.back().due);  // jitter does not change the order
    end.to_centre.push_back({due, {buffer.data(), buffer.data() + n}});
  }
}

// What has reached the centre enters the downlink of the site that it is for.
void Star::route(End& end, Time now) {
  for (auto& way = end.to_centre; !way.empty() && way.front().due <= now; way.pop_front()) {
    Packet& packet = way.front();
    const std::size_t to =
        static_cast<unsigned char>(packet.bytes[19]) - std::size_t{1};  // last byte of the IPv4 destination
    if (to >= ends_.size()) continue;                                   // multicast and the like
    if (end.cut || ends_[to].cut) {
      ++ends_[to].cut_off;
      continue;
    }
    const auto due = ends_[to].down.enter(packet.due, packet.bytes.size());
    if (due) ends_[to].to_site.push_back({*due, std::move(packet.bytes)});
  }
}

void Star::hand_over(End& end, Time now) {
  for (auto& way = end.to_site; !way.empty() && way.front().due <= now; way.pop_front()) {
    if (end.cut || write(end.tun, way.front().bytes.data(), way.front().bytes.size()) < 0) ++end.cut_off;
    if (now - way.front().due > kLate) ++end.late;
    ++end.handed_over;
  }
}

void Star::turn(Time now) {
  for (End& end : ends_) take(end, now);
  for (End& end : ends_) route(end, now);
  for (End& end : ends_) hand_over(end, now);
}

Time Star::next() const {
  Time next = Time::max();
  for (const End& end : ends_)
    for (const auto* way : {&end.to_centre, &end.to_site})
      if (!way->empty()) next = std::min(next, way->front().due);
  return next;
}

std::string Star::command(const std::string& words) {
  if (words == "counts") return counts();
  const std::string verb = words.substr(0, words.find(' '));
  const std::string name = words.size() > verb.size() ? words.substr(verb.size() + 1) : "";
  for (End& end : ends_) {
    if ((verb != "drop" && verb != "heal") || end.site.name != name) continue;
    end.cut = verb == "drop";
    return text(name, end.cut ? " is cut off\n" : " is back\n");
  }
  return text("command \"", words, "\", but there are: drop NAME, heal NAME (of a site), counts\n");
}

std::string Star::counts() const {
  std::string all;
  for (const End& end : ends_) {
    const Line::Count &up = end.up.count(), &down = end.down.count();
    all += text("site=", end.site.name, " up_bytes=", up.bytes, " up_dropped=", up.dropped, " down_bytes=", down.bytes,
                " down_dropped=", down.dropped, " lost=", end.lost, " cut_off=", end.cut_off, " late_percent=",
                end.handed_over == 0 ? 0 : 100.0 * static_cast<double>(end.late) / static_cast<double>(end.handed_over),
                "\n");
  }
  return all;
}

}  // namespace atl::wan
