#include "comm/gloo_exchange.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace atl::link {
namespace {

enum TagKind { kHeaderTag = 1, kPayloadTag = 2, kMeanTag = 3, kSyncTag = 4, kSyncMeanTag = 5 };

constexpr std::size_t kOwnersFrom = 8U << 20U;  // bytes of a payload between two sites

// A message costs some 10 system calls: smaller ones are not split for the sake of more streams.
constexpr std::size_t kSmallestPiece = 256U << 10U;

// Messages up to this size have buffers of their own for the life of the link (GlooTransport::send_fixed).
constexpr std::size_t kLargestFixed = 512U << 10U;

bool lands_in_out(const Codec& mean_codec) { return mean_codec.name() == "fp32"; }

}  // namespace

GlooExchange::GlooExchange(GlooTransport& transport, Setup setup)
    : transport_(transport), setup_(std::move(setup)), waiting_for_(*setup_.waiting_for) {
  std::size_t arena = 0, fixed_arena = 0, encoded = 0;
  const int sites = transport_.sites();
  for (std::size_t s = 0; s < setup_.segment.slots.size(); ++s) {
    const Segment::Slot& slot = setup_.segment.slots[s];
    if (is_inline(static_cast<int>(s))) {
      inline_bytes_ = std::max(inline_bytes_, slot.in_bytes);
      continue;
    }
    if (!owners(static_cast<int>(s))) {
      std::size_t& most = is_fixed(static_cast<int>(s)) ? fixed_arena : arena;
      most = std::max(most, slot.in_bytes);
      continue;
    }
    const Chunk own = chunks_of(static_cast<int>(s))[static_cast<std::size_t>(transport_.rank())];
    std::size_t bytes = setup_.codec->encoded_bytes(own.count) * static_cast<std::size_t>(sites - 1);
    if (!lands_in_out(*setup_.mean_codec)) {
      bytes += setup_.mean_codec->encoded_bytes(slot.values);
      encoded = std::max(encoded, setup_.mean_codec->encoded_bytes(own.count));
    }
    std::size_t& most = is_fixed(static_cast<int>(s)) ? fixed_arena : arena;
    most = std::max(most, bytes);
  }
  for (auto& of_rank : header_in_)
    of_rank.assign(static_cast<std::size_t>(sites), std::vector<std::byte>(Header::kBytes + inline_bytes_));
  header_out_.resize(Header::kBytes + inline_bytes_);
  arena_.resize(arena);
  for (auto& half : fixed_arena_) half.resize(fixed_arena);
  encoded_mean_.resize(encoded);
  weights_.assign(static_cast<std::size_t>(sites), 1);
  // What has fixed buffers is ready from now on, for odd and even exchanges.
  for (const std::uint64_t number : {1U, 2U}) {
    post_headers(number);
    for (std::size_t s = 0; s < setup_.segment.slots.size(); ++s)
      if (is_fixed(static_cast<int>(s))) post_payload(number, static_cast<int>(s));
  }
  posted_ = {};
}

// ---------------------------------------------------------------------------------------------- parts

bool GlooExchange::is_inline(int slot) const { return travels_inline(slot_of(slot).in_bytes); }

// Two sites swap payloads: one latency.  A large one takes two and half of the arithmetic; the bits are the same, since fp32
// means lose nothing.
bool GlooExchange::owners(int slot) const {
  if (transport_.sites() > 2) return true;
  return setup_.codec->name() == "fp32" && setup_.mean_codec->name() == "fp32" && slot_of(slot).in_bytes >= kOwnersFrom;
}

std::vector<Chunk> GlooExchange::chunks_of(int slot) const {
  return chunk_plan(slot_of(slot).values, transport_.sites(), exchange_block(*setup_.codec, *setup_.mean_codec));
}

bool GlooExchange::with_header(int slot, bool first_of_group) const {
  return first_of_group || header_next_ || is_inline(slot);
}

std::vector<int> GlooExchange::others() const {  // starting behind the own rank, so that not all send to one first
  std::vector<int> ranks;
  for (int i = 1; i < transport_.sites(); ++i) ranks.push_back((transport_.rank() + i) % transport_.sites());
  return ranks;
}

