// Sites for tests of the link: each a thread (or, to be killed, a child process) with a LinkClient and so a real atoll-link process.
//
// Payloads are a pure function of (rank, exchange, index), so every site knows what every mean must be, to the bit.
#pragma once
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/average.h"
#include "comm/link_client.h"
#include "support/temp_dir.h"

namespace atl {

inline float test_value(std::uint64_t rank, std::uint64_t number, std::uint64_t i) {
  std::uint64_t x = (number * 64 + rank) * 0x9E3779B97F4A7C15ULL + i * 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 31U;
  x *= 0x94D049BB133111EBULL;
  x ^= x >> 29U;
  const float scale = std::bit_cast<float>(static_cast<std::uint32_t>((120 + ((x >> 40U) & 7U)) << 23U));  // 2^-7 ... 1
  return (static_cast<float>(static_cast<std::int32_t>(x & 0xFFFFFFU)) * 0x1p-23F - 1.0F) * scale;
}

struct Plan {
  int sites = 2;
  std::vector<std::size_t> slots{1000};
  std::string codec = "fp32", mean_codec = "fp32";
  int streams = 2;
  std::size_t piece_bytes = 1U << 20U;
  double timeout_s = 20, start_s = 0;
  bool equal_tokens = false;
  int group = 1;        // exchanges of one header
  bool promise = true;  // next_slot is told
  link::Emulate emulate;
  std::string congestion;
  int clusters = 1;  // > 1: every third exchange is of all sites, the others of each cluster

  bool in_cluster(std::uint64_t number) const { return clusters > 1 && number % 3 != 0; }
  int first_member(int rank, std::uint64_t number) const {
    return in_cluster(number) ? rank / members(number) * members(number) : 0;
  }
  int members(std::uint64_t number) const { return in_cluster(number) ? sites / clusters : sites; }

  int slot_of(std::uint64_t number) const { return static_cast<int>((number - 1) % slots.size()); }
  bool first(std::uint64_t number) const { return (number - 1) % static_cast<std::uint64_t>(group) == 0; }
  // Equal within a group: its one header holds them.
  std::uint64_t tokens(int rank, std::uint64_t number) const {
    const std::uint64_t of = (number - 1) / static_cast<std::uint64_t>(group);
    return equal_tokens ? 64 : 100 + static_cast<std::uint64_t>(rank) * 37 + of % 5;
  }
  Outgoing outgoing(int rank, std::uint64_t number, bool last = false) const {
    Outgoing out{.slot = slot_of(number),
                 .round = static_cast<std::uint32_t>(number),
                 .step = number,
                 .tokens = tokens(rank, number),
                 .first_of_group = first(number),
                 .in_cluster = in_cluster(number)};
    if (promise && !last) {
      out.next_slot = slot_of(number + 1);
      out.next_first_of_group = first(number + 1);
      out.next_in_cluster = in_cluster(number + 1);
    }
    return out;
  }
};

// ATOLL_TEST_LOG=debug shows what clients and links do.
inline std::string test_log_level() {
  static const std::string level = [] {
    const char* given = std::getenv("ATOLL_TEST_LOG");
    init_log(given == nullptr ? "off" : given, "test");
    return std::string(given == nullptr ? "off" : given);
  }();
  return level;
}

inline std::string site_name(int rank) { return "site-" + std::to_string(rank); }

inline LinkConfig link_config(const Plan& plan, int rank, const std::filesystem::path& store) {
  LinkConfig config;
  config.site = site_name(rank);
  for (int r = 0; r < plan.sites; ++r) config.sites.push_back(site_name(r));
  config.store = "file://" + store.string();
  config.interface = "lo";
  config.streams = plan.streams;
  config.piece_bytes = plan.piece_bytes;
  config.timeout = std::chrono::milliseconds(static_cast<int>(plan.timeout_s * 1000));
  config.start_timeout =
      std::chrono::milliseconds(static_cast<int>((plan.start_s > 0 ? plan.start_s : plan.timeout_s) * 1000));
  config.codec.name = plan.codec;
  config.mean_codec.name = plan.mean_codec;
  config.clusters = plan.clusters;
  config.emulate = plan.emulate;
  config.congestion = plan.congestion;
  for (const std::size_t n : plan.slots) config.slots.push_back({n});
  config.settings = {{"inner.lr", "0.1"}, {"outer.period", "30"}};
  config.layout_hash = {.high = 7, .low = 8};
  config.log_level = test_log_level();
  config.program = std::filesystem::path(ATOLL_BINARY_DIR) / "atoll-link";
  return config;
}

// The means, each computed once for all threads that ask.
class Means {
 public:
  explicit Means(Plan plan)
      : plan_(std::move(plan)), codec_(make_codec(plan_.codec)), mean_codec_(make_codec(plan_.mean_codec)) {}

