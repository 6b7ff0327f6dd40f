// Bytes that really left: TCP_INFO of this process's own connections.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>

#include "comm/gloo_transport.h"

namespace atl::link {
namespace {

constexpr int kEstablished = 1;  // TCP_ESTABLISHED, of <netinet/tcp.h>

bool info_of(int socket, tcp_info& info) {
  socklen_t size = sizeof info;
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
}

}  // namespace

std::vector<int> tcp_sockets() {
  std::vector<int> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    int protocol = 0;
    socklen_t size = sizeof protocol;
    tcp_info info{};
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP &&
        info_of(fd, info) && info.tcpi_state == kEstablished)
      sockets.push_back(fd);
  }
  return sockets;
}

WireBytes tcp_bytes(const std::vector<int>& sockets) {
  WireBytes sum;
  for (const int socket : sockets) {
    tcp_info info{};
    if (!info_of(socket, info)) continue;
    sum.sent += info.tcpi_bytes_sent;
    sum.retransmitted += info.tcpi_bytes_retrans;
  }
  return sum;
}

}  // namespace atl::link