std::span<std::byte> GlooExchange::in(int slot) const {
  return {setup_.memory + slot_of(slot).in, slot_of(slot).in_bytes};
}
std::span<float> GlooExchange::out(int slot) const {
  return {reinterpret_cast<float*>(setup_.memory + slot_of(slot).out), slot_of(slot).values};
}

std::uint64_t GlooExchange::tag(int kind, std::uint64_t number, int slot, std::uint32_t piece) const {
  return static_cast<std::uint64_t>(kind) << 52U | (number & 0xFFFFFU) << 32U |
         static_cast<std::uint64_t>(slot & 0xFFF) << 20U | (piece & 0xFFFFFU);
}

// Whether no message of the slot is larger than what has a buffer of its own.
bool GlooExchange::is_fixed(int slot) const {
  if (is_inline(slot) || transport_.sites() == 1) return false;
  std::size_t largest = slot_of(slot).in_bytes;
  if (owners(slot)) {
    const std::size_t count = chunks_of(slot)[0].count;  // no other is larger
    largest = std::max(setup_.codec->encoded_bytes(count), setup_.mean_codec->encoded_bytes(count));
  }
  return largest <= std::min(kLargestFixed, setup_.piece_bytes);
}

// Equal on all sites: from the plan alone.
std::vector<GlooExchange::Piece> GlooExchange::pieces_of(int slot, Chunk chunk) const {
  std::vector<Piece> pieces;
  if (chunk.count == 0) return pieces;
  if (is_fixed(slot)) return {{chunk, 0, 0}};
  const Codec& codec = *setup_.codec;
  const std::size_t block = exchange_block(*setup_.codec, *setup_.mean_codec);
  const std::size_t bytes_a_block = std::max<std::size_t>(1, codec.encoded_bytes(block));
  const auto streams = static_cast<std::size_t>(transport_.streams());
  const std::size_t a_stream = (codec.encoded_bytes(chunk.count) + streams - 1) / streams;  // else streams would idle
  const std::size_t bytes = std::min(setup_.piece_bytes, std::max(kSmallestPiece, a_stream));
  const std::size_t values = std::max<std::size_t>(1, bytes / bytes_a_block) * block;
  for (std::size_t done = 0; done < chunk.count; done += values) {
    const auto index = static_cast<std::uint32_t>(pieces.size());
    pieces.push_back({{chunk.offset + done, std::min(values, chunk.count - done)},
                      static_cast<int>(index) % transport_.streams(),
                      index});
  }
  return pieces;
}

// One exchange is never more than one ahead of another site's (docs/link.md), so two fixed buffers of a kind are enough:
// one for odd, one for even exchanges.
int GlooExchange::fixed_id(int kind, std::uint64_t number, int slot) {
  return static_cast<int>((static_cast<unsigned>(slot) * 2 + (number & 1U)) * 8 + static_cast<unsigned>(kind));
}

GlooTransport::Receive GlooExchange::expect(int from, int kind, std::uint64_t number, int slot, const Piece& piece,
                                            std::byte* data, std::size_t bytes) {
  if (is_fixed(slot)) return transport_.receive_fixed(from, fixed_id(kind, number, slot), data, bytes);
  return transport_.receive(from, tag(kind, number, slot, piece.index), piece.stream, data, bytes);
}

void GlooExchange::hand_over(const std::vector<int>& to, int kind, std::uint64_t number, int slot, const Piece& piece,
                             const std::byte* data, std::size_t bytes) {
  if (!is_fixed(slot)) return transport_.send(to, tag(kind, number, slot, piece.index), piece.stream, data, bytes);
  for (const int r : to) transport_.send_fixed(r, fixed_id(kind, number, slot), data, bytes);
}

void GlooExchange::post_headers(std::uint64_t number) {
  posted_.headers.clear();
  posted_.headers.resize(static_cast<std::size_t>(transport_.sites()));
  for (const int r : others()) {
    auto& memory = header_in_[number & 1U][static_cast<std::size_t>(r)];
    posted_.headers[static_cast<std::size_t>(r)] =
        transport_.receive_fixed(r, fixed_id(kHeaderTag, number, 0), memory.data(), memory.size());
  }
}

