#include "comm/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"

namespace atl {
namespace {

struct Found {
  std::string interface, address;
  bool loopback = false, v4 = false;
};

std::vector<Found> addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw Bug("the system does not list its network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Found> all;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    char name[INET6_ADDRSTRLEN] = "";
    const int family = each->ifa_addr->sa_family;
    if (family == AF_INET) {
      inet_ntop(family, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, name, sizeof name);
    } else if (family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      inet_ntop(family, &address, name, sizeof name);
    } else {
      continue;
    }
    all.push_back({each->ifa_name, name, (each->ifa_flags & IFF_LOOPBACK) != 0, family == AF_INET});
  }
  return all;
}

}  // namespace

InterfaceAddress resolve_interface(const std::string& word) {
  const std::vector<Found> all = addresses();
  for (const bool v4 : {true, false})
    for (const Found& each : all)
      if (each.v4 == v4 && (each.interface == word || each.address == word)) return {each.address, each.loopback};
  std::string known;
  for (const Found& each : all) known += (known.empty() ? "" : ", ") + each.interface + " (" + each.address + ")";
  throw ConfigError(text("comm.interface = \"", word,
                         "\": this machine has no such interface or address that is up: it must be one of ", known));
}

void check_congestion(const std::string& name) {
  if (name.empty()) return;
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool right =
      setsockopt(probe, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
  const int error = errno;
  close(probe);
  if (!right)
    throw ConfigError(
        text("comm.congestion = \"", name, "\": ", std::strerror(error),
             "; what there is says /proc/sys/net/ipv4/tcp_available_congestion_control, what all users may "
             "take tcp_allowed_congestion_control"));
}

}  // namespace atl
