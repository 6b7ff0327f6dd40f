#include "comm/link_client.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "comm/average.h"
#include "comm/interface.h"
#include "comm/link_protocol.h"
#include "comm/store.h"

extern char** environ;

namespace atl {
namespace {

using namespace link;

constexpr double kBackup = 2;    // seconds after which the client ends a wait that the link should have ended
constexpr double kLeave = 1;     // seconds that a link has to end after LEAVE
constexpr double kLinger = 0.5;  // and after FINISHED: it waits for the others, who may still read what it sent
constexpr int kRestarts = 20;    // links that may end without an answer
constexpr auto kPoll = std::chrono::milliseconds(50);

std::filesystem::path beside_this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "atoll-link";
}

// Above the two numbers that the link inherits, so that putting one in its place cannot overwrite the other.
int moved_up(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  close(fd);
  if (moved < 0) throw Bug("no file descriptors are left");
  return moved;
}

std::string described(int status) {
  if (WIFSIGNALED(status)) return text("killed by signal ", WTERMSIG(status));
  return text("exit code ", WEXITSTATUS(status));
}

[[noreturn]] void raise(const Failed& failed) {
  if (failed.kind == Kind::settings || failed.kind == Kind::finite) throw ConfigError(failed.reason);
  throw LinkError(failed.reason);
}

}  // namespace

struct LinkClient::Impl {
  explicit Impl(LinkConfig config);
  ~Impl();

  // The client's thread: starts links, one after the other, and reads what they say.
  void supervise();
  void start();     // a link, HELLO, what has no answer yet
  bool converse();  // until the link has ended; false: no other one is to be started
  void hear(const Message& message);
  void await_end(double seconds);
  void bury();       // SIGKILL and waitpid
  bool backed_up();  // ends waits that the link should have ended
  void give_up(Kind kind, const std::string& reason);
  Hello hello() const;
  void tell();  // with the lock held: what the link does not know yet, as far as the socket takes it
  void stop(std::optional<Leave> leave);
  void check_interrupt() const {
    if (config.interrupted && config.interrupted()) throw Interrupted("interrupted");
  }
  double timeout_s() const { return std::chrono::duration<double>(config.timeout).count(); }
  bool solo() const { return config.sites.size() == 1; }

  LinkConfig config;
  int my_rank = 0;
  std::unique_ptr<Codec> codec, mean_codec;
  Segment segment;
  int segment_fd = -1;
  std::byte* memory = nullptr;
  std::uint64_t nonce = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::thread thread;
  int wake = -1;  // eventfd: stop() was called
  int socket = -1;
  pid_t pid = -1;
  double started = 0;  // when the first READY began to be waited for
  bool ready = false, finished = false, finish_asked = false, stopping = false;
  std::optional<Leave> leave_message;
  std::optional<Failed> failure;
  std::vector<std::uint64_t> nonces;
  std::deque<Send> open;  // sent, without an answer
  std::size_t told = 0;   // of open, to the link that runs
  bool told_finish = false;
  Outgoing promised{.slot = -1};  // the exchange after the last one sent; -1: unknown
  double oldest_since = 0;
  std::uint64_t sends = 0;
  std::vector<std::uint64_t> number_in_flight;  // a slot; 0: none
  std::map<std::uint64_t, Answered> answers;    // not yet taken by wait()
  Answered last;                                // the last answer: what a new link must know
  ExchangeTotals totals;
  struct Wire {
    std::uint64_t sent = 0, retransmitted = 0, received = 0;
  };
  Wire wire_before;  // of links that have ended
  Wire wire_now;     // of this one, as last reported
  template <class Report>
  void count(const Report& r) {
    wire_now = {std::max(wire_now.sent, r.wire_bytes), std::max(wire_now.retransmitted, r.retransmitted_bytes),
                std::max(wire_now.received, r.received_bytes)};
  }
  Wire wire_so_far() const {
    return {wire_before.sent + wire_now.sent, wire_before.retransmitted + wire_now.retransmitted,
            wire_before.received + wire_now.received};
  }
  Wire wire_reported;  // in the last answer
  int ended = 0;       // links since the last answer or first READY
  std::string last_end;
  bool ended_wrongly = false;  // by itself, with an exit code that no working atoll-link has: few of these are enough
};

