#include "streams.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/error.h"

namespace atl::wan {
namespace {

constexpr std::size_t kAtOnce = 1U << 20U;  // bytes of a system call

sockaddr_in address_of(const std::string& address) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(kPort);
  if (inet_pton(AF_INET, address.c_str(), &in.sin_addr) != 1) throw ConfigError(text(address, " is no IPv4 address"));
  return in;
}

int new_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void set_congestion(int fd, const std::string& name) {  // of a connected socket: a route's would replace it before
  if (!name.empty() &&
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) != 0)
    throw ConfigError(text("congestion control ", name, ": ", std::strerror(errno)));
}

int connected(const std::string& address) {  // until the other listens
  const sockaddr_in to = address_of(address);
  for (int tries = 0;; ++tries) {
    const int fd = new_socket();
    if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return fd;
    const int why = errno;
    close(fd);
    if (tries == 200) throw LinkError(text("cannot connect to ", address, ": ", std::strerror(why)));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

Streams::Streams(const std::vector<std::string>& addresses, int rank, int streams, const std::string& congestion)
    : streams_(static_cast<std::size_t>(streams)), sent_(kAtOnce), scratch_(kAtOnce) {
  const int listening = new_socket();
  const sockaddr_in own = address_of(addresses[static_cast<std::size_t>(rank)]);
  if (bind(listening, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 || listen(listening, 1024) != 0)
    throw ConfigError(text("cannot listen at ", addresses[static_cast<std::size_t>(rank)], ": ", std::strerror(errno)));
  const int sites = static_cast<int>(addresses.size());
  for (int r = 0; r < sites; ++r)
    for (int s = 0; r != rank && s < streams; ++s)
      sending_.push_back(connected(addresses[static_cast<std::size_t>(r)]));
  for (std::size_t i = 0; i < sending_.size(); ++i)
    receiving_.push_back(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
  close(listening);
  for (auto* fds : {&sending_, &receiving_})
    for (const int fd : *fds) {
      if (fd < 0) throw LinkError(text("cannot accept: ", std::strerror(errno)));
      set_congestion(fd, congestion);
      fcntl(fd, F_SETFL, O_NONBLOCK);
    }
}
Streams::~Streams() {
  for (const auto* fds : {&sending_, &receiving_})
    for (const int fd : *fds) close(fd);
}

void Streams::exchange(std::size_t bytes_a_site, Split split) {
  const std::size_t senders = sending_.size();
  std::vector<pollfd> polled;
  for (const int fd : sending_) polled.push_back({fd, POLLOUT, 0});
  for (const int fd : receiving_) polled.push_back({fd, POLLIN, 0});
  // What is left of each pot, and who draws on it: a stream's own; or what goes to one site, and all that comes.
  const std::size_t a_stream = (bytes_a_site + streams_ - 1) / streams_;
  std::vector<std::size_t> pots(polled.size(), a_stream), pot_of(polled.size());
  std::iota(pot_of.begin(), pot_of.end(), 0);
  if (split == Split::free) {
    const std::size_t others = senders / streams_;
    pots.assign(others + 1, bytes_a_site);
    pots.back() *= others;
    for (std::size_t i = 0; i < polled.size(); ++i) pot_of[i] = std::min(i / streams_, others);
  }
  for (std::size_t open = pots.size(); open > 0;) {
    if (poll(polled.data(), polled.size(), 60'000) == 0) throw LinkError("nothing moved for 60 s");
    for (std::size_t i = 0; i < polled.size(); ++i) {
      std::size_t& left = pots[pot_of[i]];
      if (left == 0) polled[i].fd = -1;
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      const std::size_t most = std::min(left, kAtOnce);
      const ssize_t n = i < senders ? send(polled[i].fd, sent_.data(), most, MSG_NOSIGNAL)
                                    : recv(polled[i].fd, scratch_.data(), most, 0);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0) throw LinkError(n == 0 ? "a site has ended" : text("a connection broke: ", std::strerror(errno)));
      left -= static_cast<std::size_t>(n);
      if (left == 0) --open;
    }
  }
}

Split split_of(const std::string& word) {
  if (word == "even") return Split::even;
  if (word == "free") return Split::free;
  throw ConfigError(text("--split = ", word, ", but it must be even or free"));
}

std::string Streams::congestion() const {
  std::array<char, 32> name{};
  socklen_t size = name.size() - 1;
  getsockopt(sending_[0], IPPROTO_TCP, TCP_CONGESTION, name.data(), &size);
  return name.data();
}

double Streams::round_trip() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  getsockopt(sending_[0], IPPROTO_TCP, TCP_INFO, &info, &size);
  return info.tcpi_min_rtt * 1e-6;
}

}  // namespace atl::wan