// All receives of exchange `number`, before anything of it is sent.
void GlooExchange::post(std::uint64_t number, int slot, bool first_of_group) {
  if (posted_.number == number) {
    ATOLL_CHECK(posted_.slot == slot && posted_.with_header == with_header(slot, first_of_group), "exchange ", number,
                " was promised with slot ", posted_.slot, " and came with ", slot);
    return;
  }
  posted_ = {.number = number, .slot = slot, .with_header = with_header(slot, first_of_group)};
  if (posted_.with_header) post_headers(number);
  if (!is_inline(slot)) post_payload(number, slot);
}

std::byte* GlooExchange::arena(std::uint64_t number, int slot) {
  return is_fixed(slot) ? fixed_arena_[number & 1U].data() : arena_.data();
}

void GlooExchange::post_payload(std::uint64_t number, int slot) {
  const Codec &codec = *setup_.codec, &mean_codec = *setup_.mean_codec;
  const auto sites = static_cast<std::size_t>(transport_.sites());
  posted_.payloads.clear();
  posted_.payloads.resize(sites);
  posted_.means.clear();
  posted_.means.resize(sites);
  std::byte* at = arena(number, slot);
  if (!owners(slot)) {
    const int peer = 1 - transport_.rank();
    for (const Piece& piece : pieces_of(slot, {0, slot_of(slot).values}))
      posted_.payloads[static_cast<std::size_t>(peer)].push_back(expect(peer, kPayloadTag, number, slot, piece,
                                                                        at + codec.encoded_bytes(piece.chunk.offset),
                                                                        codec.encoded_bytes(piece.chunk.count)));
    return;
  }
  const auto chunks = chunks_of(slot);
  const Chunk own = chunks[static_cast<std::size_t>(transport_.rank())];
  for (const int r : others()) {  // parts of the own chunk, one site's behind the other's
    for (const Piece& piece : pieces_of(slot, own))
      posted_.payloads[static_cast<std::size_t>(r)].push_back(
          expect(r, kPayloadTag, number, slot, piece, at + codec.encoded_bytes(piece.chunk.offset - own.offset),
                 codec.encoded_bytes(piece.chunk.count)));
    at += codec.encoded_bytes(own.count);
  }
  for (const int r : others()) {  // means of the others' chunks
    for (const Piece& piece : pieces_of(slot, chunks[static_cast<std::size_t>(r)])) {
      std::byte* to = lands_in_out(mean_codec) ? reinterpret_cast<std::byte*>(out(slot).data() + piece.chunk.offset)
                                               : at + mean_codec.encoded_bytes(piece.chunk.offset);
      posted_.means[static_cast<std::size_t>(r)].push_back(
          expect(r, kMeanTag, number, slot, piece, to, mean_codec.encoded_bytes(piece.chunk.count)));
    }
  }
}

// ---------------------------------------------------------------------------------------------- headers

void GlooExchange::send_header(const Header& mine, std::span<const std::byte> payload) {
  const auto bytes = encode(mine);
  std::copy(bytes.begin(), bytes.end(), header_out_.begin());
  std::copy(payload.begin(), payload.end(), header_out_.begin() + Header::kBytes);
  for (const int r : others())
    transport_.send_fixed(r, fixed_id(kHeaderTag, mine.number, 0), header_out_.data(), header_out_.size());
}

