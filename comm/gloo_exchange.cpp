#include "comm/gloo_exchange.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace atl::link {
namespace {

enum TagKind { kHeaderTag = 1, kPayloadTag = 2, kMeanTag = 3, kSyncTag = 4, kSyncMeanTag = 5 };

// Two sites swap a payload: one latency.  One of at least so many bytes they average half each, as more sites do: two
// latencies and half of the arithmetic.  The bits are the same, so long as nothing is lost on the mean's way.
constexpr std::size_t kOwnersFrom = 8U << 20U;

// A message costs some 10 system calls: smaller ones are not split for the sake of more streams.
constexpr std::size_t kSmallestPiece = 256U << 10U;

// Messages up to this size have buffers of their own for the life of the link (GlooTransport::send_fixed).
constexpr std::size_t kLargestFixed = 512U << 10U;

// On a network this near, receives of a large payload are posted two pieces ahead, and not all at once: what is on its way
// stays in the cache, and the notice that every piece then needs costs little.  64 MB over loopback take a quarter less.
constexpr double kNear = 0.0005;  // seconds of the shortest round trip
constexpr std::size_t kNearWindow = 2;

bool lossless(const Codec& mean_codec) { return mean_codec.name() == "fp32"; }

}  // namespace

GlooExchange::GlooExchange(GlooTransport& transport, Setup setup)
    : transport_(transport), setup_(std::move(setup)), waiting_for_(*setup_.waiting_for) {
  const auto sites = static_cast<std::size_t>(transport_.sites());
  near_ = transport_.round_trip() < kNear;
  std::size_t arena = 0, fixed_arena = 0, encoded = 0;
  const std::size_t slots = setup_.segment.slots.size();
  for (std::size_t s = 0; s < (setup_.clusters > 1 ? 2 * slots : slots); ++s) {
    const Segment::Slot& slot = setup_.segment.slots[s % slots];
    const SlotPlan& plan = plans_.emplace_back(plan_of(slot, s >= slots));
    if (plan.is_inline) inline_bytes_ = std::max(inline_bytes_, slot.in_bytes);
    std::size_t& most = plan.fixed ? fixed_arena : arena;
    most = std::max(most, plan.arena_bytes);
    if (plan.owners && !lossless(*setup_.mean_codec))
      encoded = std::max(encoded, setup_.mean_codec->encoded_bytes(plan.chunks[rank()].count));
  }
  for (auto& of_rank : header_in_) of_rank.assign(sites, std::vector<std::byte>(Header::kBytes + inline_bytes_));
  header_out_.resize(Header::kBytes + inline_bytes_);
  arena_.resize(arena);
  for (auto& half : fixed_arena_) half.resize(fixed_arena);
  encoded_mean_.resize(encoded);
  weights_.assign(sites, 1);
  // What has fixed buffers is ready from now on, for even and odd exchanges.
  for (const std::uint64_t number : {1U, 2U}) {
    post_headers(number);
    for (std::size_t s = 0; s < plans_.size(); ++s)
      if (plans_[s].fixed) post_payload(number, static_cast<int>(s));
  }
  posted_ = {};
}

// ---------------------------------------------------------------------------------------------- plans

