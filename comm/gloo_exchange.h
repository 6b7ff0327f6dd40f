// GlooExchange: the exchanges of one generation, one at a time (docs/link.md, "Sync" and "One exchange").
//
// All members call the same functions in the same order.  After any exception the process ends; what was not answered is
// sent again by the trainer's client.  For the exchange thread alone.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/average.h"
#include "comm/gloo_transport.h"
#include "comm/header.h"
#include "comm/link_protocol.h"

namespace atl::link {

// What is thrown when sites do not fit together; the run ends.  Not for lost connections.
class Refused : public std::runtime_error {
 public:
  Refused(Kind which, const std::string& reason) : std::runtime_error(reason), kind(which) {}
  Kind kind;
};

class GlooExchange {
 public:
  struct Setup {
    std::vector<std::string> sites;  // names in rank order
    std::uint32_t generation = 1;
    Hash128 layout_hash, settings_hash;
    std::size_t piece_bytes = 512U << 10U;
    int clusters = 1;              // of sites / clusters neighbours in rank order, for exchanges within a cluster
    const Codec* codec = nullptr;  // must outlive this
    const Codec* mean_codec = nullptr;
    Segment segment;
    std::byte* memory = nullptr;  // segment.bytes
    std::atomic<int>* waiting_for =
        nullptr;  // written: the rank that is waited for; -1 nobody; -2 some peer that takes nothing
  };
  GlooExchange(GlooTransport& transport, Setup setup);

  struct Completed {  // this site's last exchange with an ANSWER
    std::uint64_t number = 0;
    int slot = 0;
    std::uint64_t tokens = 0;
    bool in_cluster = false;
  };
  // First of all.  All have completed the same exchange: nothing happens.  Else those behind (by one) must have the SEND of the next one
  // (`pending`, asked for when needed), whose out area is filled from a site ahead that averaged with them.  Returns that exchange's tokens
  // when this site got it so.  A whole cluster may be behind at an exchange of its own: then it runs it by itself.
  std::optional<std::uint64_t> sync(const Completed& completed, const std::function<Send()>& pending);

  struct Result {
    std::uint64_t tokens = 0, payload_bytes = 0, header_bytes = 0;
  };
  // The whole exchange: when it returns out is whole and nothing of in is read any more.  Throws Refused (headers disagree, not finite).
  Result run(const Send& send);
  // A header of kind finish to all and from all.
  void finish(std::uint64_t number);

 private:
  struct Piece {
    Chunk chunk;  // values of the slot
    int stream = 0;
    std::uint32_t index = 0;
  };
  // How a slot travels, among all sites or within clusters.  Everyone sends to each other site that one's chunk, in pieces, and
  // averages its own; owners then send the mean of theirs to all.  When two sites swap, and with a sparse codec, all have the
  // whole slot as their chunk.
  struct SlotPlan {
    int first = 0, count = 0;  // the ranks that average together
    std::vector<int> others;   // of them, starting behind the own rank, so that not all send to one first
    bool is_inline = false;    // with its header; nothing below is set then
    bool owners = false;
    bool fixed = false;                      // one piece a chunk; its messages have buffers of their own
    std::vector<Chunk> chunks;               // a rank
    std::vector<std::vector<Piece>> pieces;  // a rank, of its chunk
    std::size_t window = 0;                  // pieces of a chunk for which receives are posted at a time
    std::size_t piece_bytes = 0;             // of the largest
    std::size_t means_at = 0;                // in the arena: encoded means, behind the pieces
    std::size_t arena_bytes = 0;
  };
  struct Posted {  // receives of the exchange to come
    std::uint64_t number = 0;
    int slot = -1;
    bool with_header = false;
    std::vector<GlooTransport::Receive> headers;                // a rank (own: empty)
    std::vector<std::vector<GlooTransport::Receive>> payloads;  // a rank, a piece of the own chunk
    std::vector<std::vector<GlooTransport::Receive>> means;     // a rank, a piece of its chunk
  };

