#include "tun.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace atl::wan {
namespace {

// Packets that wait until this program is scheduled again; the emulated queue is not here.
constexpr int kWaiting = 10'000;

int opened(const std::string& path, int flags, const std::string& advice) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) throw ConfigError(text("cannot open ", path, ": ", std::strerror(errno), advice));
  return fd;
}

// The calling thread's namespace while this lives.
class Inside {
 public:
  explicit Inside(const std::string& netns)
      : own_(opened("/proc/self/ns/net", O_RDONLY, "")),
        other_(opened("/run/netns/" + netns, O_RDONLY, text(": make it with `ip netns add ", netns, "`"))) {
    if (setns(other_, CLONE_NEWNET) != 0)
      throw ConfigError(text("cannot enter namespace ", netns, ": ", std::strerror(errno), ": run this as root"));
  }
  ~Inside() {
    setns(own_, CLONE_NEWNET);
    close(own_);
    close(other_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  int own_, other_;
};

ifreq request_of(const std::string& device) {
  ifreq request{};
  device.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

void apply(int fd, unsigned long what, ifreq request, const char* words) {
  if (ioctl(fd, what, &request) != 0)
    throw ConfigError(text("cannot ", words, " of ", request.ifr_name, ": ", std::strerror(errno)));
}

void set_up(int socket, const std::string& device) {
  ifreq request = request_of(device);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  apply(socket, SIOCSIFFLAGS, request, "set the flags");
}

void set_address(int socket, const std::string& device, unsigned long what, const std::string& address) {
  ifreq request = request_of(device);
  sockaddr_in in{};
  in.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &in.sin_addr);
  std::memcpy(&request.ifr_addr, &in, sizeof in);
  apply(socket, what, request, "set the address");
}

}  // namespace

int open_tun(const std::string& netns, const std::string& name, const std::string& address) {
  const Inside inside(netns);
  const int tun = opened("/dev/net/tun", O_RDWR | O_NONBLOCK,
                         ": the kernel's module tun is missing, or the container may not use it");
  ifreq request = request_of(name);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(tun, TUNSETIFF, &request) != 0)
    throw ConfigError(text("cannot make device ", name, " in ", netns, ": ", std::strerror(errno),
                           errno == EPERM ? ": run this as root" : ""));
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  set_address(control, name, SIOCSIFADDR, address);
  set_address(control, name, SIOCSIFNETMASK, "255.255.255.0");
  request = request_of(name);
  request.ifr_mtu = kMtu;
  apply(control, SIOCSIFMTU, request, "set the MTU");
  request = request_of(name);
  request.ifr_qlen = kWaiting;
  apply(control, SIOCSIFTXQLEN, request, "set the queue length");
  set_up(control, name);
  set_up(control, "lo");
  close(control);
  return tun;
}

}  // namespace atl::wan