// Equal on all sites, but for `window` and what follows from it.
GlooExchange::SlotPlan GlooExchange::plan_of(const Segment::Slot& slot, bool in_cluster) const {
  const Codec &codec = *setup_.codec, &mean_codec = *setup_.mean_codec;
  const std::size_t block = exchange_block(codec, mean_codec);
  SlotPlan plan;
  plan.count = in_cluster ? transport_.sites() / setup_.clusters : transport_.sites();
  plan.first = in_cluster ? transport_.rank() / plan.count * plan.count : 0;
  plan.others = others(plan.first, plan.count);
  plan.is_inline = transport_.sites() == 1 || travels_inline(slot.in_bytes);
  if (plan.is_inline) return plan;
  const bool halves = plan.count == 2 && codec.name() == "fp32" && lossless(mean_codec) && slot.in_bytes >= kOwnersFrom;
  plan.owners = !codec.sparse() && (plan.count > 2 || halves);
  plan.chunks.resize(static_cast<std::size_t>(transport_.sites()));
  const auto of_members = plan.owners ? chunk_plan(slot.values, plan.count, block)
                                      : std::vector<Chunk>(static_cast<std::size_t>(plan.count), Chunk{0, slot.values});
  std::copy(of_members.begin(), of_members.end(), plan.chunks.begin() + plan.first);
  const std::size_t count = of_members[0].count;  // no other is larger
  std::size_t largest = codec.encoded_bytes(count);
  if (plan.owners) largest = std::max(largest, mean_codec.encoded_bytes(count));
  plan.fixed = largest <= std::min(kLargestFixed, setup_.piece_bytes);
  for (const Chunk& chunk : plan.chunks) plan.pieces.push_back(plan.fixed ? whole(chunk) : pieces_of(chunk, block));

  const std::vector<Piece>& most = plan.pieces[static_cast<std::size_t>(plan.first)];
  plan.window = most.size();
  plan.piece_bytes = codec.encoded_bytes(most[0].chunk.count);
  const auto others = static_cast<std::size_t>(plan.count - 1);
  if (near_) plan.window = std::min(kNearWindow, plan.window);
  plan.means_at = others * plan.window * plan.piece_bytes;
  plan.arena_bytes = plan.means_at + (plan.owners && !lossless(mean_codec) ? mean_codec.encoded_bytes(slot.values) : 0);
  return plan;
}

std::vector<GlooExchange::Piece> GlooExchange::whole(Chunk chunk) {
  if (chunk.count == 0) return {};
  return {{chunk, 0, 0}};
}

std::vector<GlooExchange::Piece> GlooExchange::pieces_of(Chunk chunk, std::size_t block) const {
  std::vector<Piece> pieces;
  const Codec& codec = *setup_.codec;
  const auto streams = static_cast<std::size_t>(transport_.streams());
  const std::size_t a_stream = (codec.encoded_bytes(chunk.count) + streams - 1) / streams;  // else streams would idle
  const std::size_t bytes = std::min(setup_.piece_bytes, std::max(kSmallestPiece, a_stream));
  const std::size_t values =
      std::max<std::size_t>(1, bytes / std::max<std::size_t>(1, codec.encoded_bytes(block))) * block;
  for (std::size_t done = 0; done < chunk.count; done += values) {
    const std::size_t index = pieces.size();
    pieces.push_back({{chunk.offset + done, std::min(values, chunk.count - done)},
                      static_cast<int>(index % streams),
                      static_cast<std::uint32_t>(index)});
  }
  return pieces;
}

bool GlooExchange::with_header(int slot, bool first_of_group) const {
  return first_of_group || header_next_ || plans_[static_cast<std::size_t>(slot)].is_inline;
}

std::vector<int> GlooExchange::others(int first, int count) const {
  std::vector<int> ranks;
  for (int i = 1; i < count; ++i) ranks.push_back(first + (transport_.rank() - first + i) % count);
  return ranks;
}

std::vector<int> GlooExchange::header_peers(std::uint64_t number) const {
  if (number != alone_) return others();
  const int count = transport_.sites() / setup_.clusters;
  return others(transport_.rank() / count * count, count);
}

std::span<std::byte> GlooExchange::in(int slot) const {
  return {setup_.memory + slot_of(slot).in, slot_of(slot).in_bytes};
}
std::span<const std::byte> GlooExchange::in(int slot, Chunk chunk) const {
  return in(slot).subspan(setup_.codec->encoded_bytes(chunk.offset), setup_.codec->encoded_bytes(chunk.count));
}
std::span<float> GlooExchange::out(int slot) const {
  return {reinterpret_cast<float*>(setup_.memory + slot_of(slot).out), slot_of(slot).values};
}
std::span<float> GlooExchange::out(int slot, Chunk chunk) const { return out(slot).subspan(chunk.offset, chunk.count); }