// ---------------------------------------------------------------------------------------------- start and end

LinkClient::Impl::Impl(LinkConfig given) : config(std::move(given)) {
  const auto found = std::find(config.sites.begin(), config.sites.end(), config.site);
  ATOLL_CHECK(found != config.sites.end(), "site ", config.site, " is not in the list");
  my_rank = static_cast<int>(found - config.sites.begin());
  codec = make_codec(config.codec);
  mean_codec = make_codec(config.mean_codec);
  std::vector<std::uint64_t> values;
  for (const SlotSpec& slot : config.slots) values.push_back(slot.values);
  segment = segment_of(values, *codec);
  number_in_flight.resize(config.slots.size());
  std::random_device random;
  nonce = static_cast<std::uint64_t>(random()) << 32U | random();
  if (config.start_timeout.count() == 0) config.start_timeout = config.timeout;

  if (!solo()) {  // what the user can mend is said before a process is started
    if (config.program.empty()) config.program = beside_this_program();
    if (access(config.program.c_str(), X_OK) != 0)
      throw ConfigError(text(config.program.string(), ": ", std::strerror(errno),
                             ": atoll-link must be beside atoll; build or install both"));
    resolve_interface(config.interface);
    check_congestion(config.congestion);
    const FileStore probe(config.store);
  }
  segment_fd = moved_up(memfd_create("atoll", MFD_CLOEXEC));
  if (ftruncate(segment_fd, static_cast<off_t>(segment.bytes)) != 0)
    throw ConfigError(text("no memory for ", segment.bytes, " bytes of messages"));
  if (segment.bytes > 0) {
    void* map = mmap(nullptr, segment.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment_fd, 0);
    if (map == MAP_FAILED) throw ConfigError(text("no memory for ", segment.bytes, " bytes of messages"));
    memory = static_cast<std::byte*>(map);
  }
  totals.generations = solo() ? 1 : 0;
  if (solo()) return;
  wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  started = steady_seconds();
  thread = std::thread([this] { supervise(); });
}

LinkClient::Impl::~Impl() {
  stop(finished ? std::nullopt : std::optional(Leave{Kind::user, "ended without finishing"}));
  if (wake >= 0) close(wake);
  if (memory != nullptr) munmap(memory, segment.bytes);
  close(segment_fd);
}

// Ends the link and the thread.  Safe to call again.
void LinkClient::Impl::stop(std::optional<Leave> leave) {
  if (!thread.joinable()) return;
  {
    const std::lock_guard lock(mutex);
    if (!stopping && !failure) leave_message = std::move(leave);  // after a failure the link has said why
    stopping = true;
  }
  const std::uint64_t one = 1;
  if (write(wake, &one, sizeof one) < 0) spdlog::debug("the client's thread is not woken");
  thread.join();
}

// ---------------------------------------------------------------------------------------------- the client's thread

void LinkClient::Impl::supervise() {
  try {
    for (;;) {
      start();
      const bool again = converse();
      bury();
      if (!again) return;
      ended += ended_wrongly ? kRestarts / 3 + 1 : 1;
      const double pause = std::min(1.0, 0.1 * ended);
      if (ended >= kRestarts)
        return give_up(Kind::link, text("atoll-link ended again and again, the last time with ", last_end, " (",
                                        config.program.string(), ")"));
      spdlog::info("link ended ({}): starting another in {:.1f} s", last_end, pause);
      pollfd woken{wake, POLLIN, 0};
      poll(&woken, 1, static_cast<int>(pause * 1000));
    }
  } catch (const std::exception& e) {
    bury();
    give_up(Kind::link, e.what());
  }
}