  SlotPlan plan_of(const Segment::Slot& slot, bool in_cluster) const;
  // Below, a `slot` is the index of a plan: a slot among all sites, or, counted on from there, within clusters.
  int plan_index(int slot, bool in_cluster) const {
    return in_cluster && setup_.clusters > 1 ? slot + static_cast<int>(setup_.segment.slots.size()) : slot;
  }
  const SlotPlan& plan(int slot) const { return plans_[static_cast<std::size_t>(slot)]; }
  std::span<const std::uint64_t> weights_of(const SlotPlan& plan) const {
    return std::span(weights_).subspan(static_cast<std::size_t>(plan.first), static_cast<std::size_t>(plan.count));
  }
  static std::vector<Piece> whole(Chunk chunk);
  std::vector<Piece> pieces_of(Chunk chunk, std::size_t block) const;
  bool with_header(int slot, bool first_of_group) const;
  std::size_t rank() const { return static_cast<std::size_t>(transport_.rank()); }
  std::vector<int> others(int first, int count) const;
  std::vector<int> others() const { return others(0, transport_.sites()); }
  // Those with whom exchange `number` has headers: all, or the own cluster when it runs one again by itself.
  std::vector<int> header_peers(std::uint64_t number) const;
  const Segment::Slot& slot_of(int slot) const {
    return setup_.segment.slots[static_cast<std::size_t>(slot) % setup_.segment.slots.size()];
  }
  std::string name(int rank) const { return setup_.sites[static_cast<std::size_t>(rank)]; }
  std::span<std::byte> in(int slot) const;
  std::span<const std::byte> in(int slot, Chunk chunk) const;
  std::span<float> out(int slot) const;
  std::span<float> out(int slot, Chunk chunk) const;

  static std::uint64_t tag(int kind, std::uint64_t number, int slot, std::uint32_t piece);
  static int fixed_id(int kind, std::uint64_t number, int slot);
  GlooTransport::Receive expect(int from, int kind, std::uint64_t number, int slot, const Piece& piece,
                                std::span<std::byte> to);
  void hand_over(const std::vector<int>& to, int kind, std::uint64_t number, int slot, const Piece& piece,
                 std::span<const std::byte> from);
  std::span<std::byte> arrival(std::uint64_t number, int slot, int from, const Piece& piece);
  std::span<std::byte> mean_arrival(std::uint64_t number, int slot, Chunk chunk);
  void post(std::uint64_t number, int slot, bool first_of_group);
  void post_headers(std::uint64_t number);
  void post_payload(std::uint64_t number, int slot);
  void post_piece(std::uint64_t number, int slot, std::size_t index);
  void post_means(std::uint64_t number, int slot, std::size_t index);

  Header header_of(const Send& send) const;
  void send_header(const Header& mine, std::span<const std::byte> payload, const std::vector<int>& to);
  // In rank order, of all; the own one in the place of those who are not asked.  Throws Refused.
  std::vector<Header> take_headers(const Header& mine, const std::vector<int>& from);
  void check(const Header& mine, const std::vector<Header>& all) const;
  void send_payload(const Send& send);
  void average_inline(const Send& send);
  void average_pieces(const Send& send);
  void average_piece(const Send& send, const Piece& piece);
  void send_mean(const Send& send, const Piece& piece);
  void take_means(const Send& send, std::size_t index);  // the others' pieces of this index

  GlooTransport& transport_;
  Setup setup_;
  bool near_ = false;
  std::vector<SlotPlan> plans_;
  std::size_t inline_bytes_ = 0;                                  // the largest payload that travels with a header
  std::array<std::vector<std::vector<std::byte>>, 2> header_in_;  // even and odd exchanges, a rank
  std::vector<std::byte> header_out_;
  std::vector<std::byte> arena_;                       // where payloads and encoded means arrive
  std::array<std::vector<std::byte>, 2> fixed_arena_;  // the same of fixed slots; even and odd exchanges
  std::vector<std::byte> encoded_mean_;
  std::vector<std::uint64_t> weights_;  // of the current group
  Posted posted_;
  bool header_next_ = true;  // the first exchange after a sync always has one
  std::uint64_t alone_ = 0;  // the exchange that the own cluster runs again by itself; 0: none
  std::atomic<int>& waiting_for_;
};

}  // namespace atl::link