// ---------------------------------------------------------------------------------------------- messages

std::uint64_t GlooExchange::tag(int kind, std::uint64_t number, int slot, std::uint32_t piece) {
  return static_cast<std::uint64_t>(kind) << 52U | (number & 0xFFFFFU) << 32U |
         static_cast<std::uint64_t>(slot & 0xFFF) << 20U | (piece & 0xFFFFFU);
}

// An exchange is never more than one ahead of another site's (docs/link.md), so two fixed buffers of a kind are enough: one
// for even, one for odd exchanges.
int GlooExchange::fixed_id(int kind, std::uint64_t number, int slot) {
  return static_cast<int>((static_cast<unsigned>(slot) * 2 + (number & 1U)) * 8 + static_cast<unsigned>(kind));
}

GlooTransport::Receive GlooExchange::expect(int from, int kind, std::uint64_t number, int slot, const Piece& piece,
                                            std::span<std::byte> to) {
  if (plans_[static_cast<std::size_t>(slot)].fixed)
    return transport_.receive_fixed(from, fixed_id(kind, number, slot), to.data(), to.size());
  return transport_.receive(from, tag(kind, number, slot, piece.index), piece.stream, to.data(), to.size());
}

void GlooExchange::hand_over(const std::vector<int>& to, int kind, std::uint64_t number, int slot, const Piece& piece,
                             std::span<const std::byte> from) {
  if (!plans_[static_cast<std::size_t>(slot)].fixed)
    return transport_.send(to, tag(kind, number, slot, piece.index), piece.stream, from.data(), from.size());
  for (const int r : to) transport_.send_fixed(r, fixed_id(kind, number, slot), from.data(), from.size());
}

// Where the piece of the own chunk arrives, and where it is read.
std::span<std::byte> GlooExchange::arrival(std::uint64_t number, int slot, int from, const Piece& piece) {
  const SlotPlan& plan = plans_[static_cast<std::size_t>(slot)];
  std::byte* const arena = plan.fixed ? fixed_arena_[number & 1U].data() : arena_.data();
  const auto sender = static_cast<std::size_t>((from < transport_.rank() ? from : from - 1) - plan.first);
  return {arena + (sender * plan.window + piece.index % plan.window) * plan.piece_bytes,
          setup_.codec->encoded_bytes(piece.chunk.count)};
}
std::span<std::byte> GlooExchange::mean_arrival(std::uint64_t number, int slot, Chunk chunk) {
  if (lossless(*setup_.mean_codec)) return std::as_writable_bytes(out(slot, chunk));
  const SlotPlan& plan = plans_[static_cast<std::size_t>(slot)];
  std::byte* const arena = plan.fixed ? fixed_arena_[number & 1U].data() : arena_.data();
  return {arena + plan.means_at + setup_.mean_codec->encoded_bytes(chunk.offset),
          setup_.mean_codec->encoded_bytes(chunk.count)};
}

void GlooExchange::post_headers(std::uint64_t number) {
  posted_.headers.clear();
  posted_.headers.resize(static_cast<std::size_t>(transport_.sites()));
  for (const int r : header_peers(number)) {
    auto& memory = header_in_[number & 1U][static_cast<std::size_t>(r)];
    posted_.headers[static_cast<std::size_t>(r)] =
        transport_.receive_fixed(r, fixed_id(kHeaderTag, number, 0), memory.data(), memory.size());
  }
}