void LinkClient::Impl::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Bug(text("no socket pair: ", std::strerror(errno)));
  const int mine = moved_up(ends[0]), its = moved_up(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, its, kSocketFd);
  posix_spawn_file_actions_adddup2(&actions, segment_fd, kSegmentFd);
  std::string program = config.program.string(), name = "for " + config.site;
  char* const argv[] = {program.data(), name.data(), nullptr};
  pid_t child = -1;
  const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(its);
  if (error != 0) {
    close(mine);
    throw LinkError(text(program, " cannot be started: ", std::strerror(error)));
  }
  const std::lock_guard lock(mutex);
  pid = child;
  socket = mine;
  if (send_message(socket, hello(), false) == Sent::full) throw Bug("HELLO does not go into an empty socket");
  told = 0;
  told_finish = false;
  tell();
}

Hello LinkClient::Impl::hello() const {
  Hello h{.site = config.site,
          .sites = config.sites,
          .store = config.store,
          .interface = config.interface,
          .congestion = config.congestion,
          .log_level = config.log_level,
          .codec = config.codec,
          .mean_codec = config.mean_codec,
          .clusters = static_cast<std::uint32_t>(config.clusters),
          .emulate = config.emulate,
          .streams = static_cast<std::uint32_t>(config.streams),
          .piece_bytes = config.piece_bytes,
          .timeout_ms = static_cast<std::uint64_t>(config.timeout.count()),
          .start_ms = 0,
          .slots = {},
          .settings = config.settings,
          .layout_hash = config.layout_hash,
          .nonce = nonce,
          .nonces = nonces,
          .completed = last.number,
          .completed_tokens = last.tokens,
          .completed_slot = last.slot,
          .completed_in_cluster = last.in_cluster};
  for (const SlotSpec& slot : config.slots) h.slots.push_back(slot.values);
  if (!ready) {
    const double left = std::chrono::duration<double>(config.start_timeout).count() - (steady_seconds() - started);
    h.start_ms = static_cast<std::uint64_t>(std::max(0.001, left) * 1000);
  }
  return h;
}

// Never blocks, since every deadline needs the lock.  A link that is gone is noticed by its end of file.
void LinkClient::Impl::tell() {
  for (; socket >= 0 && told < open.size(); ++told) {
    Send send = open[told];
    if (told == 0) send.oldest_ms = static_cast<std::uint64_t>(std::max(0.0, steady_seconds() - oldest_since) * 1000);
    if (send_message(socket, send, false) != Sent::yes) return;
  }
  if (socket >= 0 && finish_asked && !told_finish)
    told_finish = send_message(socket, Finish{sends + 1}, false) == Sent::yes;
}

