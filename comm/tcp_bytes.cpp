// Bytes that really left: TCP_INFO of this process's own connections.
#include <linux/socket.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "comm/gloo_transport.h"

namespace atl::link {
namespace {

constexpr int kSendBuffer = 1 << 20;  // bytes
constexpr int kEstablished = 1;       // TCP_ESTABLISHED, of <netinet/tcp.h>

bool info_of(int socket, tcp_info& info) {
  socklen_t size = sizeof info;
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
}

}  // namespace

TcpCounter::TcpCounter() = default;

void TcpCounter::find() {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    int protocol = 0;
    socklen_t size = sizeof protocol;
    tcp_info info{};
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP &&
        info_of(fd, info) && info.tcpi_state == kEstablished)
      sockets_.push_back({fd, {}});
  }
}

double TcpCounter::round_trip() {
  const std::lock_guard lock(mutex_);
  std::uint32_t longest = 0;  // microseconds
  for (const Socket& socket : sockets_) {
    tcp_info info{};
    if (info_of(socket.fd, info)) longest = std::max(longest, info.tcpi_min_rtt);
  }
  return longest * 1e-6;
}

void TcpCounter::set_congestion(const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (const Socket& socket : sockets_)
    if (setsockopt(socket.fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) != 0)
      throw ConfigError(text("comm.congestion = \"", name, "\": ", std::strerror(errno)));
}

void TcpCounter::free_send_buffers() {
  const std::lock_guard lock(mutex_);
  for (const Socket& socket : sockets_) {
    int locked = 0, bytes = 0;
    socklen_t size = sizeof locked;
    if (getsockopt(socket.fd, SOL_SOCKET, SO_BUF_LOCK, &locked, &size) != 0 || (locked & SOCK_SNDBUF_LOCK) == 0)
      continue;  // nobody has fixed it; or Linux before 5.14
    size = sizeof bytes;
    if (getsockopt(socket.fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size) == 0 && bytes < kSendBuffer)
      setsockopt(socket.fd, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);  // at most net.core.wmem_max
    locked &= ~SOCK_SNDBUF_LOCK;
    setsockopt(socket.fd, SOL_SOCKET, SO_BUF_LOCK, &locked, sizeof locked);
  }
}

WireBytes TcpCounter::count() {
  const std::lock_guard lock(mutex_);
  WireBytes sum;
  for (Socket& socket : sockets_) {
    tcp_info info{};
    if (info_of(socket.fd, info) && info.tcpi_bytes_sent >= socket.bytes.sent)
      socket.bytes = {info.tcpi_bytes_sent, info.tcpi_bytes_retrans, info.tcpi_bytes_received};
    sum.sent += socket.bytes.sent;
    sum.retransmitted += socket.bytes.retransmitted;
    sum.received += socket.bytes.received;
  }
  return sum;
}

}  // namespace atl::link
