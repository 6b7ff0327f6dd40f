// atoll-link: the process that carries one site's exchanges over Gloo.  Started by a trainer (comm/link_client.h), never by hand.
//
// Two threads (docs/link.md): the front one has the socket, the store and all deadlines, and never calls Gloo; the exchange one has all of
// Gloo.  A link lives for one generation: whatever fails in Gloo ends the process, and the trainer starts the next.
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/formation.h"
#include "comm/gloo_exchange.h"
#include "comm/interface.h"
#include "comm/link_protocol.h"

namespace atl::link {
namespace {

[[noreturn]] void end(int code) { _exit(code); }  // Gloo's threads may be anywhere: nothing is taken down

// What the two threads share.
struct Work {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Send> sends;
  std::optional<Finish> finish;
  std::uint64_t completed = 0;  // last answered
  std::atomic<const GlooTransport*> transport{nullptr};
  std::atomic<bool> connected{false};  // to all; in sync later
  std::atomic<bool> ready{false};      // connected and in sync
  std::atomic<bool> left{false};       // left/NAME says how this site ended: nothing is to be added
  std::atomic<int> waiting_for{-1};    // GlooExchange::Setup

  WireBytes wire_bytes() const {
    const GlooTransport* connections = transport;
    return connections == nullptr ? WireBytes{} : connections->wire_bytes();
  }
};

[[noreturn]] void end_for_another(const Work& work) {
  const WireBytes wire = work.wire_bytes();
  send_message(kSocketFd, Counted{wire.sent, wire.retransmitted, wire.received}, false);
  end(kAgain);
}

// ---------------------------------------------------------------------------------------------- exchange thread

class ExchangeThread {
 public:
  ExchangeThread(const Hello& hello, Generation generation, std::string address, Work& work)
      : hello_(hello),
        generation_(std::move(generation)),
        address_(std::move(address)),
        work_(work),
        store_(hello.store) {}

  void operator()() {
    try {
      try {
        run();
      } catch (const Refused& e) {
        refuse(e.kind, e.what());
      } catch (const ConfigError& e) {
        refuse(Kind::settings, e.what());
      }
    } catch (const std::exception& e) {  // Gloo's EnforceNotMet is no gloo::Exception
      spdlog::debug("generation={} broke off: {}", generation_.number, e.what());
      end_for_another(work_);
    }
  }

 private:
  void run() {
    const auto codec = make_codec(hello_.codec), mean_codec = make_codec(hello_.mean_codec);
    const Segment segment = segment_of(hello_.slots, *codec);
    void* memory =
        mmap(nullptr, std::max<std::size_t>(segment.bytes, 1), PROT_READ | PROT_WRITE, MAP_SHARED, kSegmentFd, 0);
    if (memory == MAP_FAILED) throw Bug("the segment cannot be mapped");
    transport_ = std::make_unique<GlooTransport>(store_, generation_.prefix(), address_, hello_.rank(),
                                                 static_cast<int>(hello_.sites.size()),
                                                 static_cast<int>(hello_.streams), hello_.emulate, hello_.congestion);
    GlooTransport& transport = *transport_;
    GlooExchange exchange(transport, {.sites = hello_.sites,
                                      .generation = generation_.number,
                                      .layout_hash = hello_.layout_hash,
                                      .settings_hash = settings_hash(),
                                      .piece_bytes = hello_.piece_bytes,
                                      .clusters = static_cast<int>(hello_.clusters),
                                      .codec = codec.get(),
                                      .mean_codec = mean_codec.get(),
                                      .segment = segment,
                                      .memory = static_cast<std::byte*>(memory),
                                      .waiting_for = &work_.waiting_for});
    work_.transport = &transport;
    work_.connected = true;
    const auto served = exchange.sync({.number = hello_.completed,
                                       .slot = static_cast<int>(hello_.completed_slot),
                                       .tokens = hello_.completed_tokens,
                                       .in_cluster = hello_.completed_in_cluster},
                                      [this] { return oldest(); });
    say(Ready{.generation = generation_.number, .nonces = generation_.nonces});
    work_.ready = true;
    spdlog::debug("generation={} ready completed={}", generation_.number, hello_.completed);
    if (served) answer(oldest(), {.tokens = *served}, 0, transport.wire_bytes());
    for (;;) {
      if (const auto finish = next()) {
        exchange.finish(finish->number);
        finished(transport.wire_bytes());
      }
      const Send send = oldest();
      const double start = steady_seconds();
      const GlooExchange::Result result = exchange.run(send);
      const double now = steady_seconds();
      if (now - counted_ > kCount) {
        wire_ = transport.wire_bytes();
        counted_ = now;
      }
      answer(send, result, now - start, wire_);
    }
  }

