// The messages between a trainer and its link, and the segment that they share.  docs/link.md is the authority.
//
// Both are programs of one version on one machine; still every message is parsed with checks, since a link of another version may be found
// beside a trainer.  One message is one packet of a SOCK_SEQPACKET socket.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "comm/codec.h"
#include "comm/emulated_uplink.h"
#include "comm/exchange.h"

namespace atl::link {

constexpr std::uint32_t kProtocol = 3;
constexpr std::size_t kLargestMessage = 128 * 1024;
constexpr int kAgain = 75;                    // exit code of a link that wants to be started again
constexpr int kSocketFd = 3, kSegmentFd = 4;  // what the link inherits

struct Hello {
  std::string site;
  std::vector<std::string> sites;  // rank order
  std::string store, interface, congestion, log_level;
  CodecConfig codec, mean_codec;
  std::uint32_t clusters = 1;
  Emulate emulate;
  std::uint32_t streams = 4;
  std::uint64_t piece_bytes = 0, timeout_ms = 0;
  std::uint64_t start_ms = 0;        // left until the first READY must have come; 0: it has come before
  std::vector<std::uint64_t> slots;  // values in each
  std::vector<std::pair<std::string, std::string>> settings;
  Hash128 layout_hash;
  std::uint64_t nonce = 0;                            // this trainer's
  std::vector<std::uint64_t> nonces;                  // of all, from the first READY; empty before
  std::uint64_t completed = 0, completed_tokens = 0;  // the last ANSWER's exchange
  std::uint32_t completed_slot = 0;
  bool completed_in_cluster = false;

  int rank() const;
};
struct Send {
  std::uint64_t number = 0;
  Outgoing out;
  std::uint64_t oldest_ms = 0;  // it has been the oldest without an answer for so long
};
struct Finish {
  std::uint64_t number = 0;
};  // that of an exchange after the last
enum class Kind : std::uint8_t { settings = 1, finite = 2, link = 3, user = 4, finished = 5 };
struct Leave {
  Kind kind = Kind::user;
  std::string reason;
};
struct Ready {
  std::uint32_t generation = 0;
  std::vector<std::uint64_t> nonces;
};
struct Answered {
  std::uint64_t number = 0;
  std::uint32_t slot = 0, generation = 0;
  bool in_cluster = false;
  std::uint64_t tokens = 0;
  double seconds = 0;
  std::uint64_t payload_bytes = 0, header_bytes = 0;
  std::uint64_t wire_bytes = 0, retransmitted_bytes = 0, received_bytes = 0;  // of this link process so far
};
struct Failed {
  Kind kind = Kind::link;
  std::string reason;
};
struct Finished {
  std::uint64_t wire_bytes = 0, retransmitted_bytes = 0, received_bytes = 0;
};

struct Counted {  // the last word of a link that ends by itself, to be started again
  std::uint64_t wire_bytes = 0, retransmitted_bytes = 0, received_bytes = 0;
};

using Message = std::variant<Hello, Send, Finish, Leave, Ready, Answered, Failed, Finished, Counted>;

std::vector<std::byte> encode(const Message& message);
// Throws LinkError: another protocol version, cut short, out of range.
Message decode(std::span<const std::byte> bytes);

// Blocks until the packet is in the socket, or, unless `wait`, gives up when there is no room for it.
enum class Sent { yes, full, gone };  // gone: the other end
Sent send_message(int socket, const Message& message, bool wait = true);

// Offsets in the segment: for each slot an in area (payload) and an out area (mean, fp32), 64-byte aligned.
struct Segment {
  struct Slot {
    std::size_t values = 0, in_bytes = 0;
    std::size_t in = 0, out = 0;
  };
  std::vector<Slot> slots;
  std::size_t bytes = 0;
};
Segment segment_of(std::span<const std::uint64_t> values, const Codec& codec);

}  // namespace atl::link
