// A TUN device inside a network namespace: what the site sends is read here, what is written here the site receives.
#pragma once
#include <string>

namespace atl::wan {

// The non-blocking descriptor of a new device `name` in namespace `netns` (as `ip netns` names it), up, MTU 1500, with `address`/24; the namespace's
// loopback is set up too.  The device ends with the descriptor.  The calling thread is back in its own namespace afterwards.
// Throws ConfigError: not root, no /dev/net/tun, no such namespace.
int open_tun(const std::string& netns, const std::string& name, const std::string& address);

constexpr int kMtu = 1500;

}  // namespace atl::wan