  Hash128 settings_hash() const {
    std::string all;
    for (const auto& [key, value] : hello_.settings) all += key + "=" + value + "\n";
    return hash_text(all);
  }

  // Waits for work: nothing when a SEND is there, else the FINISH.
  std::optional<Finish> next() {
    std::unique_lock lock(work_.mutex);
    work_.changed.wait(lock, [this] { return !work_.sends.empty() || work_.finish; });
    return work_.sends.empty() ? work_.finish : std::nullopt;
  }
  Send oldest() {
    std::unique_lock lock(work_.mutex);
    work_.changed.wait(lock, [this] { return !work_.sends.empty(); });
    return work_.sends.front();
  }
  void answer(const Send& send, const GlooExchange::Result& result, double seconds, WireBytes wire) {
    {
      const std::lock_guard lock(work_.mutex);
      work_.sends.pop_front();
      work_.completed = send.number;
    }
    say(Answered{.number = send.number,
                 .slot = static_cast<std::uint32_t>(send.out.slot),
                 .generation = generation_.number,
                 .in_cluster = send.out.in_cluster,
                 .tokens = result.tokens,
                 .seconds = seconds,
                 .payload_bytes = result.payload_bytes,
                 .header_bytes = result.header_bytes,
                 .wire_bytes = wire.sent,
                 .retransmitted_bytes = wire.retransmitted,
                 .received_bytes = wire.received});
  }
  [[noreturn]] void finished(WireBytes wire) {
    conclude(Kind::finished, "finished", Finished{wire.sent, wire.retransmitted, wire.received});
  }
  [[noreturn]] void refuse(Kind kind, const std::string& reason) { conclude(kind, reason, Failed{kind, reason}); }
  [[noreturn]] void conclude(Kind kind, const std::string& reason, const Message& message) {
    if (!work_.left.exchange(true)) {
      store_.put("left/" + hello_.site, encode(LeftRecord{.nonce = hello_.nonce, .kind = kind, .reason = reason}));
      say(message);
      if (kind == Kind::finished) await_others();
    }
    for (;;) pause();  // the trainer ends this process
  }
  // A connection that ends before the other side has read all may lose it: so all go together, when they can.
  void await_others() {
    std::vector<bool> left(generation_.sites.size(), false);
    left[static_cast<std::size_t>(hello_.rank())] = true;
    while (std::find(left.begin(), left.end(), false) != left.end()) {
      for (std::size_t r = 0; r < left.size(); ++r)
        if (const auto bytes = left[r] ? std::nullopt : store_.get("left/" + generation_.sites[r]))
          left[r] = decode_left(*bytes, generation_.sites[r]).nonce == generation_.nonces[r];
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    end(0);
  }
  void say(const Message& message) {
    if (send_message(kSocketFd, message) == Sent::gone) end(0);  // the trainer is gone
  }

  std::unique_ptr<GlooTransport> transport_;  // never taken down: see end()

  static constexpr double kCount =
      0.02;  // seconds that an ANSWER's wire bytes may be old: counting costs some 2 us a connection
  double counted_ = 0;
  WireBytes wire_;

  const Hello& hello_;
  Generation generation_;
  std::string address_;
  Work& work_;
  FileStore store_;
};

// ---------------------------------------------------------------------------------------------- front thread

class Front {
 public:
  explicit Front(Hello hello) : hello_(std::move(hello)), store_(hello_.store), started_(steady_seconds()) {}

  [[noreturn]] void run() {
    address_ = resolve_interface(hello_.interface).address;
    take_name();
    formation_.emplace(store_, hello_);
    for (;;) {
      const double pause = generation_ && work_.ready ? kIdle : kForming;
      listen(std::max(0.0, looked_ + pause - steady_seconds()));
      const double now = steady_seconds();
      if (now < looked_ + pause) continue;  // only a message: the store is asked at its own pace
      looked_ = now;
      if (!generation_)
        form(now);
      else
        watch(now);
      deadlines(now);
    }
  }