// Receives of exchange `number`, before anything of it is sent.
void GlooExchange::post(std::uint64_t number, int slot, bool first_of_group) {
  if (posted_.number == number) {
    ATOLL_CHECK(posted_.slot == slot && posted_.with_header == with_header(slot, first_of_group), "exchange ", number,
                " was promised with slot ", posted_.slot, " and came with ", slot);
    return;
  }
  posted_ = {.number = number, .slot = slot, .with_header = with_header(slot, first_of_group)};
  if (posted_.with_header) post_headers(number);
  if (!plans_[static_cast<std::size_t>(slot)].is_inline) post_payload(number, slot);
}

void GlooExchange::post_payload(std::uint64_t number, int slot) {
  const SlotPlan& plan = plans_[static_cast<std::size_t>(slot)];
  const auto sites = static_cast<std::size_t>(transport_.sites());
  posted_.payloads.clear();
  posted_.payloads.resize(sites);
  posted_.means.clear();
  posted_.means.resize(sites);
  for (std::size_t r = 0; r < sites; ++r) {
    posted_.payloads[r].resize(plan.pieces[rank()].size());
    if (plan.owners) posted_.means[r].resize(plan.pieces[r].size());
  }
  for (std::size_t p = 0; p < plan.window; ++p) {
    post_piece(number, slot, p);
    if (plan.owners) post_means(number, slot, p);
  }
}

void GlooExchange::post_piece(std::uint64_t number, int slot, std::size_t index) {
  const std::vector<Piece>& own = plans_[static_cast<std::size_t>(slot)].pieces[rank()];
  if (index >= own.size()) return;
  for (const int r : plan(slot).others)
    posted_.payloads[static_cast<std::size_t>(r)][index] =
        expect(r, kPayloadTag, number, slot, own[index], arrival(number, slot, r, own[index]));
}

void GlooExchange::post_means(std::uint64_t number, int slot, std::size_t index) {
  for (const int r : plan(slot).others) {
    const std::vector<Piece>& pieces = plans_[static_cast<std::size_t>(slot)].pieces[static_cast<std::size_t>(r)];
    if (index < pieces.size())
      posted_.means[static_cast<std::size_t>(r)][index] =
          expect(r, kMeanTag, number, slot, pieces[index], mean_arrival(number, slot, pieces[index].chunk));
  }
}

void GlooExchange::send_header(const Header& mine, std::span<const std::byte> payload, const std::vector<int>& to) {
  const auto bytes = encode(mine);
  std::copy(bytes.begin(), bytes.end(), header_out_.begin());
  std::copy(payload.begin(), payload.end(), header_out_.begin() + Header::kBytes);
  for (const int r : to)
    transport_.send_fixed(r, fixed_id(kHeaderTag, mine.number, 0), header_out_.data(), header_out_.size());
}

std::vector<Header> GlooExchange::take_headers(const Header& mine, const std::vector<int>& from) {
  std::vector<Header> all(static_cast<std::size_t>(transport_.sites()), mine);
  for (const int r : from) {
    const auto index = static_cast<std::size_t>(r);
    posted_.headers[index].wait(waiting_for_);
    try {
      all[index] = decode_header(std::span(header_in_[mine.number & 1U][index]).first(Header::kBytes), name(r));
    } catch (const LinkError& e) {
      throw Refused(Kind::link, e.what());
    }
  }
  check(mine, all);
  return all;
}

void GlooExchange::check(const Header& mine, const std::vector<Header>& all) const {
  const auto rank = static_cast<std::size_t>(transport_.rank());
  for (std::size_t r = 0; r < all.size(); ++r)
    if (const auto difference = disagreement(mine, name(static_cast<int>(rank)), all[r], name(static_cast<int>(r))))
      throw Refused(Kind::settings, text("exchange ", mine.number, ": ", *difference));
  for (std::size_t r = 0; r < all.size(); ++r)
    if (!all[r].finite)
      throw Refused(Kind::finite, text("exchange ", mine.number, ": the payload of ", name(static_cast<int>(r)),
                                       " (round ", all[r].round, ", step ", all[r].step,
                                       ") holds a NaN or an infinity: nobody applies it; try a lower inner.lr"));
}

