// Network interfaces of this machine: from what the user wrote to an address that others can reach.
#pragma once
#include <string>

namespace atl {

struct InterfaceAddress {
  std::string address;  // numeric
  bool loopback = false;
};

// `word`: an interface ("eth0") or an address of this machine ("10.0.0.7").  An interface's first IPv4 address is taken, else its first
// IPv6 one that is not link-local.  Throws ConfigError that lists the interfaces and addresses that exist.
InterfaceAddress resolve_interface(const std::string& word);

// Throws ConfigError when this user's TCP connections cannot have this congestion control; "" is always right.
void check_congestion(const std::string& name);

}  // namespace atl