bool LinkClient::Impl::converse() {
  std::vector<std::byte> packet(kLargestMessage);
  for (;;) {
    pollfd both[] = {{socket, POLLIN, 0}, {wake, POLLIN, 0}};
    {
      const std::lock_guard lock(mutex);
      tell();
      if (told < open.size()) both[0].events |= POLLOUT;
    }
    poll(both, 2, 100);
    if ((both[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      const ssize_t n = recv(socket, packet.data(), packet.size(), MSG_DONTWAIT);
      if (n > 0) hear(decode(std::span(packet).first(static_cast<std::size_t>(n))));
      if (n == 0) break;  // an error (ECONNRESET) comes before what is queued: read on
    }
    std::unique_lock lock(mutex);
    if (finished) {
      lock.unlock();
      await_end(kLinger);
      return false;
    }
    if (stopping || failure) {
      if (!leave_message) return false;
      send_message(socket, *leave_message, false);
      lock.unlock();
      await_end(kLeave);  // it writes left/NAME
      return false;
    }
    if (backed_up()) return false;
  }
  const std::lock_guard lock(mutex);
  return !stopping && !finished && !failure;
}

// Gives the link time to end by itself; bury() does not wait.
void LinkClient::Impl::await_end(double seconds) {
  for (const double start = steady_seconds(); steady_seconds() - start < seconds;) {
    siginfo_t state{};
    if (waitid(P_PID, static_cast<id_t>(pid), &state, WEXITED | WNOHANG | WNOWAIT) != 0 || state.si_pid == pid) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void LinkClient::Impl::hear(const Message& message) {
  const std::lock_guard lock(mutex);
  if (const auto* it = std::get_if<Ready>(&message)) {
    if (!ready) ended = 0;
    ready = true;
    nonces = it->nonces;
    ++totals.generations;
  } else if (const auto* answer = std::get_if<Answered>(&message)) {
    if (told == 0 || open.front().number != answer->number)
      throw Bug(text("an answer to exchange ", answer->number, " that is not the oldest"));
    open.pop_front();
    --told;
    oldest_since = steady_seconds();
    last = *answer;
    ended = 0;
    answers[answer->number] = *answer;
    count(*answer);
    ++totals.exchanges;
    totals.payload_bytes += answer->payload_bytes;
    totals.header_bytes += answer->header_bytes;
  } else if (const auto* failed = std::get_if<Failed>(&message)) {
    if (!failure) failure = *failed;
  } else if (const auto* end = std::get_if<Finished>(&message)) {
    count(*end);
    finished = true;
  } else if (const auto* counted = std::get_if<Counted>(&message)) {
    count(*counted);
  } else {
    throw Bug("a message that only a trainer sends");
  }
  changed.notify_all();
}

void LinkClient::Impl::bury() {
  const std::lock_guard lock(mutex);
  if (pid > 0) {
    kill(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    last_end = described(status);
    ended_wrongly = WIFEXITED(status) && WEXITSTATUS(status) != kAgain;
    pid = -1;
  }
  if (socket >= 0) close(std::exchange(socket, -1));
  wire_before = wire_so_far();
  wire_now = {};
}

bool LinkClient::Impl::backed_up() {
  const double now = steady_seconds();
  if (!ready && now - started > std::chrono::duration<double>(config.start_timeout).count() + kBackup)
    failure = Failed{Kind::link, text("the link did not connect to the other sites within ",
                                      std::chrono::duration<double>(config.start_timeout).count(),
                                      " s (comm.timeout_s), and does not say why")};
  else if (!open.empty() && now - oldest_since > timeout_s() + kBackup)
    failure = Failed{Kind::link, text("exchange ", open.front().number, ": the link has not answered for ", timeout_s(),
                                      " s (comm.timeout_s), and does not say why")};
  else
    return false;
  changed.notify_all();
  return true;
}

void LinkClient::Impl::give_up(Kind kind, const std::string& reason) {
  const std::lock_guard lock(mutex);
  if (!failure) failure = Failed{kind, reason};
  changed.notify_all();
}

// ---------------------------------------------------------------------------------------------- what the trainer calls

LinkClient::LinkClient(LinkConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {
  Impl& s = *impl_;
  if (s.solo()) return;
  std::unique_lock lock(s.mutex);
  while (!s.ready && !s.failure) {
    s.changed.wait_for(lock, kPoll);
    s.check_interrupt();
  }
  if (!s.ready) raise(*s.failure);
}

LinkClient::~LinkClient() = default;

int LinkClient::rank() const { return impl_->my_rank; }
int LinkClient::sites() const { return static_cast<int>(impl_->config.sites.size()); }

std::span<std::byte> LinkClient::payload(int slot) {
  const Segment::Slot& at = impl_->segment.slots.at(static_cast<std::size_t>(slot));
  return {impl_->memory + at.in, at.in_bytes};
}

void LinkClient::send(const Outgoing& out) {
  Impl& s = *impl_;
  const std::lock_guard lock(s.mutex);
  auto& number = s.number_in_flight.at(static_cast<std::size_t>(out.slot));
  ATOLL_CHECK(number == 0, "slot ", out.slot, " is in flight already, as exchange ", number);
  ATOLL_CHECK(s.promised.slot < 0 || (s.promised.slot == out.slot && s.promised.first_of_group == out.first_of_group &&
                                      s.promised.in_cluster == out.in_cluster),
              "slot ", s.promised.slot, " was promised next (first of its group: ", s.promised.first_of_group,
              ", within clusters: ", s.promised.in_cluster, "), and slot ", out.slot, " is sent (", out.first_of_group,
              ", ", out.in_cluster, ")");
  s.promised = {.slot = out.next_slot, .first_of_group = out.next_first_of_group, .in_cluster = out.next_in_cluster};
  number = ++s.sends;
  const Send message{.number = number, .out = out, .oldest_ms = 0};
  if (s.open.empty()) s.oldest_since = steady_seconds();
  s.open.push_back(message);
  s.tell();
}

Answer LinkClient::wait(int slot) {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  const std::uint64_t number = s.number_in_flight.at(static_cast<std::size_t>(slot));
  ATOLL_CHECK(number != 0, "slot ", slot, " was not sent");
  const Segment::Slot& at = s.segment.slots[static_cast<std::size_t>(slot)];
  const std::span<float> mean{reinterpret_cast<float*>(s.memory + at.out), at.values};
  if (s.solo()) {  // no other site: no link; the same arithmetic
    const Send send = s.open.front();
    const std::array<std::span<const std::byte>, 1> own{std::span<const std::byte>(s.memory + at.in, at.in_bytes)};
    const std::array<std::uint64_t, 1> weight{send.out.tokens};
    if (!send.out.finite)
      throw ConfigError(text("exchange ", number, ": the payload of ", s.config.site, " (round ", send.out.round,
                             ", step ", send.out.step,
                             ") holds a NaN or an infinity: it is not applied; try a lower inner.lr"));
    exchange_mean(own, weight, *s.codec, *s.mean_codec, mean);
    std::erase_if(s.open, [number](const Send& each) { return each.number == number; });
    s.answers[number] = {
        .number = number, .slot = static_cast<std::uint32_t>(slot), .generation = 1, .tokens = send.out.tokens};
    ++s.totals.exchanges;
  }
  while (!s.answers.contains(number)) {
    if (s.failure) raise(*s.failure);
    s.check_interrupt();
    s.changed.wait_for(lock, kPoll);
  }
  const Answered answered = s.answers.extract(number).mapped();
  s.number_in_flight[static_cast<std::size_t>(slot)] = 0;
  const Impl::Wire wire = s.wire_so_far(), before = std::exchange(s.wire_reported, wire);
  return {.mean = mean,
          .number = number,
          .generation = answered.generation,
          .tokens = answered.tokens,
          .sites = answered.in_cluster ? sites() / s.config.clusters : sites(),
          .link_s = answered.seconds,
          .payload_bytes = answered.payload_bytes,
          .header_bytes = answered.header_bytes,
          .wire_bytes = wire.sent - before.sent,
          .retransmitted_bytes = wire.retransmitted - before.retransmitted,
          .received_bytes = wire.received - before.received};
}

void LinkClient::finish() {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  ATOLL_CHECK(s.open.empty(), "finish with ", s.open.size(), " exchanges open");
  if (s.solo()) {
    s.finished = true;
    return;
  }
  s.finish_asked = true;
  s.tell();
  for (const double start = steady_seconds(); !s.finished && !s.failure && steady_seconds() - start < s.timeout_s();) {
    s.changed.wait_for(lock, kPoll);
    s.check_interrupt();
  }
  if (!s.finished)
    spdlog::warn("this site is complete, but not all sites are known to be: {}",
                 s.failure ? s.failure->reason : text("no word for ", s.timeout_s(), " s (comm.timeout_s)"));
  s.finished = true;  // its own work is: nothing is left to say to the others
}

ExchangeTotals LinkClient::totals() {
  const std::lock_guard lock(impl_->mutex);
  ExchangeTotals totals = impl_->totals;
  const Impl::Wire wire = impl_->wire_so_far();
  totals.wire_bytes = wire.sent;
  totals.retransmitted_bytes = wire.retransmitted;
  totals.received_bytes = wire.received;
  return totals;
}

void LinkClient::leave(const std::string& reason) { impl_->stop(Leave{Kind::user, reason}); }

int LinkClient::link_pid() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->pid;
}

}  // namespace atl