// ---------------------------------------------------------------------------------------------- one exchange

// The payload follows its header at once.  A site with another slot does not take it for its own, since its tag or id holds
// the slot.
GlooExchange::Result GlooExchange::run(const Send& send) {
  const int slot = plan_index(send.out.slot, send.out.in_cluster);
  const SlotPlan& plan = plans_[static_cast<std::size_t>(slot)];
  post(send.number, slot, send.out.first_of_group);
  const Header mine = header_of(send);
  const std::vector<int> peers = header_peers(send.number);
  if (posted_.with_header) send_header(mine, plan.is_inline ? in(slot) : std::span<const std::byte>(), peers);
  if (!plan.is_inline) send_payload(send);
  if (posted_.with_header) {
    const std::vector<Header> all = take_headers(mine, peers);
    for (std::size_t r = 0; r < all.size(); ++r) weights_[r] = all[r].tokens;
    header_next_ = false;
  }
  if (plan.is_inline)
    average_inline(send);
  else
    average_pieces(send);
  transport_.wait_sends(waiting_for_);
  const auto weights = weights_of(plan);
  const int averaging = plan.is_inline ? transport_.sites() : plan.count;  // what is inline goes to all
  const Result result{
      .tokens = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}),
      .payload_bytes = sent_payload_bytes(slot_of(slot).values, transport_.rank() - (plan.is_inline ? 0 : plan.first),
                                          averaging, *setup_.codec, *setup_.mean_codec),
      .header_bytes = posted_.with_header ? Header::kBytes * peers.size() : 0};
  if (send.out.next_slot >= 0)
    post(send.number + 1, plan_index(send.out.next_slot, send.out.next_in_cluster), send.out.next_first_of_group);
  return result;
}

Header GlooExchange::header_of(const Send& send) const {
  return {.kind = Header::Kind::data,
          .finite = send.out.finite,
          .first_of_group = send.out.first_of_group,
          .generation = setup_.generation,
          .number = send.number,
          .slot = static_cast<std::uint32_t>(send.out.slot),
          .round = send.out.round,
          .step = send.out.step,
          .tokens = send.out.tokens,
          .payload_bytes = slot_of(send.out.slot).in_bytes,
          .layout_hash = setup_.layout_hash,
          .settings_hash = setup_.settings_hash,
          .global_hash = send.out.global_hash};
}

void GlooExchange::send_payload(const Send& send) {
  const int slot = plan_index(send.out.slot, send.out.in_cluster);
  const SlotPlan& plan = plans_[static_cast<std::size_t>(slot)];
  for (const int r : plan.others)
    for (const Piece& piece : plan.pieces[static_cast<std::size_t>(r)])
      hand_over({r}, kPayloadTag, send.number, slot, piece, in(slot, piece.chunk));
}

void GlooExchange::average_inline(const Send& send) {
  const int slot = plan_index(send.out.slot, send.out.in_cluster);
  const SlotPlan& plan = plans_[static_cast<std::size_t>(slot)];
  std::vector<std::span<const std::byte>> payloads;
  for (auto& message : header_in_[send.number & 1U])
    payloads.push_back(std::span(message).subspan(Header::kBytes, in(slot).size()));
  payloads[rank()] = in(slot);
  exchange_mean(std::span(payloads).subspan(static_cast<std::size_t>(plan.first), static_cast<std::size_t>(plan.count)),
                weights_of(plan), *setup_.codec, *setup_.mean_codec, out(slot));
}

