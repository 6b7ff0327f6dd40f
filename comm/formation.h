// Forming a generation: how the links of a fixed list of sites find each other in the store (docs/link.md).
//
// A state machine over the store: poll() looks once and beats once; it never sleeps and reads no clock, so tests drive it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/link_protocol.h"
#include "comm/store.h"

namespace atl::link {

struct JoinRecord {
  std::uint64_t nonce = 0;  // the trainer's
  std::uint32_t after = 0;  // highest generation in the store when this link started
  std::uint64_t beat = 0;
  Hash128 layout_hash;
  std::vector<std::uint64_t> slots;
  std::vector<std::pair<std::string, std::string>> settings;
};
struct Generation {
  std::uint32_t number = 0;
  std::uint64_t random = 0;
  std::vector<std::string> sites;  // rank order
  std::vector<std::uint64_t> nonces;
  std::string prefix() const;  // of Gloo's rendezvous keys
};
struct LeftRecord {
  std::uint64_t nonce = 0;
  Kind kind = Kind::user;
  std::string reason;
};

std::vector<std::byte> encode(const JoinRecord& record);
std::vector<std::byte> encode(const Generation& record);
std::vector<std::byte> encode(const LeftRecord& record);
// Throw LinkError (`name` is the key): cut short, damaged, another version, out of range.
JoinRecord decode_join(std::span<const std::byte> bytes, const std::string& name);
Generation decode_generation(std::span<const std::byte> bytes, const std::string& name);
LeftRecord decode_left(std::span<const std::byte> bytes, const std::string& name);

// Every difference between two sites' settings, layouts and slots, a line each with both values; "" when there is none.
std::string differences(const JoinRecord& mine, const std::string& my_name, const JoinRecord& other,
                        const std::string& other_name);

class Formation {
 public:
  static constexpr double kLive = 2.0;    // seconds since a record was last seen to change
  static constexpr double kLinger = 1.0;  // seconds of beating after settings were found to differ

  Formation(FileStore& store, const Hello& hello);

  struct Found {
    std::optional<Generation> generation;  // adopted: connect now
    std::optional<Failed> failed;          // left/NAME is written
  };
  // `now`: seconds on any steady clock.
  Found poll(double now);
  // Sites without a live record, for error texts.
  std::vector<std::string> absent(double now) const;

  // A member's link was started again since: this generation is over.
  bool dead(const Generation& generation) const;
  // A member (or a site seen live) has left; the own site does not count.  One that finished is only returned when none
  // left in another way.
  struct Left {
    std::string site;
    LeftRecord record;
  };
  std::optional<Left> left(const std::optional<Generation>& generation) const;

  void leave(Kind kind, const std::string& reason);

 private:
  struct Seen {
    JoinRecord record;
    double changed = -1e18;  // when its content was last seen to change
    bool twice = false;      // with two different contents: live, if not long ago
  };
  void beat();
  void look(double now);
  bool live(const std::string& site, double now) const;
  std::optional<Generation> adopt() const;
  void create(double now);
  std::optional<JoinRecord> read_join(const std::string& site) const;

  FileStore& store_;
  const Hello& hello_;
  JoinRecord mine_;
  std::map<std::string, Seen> seen_;
  std::string difference_;
  double difference_at_ = 0;
};

}  // namespace atl::link