 private:
  static constexpr double kForming = 0.05, kIdle = 0.1;  // seconds between looks at the store

  void take_name() {
    constexpr double kPatience = 2;  // an older link of this site may still be ending
    for (const double start = steady_seconds(); !store_.lock("lock/" + hello_.site);) {
      if (steady_seconds() - start > kPatience)
        throw ConfigError(text("site ", hello_.site, " is running already, with the same store (", hello_.store,
                               "): every site needs a name of its own"));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  // Waits for messages of the trainer and takes them all.
  void listen(double seconds) {
    pollfd socket{kSocketFd, POLLIN, 0};
    if (poll(&socket, 1, static_cast<int>(std::ceil(seconds * 1000))) <= 0) return;
    for (;;) {
      const ssize_t n = recv(kSocketFd, packet_.data(), packet_.size(), MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n <= 0) trainer_gone();
      take(decode(std::span(packet_).first(static_cast<std::size_t>(n))));
    }
  }

  [[noreturn]] void trainer_gone() {
    if (formation_ && !work_.left)
      formation_->leave(Kind::user, "its trainer ended without a word (killed, or out of memory?)");
    end(0);
  }

  void take(const Message& message) {
    if (const auto* send = std::get_if<Send>(&message)) {
      if (send->out.slot < 0 || static_cast<std::size_t>(send->out.slot) >= hello_.slots.size())
        throw Bug(text("slot ", send->out.slot));
      const std::lock_guard lock(work_.mutex);
      if (work_.sends.empty()) oldest_since_ = steady_seconds() - static_cast<double>(send->oldest_ms) / 1000;
      work_.sends.push_back(*send);
      work_.changed.notify_all();
    } else if (const auto* finish = std::get_if<Finish>(&message)) {
      const std::lock_guard lock(work_.mutex);
      work_.finish = *finish;
      work_.changed.notify_all();
    } else if (const auto* leave = std::get_if<Leave>(&message)) {
      if (formation_ && !work_.left.exchange(true)) formation_->leave(leave->kind, leave->reason);
      end(0);
    } else {
      throw Bug("a message that only a link sends");
    }
  }

  void form(double now) {
    if (finished_elsewhere()) return;
    const Formation::Found found = formation_->poll(now);
    if (found.failed) fail(*found.failed, /*written=*/true);
    if (!found.generation) return;
    generation_ = found.generation;
    connecting_since_ = now;
    spdlog::debug("generation={} adopted address={}", generation_->number, address_);
    std::thread(ExchangeThread(hello_, *generation_, address_, work_)).detach();
  }

  void watch(double now) {
    if (!work_.ready) {
      const double patience = std::min(5.0, static_cast<double>(hello_.timeout_ms) / 3000);
      if (now - connecting_since_ > patience && !work_.connected) {  // in sync, one may wait for its trainer's SEND
        spdlog::debug("generation={} did not connect in {:.1f} s", generation_->number, patience);
        end_for_another(work_);
      }
    }
    if (formation_->dead(*generation_)) {
      spdlog::info("generation={} is over: a site's link was started again", generation_->number);
      end_for_another(work_);
    }
    if (finished_elsewhere()) return;
    const auto gone = formation_->left(generation_);
    if (!gone || gone->record.kind == Kind::finished) return;
    const Kind kind = gone->record.kind == Kind::user ? Kind::link : gone->record.kind;
    fail({kind, gone->site + " left: " + gone->record.reason}, false);
  }

  // A member completed the last exchange of all, so this site, which waits for just that, is done too (docs/link.md).
  bool finished_elsewhere() {
    {
      const std::lock_guard lock(work_.mutex);
      if (!work_.finish || !work_.sends.empty()) return false;
    }
    const auto gone = formation_->left(generation_);
    if (!gone || gone->record.kind != Kind::finished) return false;
    if (work_.left.exchange(true)) return true;
    formation_->leave(Kind::finished, "finished");
    const WireBytes wire = work_.wire_bytes();
    send_message(kSocketFd, Finished{wire.sent, wire.retransmitted, wire.received});
    end(0);
  }

  void deadlines(double now) {
    if (failed_) return;
    const double timeout = static_cast<double>(hello_.timeout_ms) / 1000;
    if (!work_.ready && hello_.start_ms > 0 && now - started_ > static_cast<double>(hello_.start_ms) / 1000)
      return fail({Kind::link, not_started(now)}, false);
    std::unique_lock lock(work_.mutex);
    if (work_.sends.empty()) {
      last_completed_ = work_.completed;
      return;
    }
    if (work_.completed != last_completed_) {
      last_completed_ = work_.completed;
      oldest_since_ = now;
    }
    if (now - oldest_since_ <= timeout) return;
    const std::uint64_t number = work_.sends.front().number;
    lock.unlock();
    fail({Kind::link, text("exchange ", number, ": no answer for ", timeout, " s (comm.timeout_s)", blame(now),
                           "; the setting must exceed the time by which sites arrive apart, and the transfer")},
         false);
  }

  std::string not_started(double now) const {
    const std::string after = text(" after ", static_cast<double>(hello_.start_ms) / 1000, " s (comm.start_timeout_s)");
    if (const auto absent = formation_->absent(now); !generation_ && !absent.empty())
      return text("no ", joined(absent), after, ": is it started, with the same store (", hello_.store,
                  ") and the same sites.names?");
    return text("all sites are there, but not connected to each other", after, blame(now), "; this one is at ",
                address_, " (comm.interface): is a firewall between them?");
  }

  std::string blame(double now) const {
    if (!generation_) {
      const auto absent = formation_->absent(now);
      return absent.empty() ? ": the sites cannot connect to each other"
                            : ": " + joined(absent) + " does not come back";
    }
    const int rank = work_.waiting_for;
    if (rank >= 0) return ": waiting for " + hello_.sites[static_cast<std::size_t>(rank)];
    return rank == -2 ? ": a site does not take what is sent to it" : "";
  }

  static std::string joined(const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    return all;
  }

  void fail(const Failed& failed, bool written) {
    if (failed_ || work_.left.exchange(true)) return;
    failed_ = true;
    if (!written) formation_->leave(failed.kind, failed.reason);
    send_message(kSocketFd, failed);  // the trainer ends this process
  }

  Hello hello_;
  FileStore store_;
  double started_;
  std::string address_;
  std::optional<Formation> formation_;
  std::optional<Generation> generation_;
  Work work_;
  double looked_ = -1e9, connecting_since_ = 0, oldest_since_ = 0;
  std::uint64_t last_completed_ = 0;
  bool failed_ = false;
  std::vector<std::byte> packet_ = std::vector<std::byte>(kLargestMessage);
};

Hello first_message() {
  std::vector<std::byte> packet(kLargestMessage);
  ssize_t n;
  do n = recv(kSocketFd, packet.data(), packet.size(), 0);
  while (n < 0 && errno == EINTR);
  if (n <= 0) {
    std::fputs("atoll-link is started by atoll, not by hand\n", stderr);
    end(2);
  }
  const Message message = decode(std::span(packet).first(static_cast<std::size_t>(n)));
  const auto* hello = std::get_if<Hello>(&message);
  if (hello == nullptr || hello->sites.empty() || hello->streams < 1 || hello->streams > 64 || hello->clusters < 1 ||
      hello->sites.size() % hello->clusters != 0)
    throw Bug("the first message is no HELLO");
  return *hello;
}

int run() {
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE})
    std::signal(signal, SIG_IGN);  // a Ctrl-C reaches the whole group; the trainer decides
  try {
    Hello hello = first_message();
    init_log(hello.log_level, hello.site + " link");
    Front(std::move(hello)).run();
  } catch (const ConfigError& e) {
    send_message(kSocketFd, Failed{Kind::settings, e.what()});
  } catch (const std::exception& e) {
    send_message(kSocketFd, Failed{Kind::link, e.what()});
  }
  std::vector<std::byte> packet(kLargestMessage);
  while (recv(kSocketFd, packet.data(), packet.size(), 0) > 0) {  // until the trainer has read it and ends this process
  }
  end(0);
}

}  // namespace
}  // namespace atl::link

int main() { return atl::link::run(); }