// Piece by piece.  Near, the others' means are taken in step with the own pieces, so that little is on its way at a time and
// stays in the cache; far, when all of the own are done.
void GlooExchange::average_pieces(const Send& send) {
  const SlotPlan& plan = plans_[static_cast<std::size_t>(plan_index(send.out.slot, send.out.in_cluster))];
  const std::size_t own = plan.pieces[rank()].size(), most = plan.pieces[static_cast<std::size_t>(plan.first)].size();
  const std::size_t behind = near_ ? 1 : most;
  for (std::size_t p = 0; p < most + (plan.owners ? behind : 0); ++p) {
    if (p < own) average_piece(send, plan.pieces[rank()][p]);
    if (plan.owners && p >= behind) take_means(send, p - behind);
  }
}

void GlooExchange::average_piece(const Send& send, const Piece& piece) {
  const int slot = plan_index(send.out.slot, send.out.in_cluster);
  const SlotPlan& plan = plans_[static_cast<std::size_t>(slot)];
  std::vector<std::span<const std::byte>> parts(static_cast<std::size_t>(plan.count));
  for (const int r : plan.others) {
    posted_.payloads[static_cast<std::size_t>(r)][piece.index].wait(waiting_for_);
    parts[static_cast<std::size_t>(r - plan.first)] = arrival(send.number, slot, r, piece);
  }
  parts[rank() - static_cast<std::size_t>(plan.first)] = in(slot, piece.chunk);
  average(parts, weights_of(plan), *setup_.codec, out(slot, piece.chunk));
  post_piece(send.number, slot, piece.index + plan.window);
  if (plan.owners) send_mean(send, piece);
}

// The owner, too, keeps what the others will decode.
void GlooExchange::send_mean(const Send& send, const Piece& piece) {
  const int slot = plan_index(send.out.slot, send.out.in_cluster);
  const std::vector<int>& to = plan(slot).others;
  const Codec& mean_codec = *setup_.mean_codec;
  const auto mean = out(slot, piece.chunk);
  if (lossless(mean_codec)) return hand_over(to, kMeanTag, send.number, slot, piece, std::as_bytes(mean));
  const Chunk own = plans_[static_cast<std::size_t>(slot)].chunks[rank()];
  const auto encoded = std::span(encoded_mean_)
                           .subspan(mean_codec.encoded_bytes(piece.chunk.offset - own.offset),
                                    mean_codec.encoded_bytes(piece.chunk.count));
  mean_codec.encode(mean, {}, encoded);
  mean_codec.decode(encoded, mean);
  hand_over(to, kMeanTag, send.number, slot, piece, encoded);
}

void GlooExchange::take_means(const Send& send, std::size_t index) {
  const int slot = plan_index(send.out.slot, send.out.in_cluster);
  const SlotPlan& plan = plans_[static_cast<std::size_t>(slot)];
  for (const int r : plan.others) {
    const std::vector<Piece>& pieces = plan.pieces[static_cast<std::size_t>(r)];
    if (index >= pieces.size()) continue;
    const Piece& piece = pieces[index];
    posted_.means[static_cast<std::size_t>(r)][index].wait(waiting_for_);
    if (!lossless(*setup_.mean_codec))
      setup_.mean_codec->decode(mean_arrival(send.number, slot, piece.chunk), out(slot, piece.chunk));
  }
  post_means(send.number, slot, index + plan.window);
}

void GlooExchange::finish(std::uint64_t number) {
  if (posted_.number != number || !posted_.with_header) {
    posted_ = {.number = number, .with_header = true};
    post_headers(number);
  }
  const Header mine{.kind = Header::Kind::finish,
                    .generation = setup_.generation,
                    .number = number,
                    .layout_hash = setup_.layout_hash,
                    .settings_hash = setup_.settings_hash};
  send_header(mine, {}, others());
  take_headers(mine, others());
  transport_.wait_sends(waiting_for_);
}

// ---------------------------------------------------------------------------------------------- sync