std::vector<Header> GlooExchange::take_headers(const Header& mine) {
  std::vector<Header> all(static_cast<std::size_t>(transport_.sites()));
  all[static_cast<std::size_t>(transport_.rank())] = mine;
  for (const int r : others()) {
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
  const int slot = send.out.slot;
  post(send.number, slot, send.out.first_of_group);
  const Header mine = header_of(send);
  if (posted_.with_header) send_header(mine, is_inline(slot) ? in(slot) : std::span<const std::byte>());
  if (!is_inline(slot)) send_payload(send);
  if (posted_.with_header) {
    const std::vector<Header> all = take_headers(mine);
    for (std::size_t r = 0; r < all.size(); ++r) weights_[r] = all[r].tokens;
    header_next_ = false;
  }
  if (is_inline(slot))
    average_inline(send);
  else if (owners(slot))
    average_own_chunk(send);
  else
    average_pair(send);
  if (!is_inline(slot) && owners(slot)) take_means(send);
  transport_.wait_sends(waiting_for_);
  const Result result{.tokens = std::accumulate(weights_.begin(), weights_.end(), std::uint64_t{0}),
                      .payload_bytes = sent_payload_bytes(slot_of(slot).values, transport_.rank(), transport_.sites(),
                                                          *setup_.codec, *setup_.mean_codec),
                      .header_bytes = posted_.with_header ? Header::kBytes * (weights_.size() - 1) : 0};
  if (send.out.next_slot >= 0) post(send.number + 1, send.out.next_slot, send.out.next_first_of_group);
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
  const int slot = send.out.slot;
  const Codec& codec = *setup_.codec;
  const auto send_chunk = [&](int to, Chunk chunk) {
    for (const Piece& piece : pieces_of(slot, chunk))
      hand_over({to}, kPayloadTag, send.number, slot, piece, in(slot).data() + codec.encoded_bytes(piece.chunk.offset),
                codec.encoded_bytes(piece.chunk.count));
  };
  if (!owners(slot)) return send_chunk(1 - transport_.rank(), {0, slot_of(slot).values});
  const auto chunks = chunks_of(slot);
  for (const int r : others()) send_chunk(r, chunks[static_cast<std::size_t>(r)]);
}

void GlooExchange::average_inline(const Send& send) {
  std::vector<std::span<const std::byte>> payloads;
  for (int r = 0; r < transport_.sites(); ++r)
    payloads.push_back(r == transport_.rank()
                           ? std::span<const std::byte>(in(send.out.slot))
                           : std::span<const std::byte>(header_in_[send.number & 1U][static_cast<std::size_t>(r)])
                                 .subspan(Header::kBytes, in(send.out.slot).size()));
  exchange_mean(payloads, weights_, *setup_.codec, *setup_.mean_codec, out(send.out.slot));
}

void GlooExchange::average_pair(const Send& send) {
  const int slot = send.out.slot, peer = 1 - transport_.rank();
  const Codec& codec = *setup_.codec;
  for (const Piece& piece : pieces_of(slot, {0, slot_of(slot).values})) {
    posted_.payloads[static_cast<std::size_t>(peer)][piece.index].wait(waiting_for_);
    const std::size_t from = codec.encoded_bytes(piece.chunk.offset), bytes = codec.encoded_bytes(piece.chunk.count);
    const std::span<const std::byte> own = in(slot).subspan(from, bytes),
                                     received = std::span<const std::byte>(arena(send.number, slot) + from, bytes);
    const std::vector<std::span<const std::byte>> both =
        transport_.rank() == 0 ? std::vector{own, received} : std::vector{received, own};
    average(both, weights_, codec, out(slot).subspan(piece.chunk.offset, piece.chunk.count));
  }
}

void GlooExchange::average_own_chunk(const Send& send) {
  const int slot = send.out.slot, rank = transport_.rank();
  const Codec &codec = *setup_.codec, &mean_codec = *setup_.mean_codec;
  const Chunk own = chunks_of(slot)[static_cast<std::size_t>(rank)];
  const std::size_t part = codec.encoded_bytes(own.count);
  for (const Piece& piece : pieces_of(slot, own)) {
    const std::size_t from = codec.encoded_bytes(piece.chunk.offset - own.offset),
                      bytes = codec.encoded_bytes(piece.chunk.count);
    std::vector<std::span<const std::byte>> parts(static_cast<std::size_t>(transport_.sites()));
    parts[static_cast<std::size_t>(rank)] = in(slot).subspan(codec.encoded_bytes(piece.chunk.offset), bytes);
    std::size_t place = 0;
    for (const int r : others()) {
      posted_.payloads[static_cast<std::size_t>(r)][piece.index].wait(waiting_for_);
      parts[static_cast<std::size_t>(r)] = std::span<const std::byte>(arena(send.number, slot) + place + from, bytes);
      place += part;
    }
    const auto mean = out(slot).subspan(piece.chunk.offset, piece.chunk.count);
    average(parts, weights_, codec, mean);
    std::span<const std::byte> encoded = std::as_bytes(mean);
    if (!lands_in_out(mean_codec)) {
      const auto room = std::span(encoded_mean_)
                            .subspan(mean_codec.encoded_bytes(piece.chunk.offset - own.offset),
                                     mean_codec.encoded_bytes(piece.chunk.count));
      mean_codec.encode(mean, {}, room);
      mean_codec.decode(room, mean);
      encoded = room;
    }
    hand_over(others(), kMeanTag, send.number, slot, piece, encoded.data(), encoded.size());
  }
}

void GlooExchange::take_means(const Send& send) {
  const int slot = send.out.slot;
  const Codec &codec = *setup_.codec, &mean_codec = *setup_.mean_codec;
  const auto chunks = chunks_of(slot);
  const Chunk own = chunks[static_cast<std::size_t>(transport_.rank())];
  const std::byte* means =
      arena(send.number, slot) + codec.encoded_bytes(own.count) * static_cast<std::size_t>(transport_.sites() - 1);
  for (const int r : others())
    for (const Piece& piece : pieces_of(slot, chunks[static_cast<std::size_t>(r)])) {
      posted_.means[static_cast<std::size_t>(r)][piece.index].wait(waiting_for_);
      if (!lands_in_out(mean_codec))
        mean_codec.decode(
            {means + mean_codec.encoded_bytes(piece.chunk.offset), mean_codec.encoded_bytes(piece.chunk.count)},
            out(slot).subspan(piece.chunk.offset, piece.chunk.count));
    }
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
  send_header(mine, {});
  take_headers(mine);
  transport_.wait_sends(waiting_for_);
}

// ---------------------------------------------------------------------------------------------- sync

std::optional<std::uint64_t> GlooExchange::sync(std::uint64_t completed, int slot, std::uint64_t tokens,
                                                const std::function<Send()>& pending) {
  const auto sites = static_cast<std::size_t>(transport_.sites());
  const Header mine{.kind = Header::Kind::sync,
                    .generation = setup_.generation,
                    .number = completed,
                    .slot = static_cast<std::uint32_t>(slot),
                    .tokens = tokens,
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

  const auto ahead = std::max_element(
      all.begin(), all.end(), [](const Header& a, const Header& b) { return a.number < b.number; });  // lowest rank
  const int server = static_cast<int>(ahead - all.begin());
  std::vector<int> behind;
  for (std::size_t r = 0; r < sites; ++r) {
    if (all[r].number == ahead->number) continue;
    if (all[r].number + 1 != ahead->number)
      throw Refused(Kind::link, text(name(static_cast<int>(r)), " has completed ", all[r].number, " exchanges, ",
                                     name(server), " ", ahead->number, ": it was started anew without its state"));
    behind.push_back(static_cast<int>(r));
  }
  if (ahead->slot >= setup_.segment.slots.size())
    throw Refused(Kind::link, text(name(server), " speaks of slot ", ahead->slot));
  if (behind.empty()) return std::nullopt;
  const int served = static_cast<int>(ahead->slot);
  const bool am_behind = completed != ahead->number;
  const auto mean_tag = tag(kSyncMeanTag, ahead->number, served, 0);
  const auto memory = std::as_writable_bytes(out(served));
  if (transport_.rank() == server) {
    transport_.send(behind, mean_tag, 0, memory.data(), memory.size());
    transport_.wait_sends(waiting_for_);
  } else if (am_behind) {
    const Send open = pending();  // the trainer has sent it, or will
    if (open.number != ahead->number || open.out.slot != served)
      throw Refused(Kind::settings,
                    text("exchange ", ahead->number, " is slot ", served, " at ", name(server), ", but ", open.out.slot,
                         " (exchange ", open.number, ") at ", name(transport_.rank())));
    auto receive = transport_.receive(server, mean_tag, 0, memory.data(), memory.size());
    receive.wait(waiting_for_);
    return ahead->tokens;
  }
  return std::nullopt;
}

}  // namespace atl::link