  void payload(int rank, std::uint64_t number, std::span<std::byte> out) const {
    std::vector<float> values(plan_.slots[static_cast<std::size_t>(plan_.slot_of(number))]);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = test_value(static_cast<std::uint64_t>(rank), number, i);
    codec_->encode(values, {}, out);
  }
  std::shared_ptr<const std::vector<float>> mean(int rank, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const int from = plan_.first_member(rank, number), count = plan_.members(number);
    std::shared_ptr<const std::vector<float>> found = means_[{number, from}];
    if (!found) {
      const std::size_t n = plan_.slots[static_cast<std::size_t>(plan_.slot_of(number))];
      std::vector<std::vector<std::byte>> payloads(static_cast<std::size_t>(count),
                                                   std::vector<std::byte>(codec_->encoded_bytes(n)));
      std::vector<std::uint64_t> weights;
      for (int r = from; r < from + count; ++r) {
        payload(r, number, payloads[static_cast<std::size_t>(r - from)]);
        weights.push_back(plan_.tokens(r, number));
      }
      std::vector<float> mean(n);
      exchange_mean(std::vector<std::span<const std::byte>>(payloads.begin(), payloads.end()), weights, *codec_,
                    *mean_codec_, mean);
      found = std::make_shared<const std::vector<float>>(std::move(mean));
      means_[{number, from}] = found;
      while (means_.size() > 16) means_.erase(means_.begin());
    }
    return found;
  }
  // Values of `got` that are not to the bit what they must be.
  std::size_t wrong(int rank, std::uint64_t number, std::span<const float> got) {
    const auto want = mean(rank, number);
    if (got.size() != want->size()) return got.size() + want->size();
    std::size_t count = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      count += std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>((*want)[i]);
    return count;
  }

 private:
  Plan plan_;
  std::unique_ptr<Codec> codec_, mean_codec_;
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, int>, std::shared_ptr<const std::vector<float>>> means_;  // number, first rank
};

// How a site ended: "" when well, else the kind of error; with its text.
struct Outcome {
  std::string kind, message;
  double seconds = 0;
  bool ok() const { return kind.empty(); }
  bool says(const std::string& words) const { return message.find(words) != std::string::npos; }
};
inline std::ostream& operator<<(std::ostream& out, const Outcome& o) {
  return out << (o.ok() ? "well" : o.kind) << ": " << o.message << " after " << o.seconds << " s";
}

inline Outcome outcome_of(const std::function<void()>& what) {
  Outcome outcome;
  const double start = steady_seconds();
  const auto is = [&](const char* kind, const std::exception& e) {
    outcome.kind = kind;
    outcome.message = e.what();
  };
  try {
    what();
  } catch (const ConfigError& e) {
    is("ConfigError", e);
  } catch (const LinkError& e) {
    is("LinkError", e);
  } catch (const Interrupted& e) {
    is("Interrupted", e);
  } catch (const std::exception& e) {
    is("other", e);
  }
  outcome.seconds = steady_seconds() - start;
  return outcome;
}

// what(rank) for all ranks, a thread each.
inline std::vector<Outcome> run_sites(int sites, const std::function<void(int)>& what) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(sites));
  std::vector<std::thread> threads;
  for (int r = 0; r < sites; ++r)
    threads.emplace_back([&, r] { outcomes[static_cast<std::size_t>(r)] = outcome_of([&] { what(r); }); });
  for (std::thread& each : threads) each.join();
  return outcomes;
}

// A site as a process of its own, to be killed.  Start it while the test has no other threads.
class ChildSite {
 public:
  explicit ChildSite(const std::function<void()>& what) : pid_(fork()) {
    if (pid_ != 0) return;
    const Outcome outcome = outcome_of(what);
    if (!outcome.ok()) std::fprintf(stderr, "child: %s: %s\n", outcome.kind.c_str(), outcome.message.c_str());
    _exit(outcome.ok() ? 0 : 1);
  }
  ~ChildSite() { end(SIGKILL); }
  ChildSite(const ChildSite&) = delete;
  ChildSite& operator=(const ChildSite&) = delete;
  void signal(int number) const { kill(pid_, number); }
  int end(int number = 0) {  // its exit code; -1: by a signal
    if (pid_ <= 0) return code_;
    if (number != 0) kill(pid_, number);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
  int code_ = -1;
};

// One exchange: payload, send.  Then wait and compare.
inline void send_exchange(LinkClient& link, const Means& means, const Plan& plan, std::uint64_t number,
                          bool last = false) {
  means.payload(link.rank(), number, link.payload(plan.slot_of(number)));
  link.send(plan.outgoing(link.rank(), number, last));
}
inline Answer take_exchange(LinkClient& link, Means& means, const Plan& plan, std::uint64_t number) {
  const Answer answer = link.wait(plan.slot_of(number));
  if (answer.number != number) throw std::runtime_error(text("exchange ", number, " was answered as ", answer.number));
  if (const std::size_t wrong = means.wrong(link.rank(), number, answer.mean); wrong > 0)
    throw std::runtime_error(
        text("exchange ", number, ": ", wrong, " of ", answer.mean.size(), " means are wrong at rank ", link.rank()));
  std::uint64_t tokens = 0;
  const int from = plan.first_member(link.rank(), number);
  for (int r = from; r < from + plan.members(number); ++r) tokens += plan.tokens(r, number);
  if (answer.tokens != tokens)
    throw std::runtime_error(text("exchange ", number, ": ", answer.tokens, " tokens, expected ", tokens));
  return answer;
}
inline void run_exchanges(LinkClient& link, Means& means, const Plan& plan, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t k = from; k <= to; ++k) {
    send_exchange(link, means, plan, k, k == to);
    take_exchange(link, means, plan, k);
  }
}

}  // namespace atl