std::optional<std::uint64_t> GlooExchange::sync(const Completed& completed, const std::function<Send()>& pending) {
  const auto sites = static_cast<std::size_t>(transport_.sites());
  const Header mine{.kind = Header::Kind::sync,
                    .first_of_group = !completed.in_cluster,
                    .generation = setup_.generation,
                    .number = completed.number,
                    .slot = static_cast<std::uint32_t>(completed.slot),
                    .tokens = completed.tokens,
                    .layout_hash = setup_.layout_hash,
                    .settings_hash = setup_.settings_hash};
  const auto bytes = encode(mine);
  std::vector<std::array<std::byte, Header::kBytes>> received(sites);
  std::vector<GlooTransport::Receive> receives(sites);
  for (const int r : others())
    receives[static_cast<std::size_t>(r)] =
        transport_.receive(r, tag(kSyncTag, 0, 0, 0), 0, received[static_cast<std::size_t>(r)].data(), Header::kBytes);
  if (sites > 1) transport_.send(others(), tag(kSyncTag, 0, 0, 0), 0, bytes.data(), bytes.size());
  std::vector<Header> all(sites, mine);
  for (const int r : others()) {
    receives[static_cast<std::size_t>(r)].wait(waiting_for_);
    all[static_cast<std::size_t>(r)] = decode_header(received[static_cast<std::size_t>(r)], name(r));
  }
  transport_.wait_sends(waiting_for_);

  const Header ahead = *std::max_element(  // of the lowest rank
      all.begin(), all.end(), [](const Header& a, const Header& b) { return a.number < b.number; });
  const auto is_ahead = [&](int r) { return all[static_cast<std::size_t>(r)].number == ahead.number; };
  int first_ahead = 0;
  while (!is_ahead(first_ahead)) ++first_ahead;
  bool all_equal = true;
  for (int r = 0; r < transport_.sites(); ++r) {
    if (is_ahead(r)) continue;
    all_equal = false;
    if (all[static_cast<std::size_t>(r)].number + 1 != ahead.number)
      throw Refused(Kind::link,
                    text(name(r), " has completed ", all[static_cast<std::size_t>(r)].number, " exchanges, ",
                         name(first_ahead), " ", ahead.number, ": it was started anew without its state"));
  }
  if (ahead.slot >= setup_.segment.slots.size())
    throw Refused(Kind::link, text(name(first_ahead), " speaks of slot ", ahead.slot));
  if (all_equal) return std::nullopt;

  // The lowest rank ahead of those that averaged together serves the others of them.
  const bool in_cluster = !ahead.first_of_group && setup_.clusters > 1;
  const int served = plan_index(static_cast<int>(ahead.slot), in_cluster);
  const SlotPlan& among = plan(served);
  const bool am_behind = !is_ahead(transport_.rank());
  int server = -1;
  std::vector<int> behind;
  for (int r = among.first; r < among.first + among.count; ++r) {
    if (!is_ahead(r)) behind.push_back(r);
    if (is_ahead(r) && server < 0) server = r;
  }
  if (am_behind) {
    const Send open = pending();  // the trainer has sent it, or will
    if (open.number != ahead.number || open.out.slot != static_cast<int>(ahead.slot))
      throw Refused(Kind::settings,
                    text("exchange ", ahead.number, " is slot ", ahead.slot, " at ", name(first_ahead), ", but ",
                         open.out.slot, " (exchange ", open.number, ") at ", name(transport_.rank())));
  }
  if (server < 0) {
    alone_ = ahead.number;
    return std::nullopt;
  }
  const auto mean_tag = tag(kSyncMeanTag, ahead.number, served, 0);
  const auto memory = std::as_writable_bytes(out(served));
  if (transport_.rank() == server && !behind.empty()) {
    transport_.send(behind, mean_tag, 0, memory.data(), memory.size());
    transport_.wait_sends(waiting_for_);
  } else if (am_behind) {
    auto receive = transport_.receive(server, mean_tag, 0, memory.data(), memory.size());
    receive.wait(waiting_for_);
    return all[static_cast<std::size_t>(server)].tokens;
  }
  return std::nullopt;
}

}  // namespace atl::link
