#include "comm/link_protocol.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/bytes.h"
#include "base/error.h"

namespace atl::link {
namespace {

constexpr std::size_t kText = 32 * 1024, kMany = 65'536;  // longest string, most entries of a list

std::uint32_t count(ByteReader& in, const char* field) {
  const std::uint32_t n = in.u32(field);
  if (n > kMany) in.fail(text(n, " ", field, ", at most ", kMany, " are possible"));
  return n;
}

void put(ByteWriter& out, const Hello& m) {
  out.string(m.site).u32(static_cast<std::uint32_t>(m.sites.size()));
  for (const std::string& site : m.sites) out.string(site);
  out.string(m.store).string(m.interface).string(m.congestion).string(m.log_level);
  for (const CodecConfig& codec : {m.codec, m.mean_codec}) out.string(codec.name).u64(codec.block).u64(codec.keep);
  out.u32(m.clusters);
  out.f64(m.emulate.bandwidth_mbit).f64(m.emulate.rtt_ms).f64(m.emulate.jitter_ms).f64(m.emulate.loss_percent);
  out.u32(m.streams).u64(m.piece_bytes).u64(m.timeout_ms).u64(m.start_ms);
  out.u32(static_cast<std::uint32_t>(m.slots.size()));
  for (const std::uint64_t values : m.slots) out.u64(values);
  out.u32(static_cast<std::uint32_t>(m.settings.size()));
  for (const auto& [key, value] : m.settings) out.string(key).string(value);
  out.hash(m.layout_hash).u64(m.nonce).u32(static_cast<std::uint32_t>(m.nonces.size()));
  for (const std::uint64_t nonce : m.nonces) out.u64(nonce);
  out.u64(m.completed).u64(m.completed_tokens).u32(m.completed_slot).boolean(m.completed_in_cluster);
}
void get(ByteReader& in, Hello& m) {
  m.site = in.string("site", kText);
  m.sites.resize(count(in, "sites"));
  for (std::string& site : m.sites) site = in.string("site", kText);
  for (std::string* word : {&m.store, &m.interface, &m.congestion, &m.log_level}) *word = in.string("word", kText);
  for (CodecConfig* codec : {&m.codec, &m.mean_codec}) {
    codec->name = in.string("codec", kText);
    codec->block = in.u64("block");
    codec->keep = in.u64("keep");
  }
  m.clusters = in.u32("clusters");
  for (double* number : {&m.emulate.bandwidth_mbit, &m.emulate.rtt_ms, &m.emulate.jitter_ms, &m.emulate.loss_percent})
    *number = in.f64("emulate");
  m.streams = in.u32("streams");
  m.piece_bytes = in.u64("piece");
  m.timeout_ms = in.u64("timeout");
  m.start_ms = in.u64("start");
  m.slots.resize(count(in, "slots"));
  for (std::uint64_t& values : m.slots) values = in.u64("slot");
  m.settings.resize(count(in, "settings"));
  for (auto& [key, value] : m.settings) {
    key = in.string("key", kText);
    value = in.string("value", kText);
  }
  m.layout_hash = in.hash("layout");
  m.nonce = in.u64("nonce");
  m.nonces.resize(count(in, "nonces"));
  for (std::uint64_t& nonce : m.nonces) nonce = in.u64("nonce");
  m.completed = in.u64("completed");
  m.completed_tokens = in.u64("tokens");
  m.completed_slot = in.u32("slot");
  m.completed_in_cluster = in.boolean("in cluster");
}

void put(ByteWriter& out, const Send& m) {
  out.u64(m.number).u32(static_cast<std::uint32_t>(m.out.slot)).u32(m.out.round).u64(m.out.step).u64(m.out.tokens);
  out.boolean(m.out.finite).boolean(m.out.first_of_group).boolean(m.out.in_cluster);
  out.i64(m.out.next_slot).boolean(m.out.next_first_of_group).boolean(m.out.next_in_cluster);
  out.hash(m.out.global_hash).u64(m.oldest_ms);
}
void get(ByteReader& in, Send& m) {
  m.number = in.u64("number");
  m.out.slot = static_cast<int>(in.u32("slot"));
  m.out.round = in.u32("round");
  m.out.step = in.u64("step");
  m.out.tokens = in.u64("tokens");
  m.out.finite = in.boolean("finite");
  m.out.first_of_group = in.boolean("first");
  m.out.in_cluster = in.boolean("in cluster");
  m.out.next_slot = static_cast<int>(in.i64("next"));
  m.out.next_first_of_group = in.boolean("next first");
  m.out.next_in_cluster = in.boolean("next in cluster");
  m.out.global_hash = in.hash("global");
  m.oldest_ms = in.u64("age");
}

void put(ByteWriter& out, const Finish& m) { out.u64(m.number); }
void get(ByteReader& in, Finish& m) { m.number = in.u64("number"); }

Kind kind_of(ByteReader& in) {
  const std::uint8_t kind = in.u8("kind");
  if (kind < 1 || kind > 5) in.fail(text("kind ", int{kind}));
  return static_cast<Kind>(kind);
}
void put(ByteWriter& out, const Leave& m) {
  out.u8(static_cast<std::uint8_t>(m.kind)).string(m.reason.substr(0, kText));
}
void get(ByteReader& in, Leave& m) {
  m.kind = kind_of(in);
  m.reason = in.string("reason", kText);
}
void put(ByteWriter& out, const Failed& m) {
  out.u8(static_cast<std::uint8_t>(m.kind)).string(m.reason.substr(0, kText));
}
void get(ByteReader& in, Failed& m) {
  m.kind = kind_of(in);
  m.reason = in.string("reason", kText);
}

void put(ByteWriter& out, const Ready& m) {
  out.u32(m.generation).u32(static_cast<std::uint32_t>(m.nonces.size()));
  for (const std::uint64_t nonce : m.nonces) out.u64(nonce);
}
void get(ByteReader& in, Ready& m) {
  m.generation = in.u32("generation");
  m.nonces.resize(count(in, "nonces"));
  for (std::uint64_t& nonce : m.nonces) nonce = in.u64("nonce");
}

void put(ByteWriter& out, const Answered& m) {
  out.u64(m.number)
      .u32(m.slot)
      .u32(m.generation)
      .boolean(m.in_cluster)
      .u64(m.tokens)
      .f64(m.seconds)
      .u64(m.payload_bytes)
      .u64(m.header_bytes);
  out.u64(m.wire_bytes).u64(m.retransmitted_bytes).u64(m.received_bytes);
}
void get(ByteReader& in, Answered& m) {
  m.number = in.u64("number");
  m.slot = in.u32("slot");
  m.generation = in.u32("generation");
  m.in_cluster = in.boolean("in cluster");
  m.tokens = in.u64("tokens");
  m.seconds = in.f64("seconds");
  m.payload_bytes = in.u64("payload");
  m.header_bytes = in.u64("headers");
  m.wire_bytes = in.u64("wire");
  m.retransmitted_bytes = in.u64("retransmitted");
  m.received_bytes = in.u64("received");
}

void put(ByteWriter& out, const Finished& m) { out.u64(m.wire_bytes).u64(m.retransmitted_bytes).u64(m.received_bytes); }
void get(ByteReader& in, Finished& m) {
  m.wire_bytes = in.u64("wire");
  m.retransmitted_bytes = in.u64("retransmitted");
  m.received_bytes = in.u64("received");
}

void put(ByteWriter& out, const Counted& m) { out.u64(m.wire_bytes).u64(m.retransmitted_bytes).u64(m.received_bytes); }
void get(ByteReader& in, Counted& m) {
  m.wire_bytes = in.u64("wire");
  m.retransmitted_bytes = in.u64("retransmitted");
  m.received_bytes = in.u64("received");
}

template <std::size_t I = 0>
Message decoded(std::size_t type, ByteReader& in) {
  if constexpr (I == std::variant_size_v<Message>) {
    in.fail(text("message type ", type, ", expected at most ", I - 1));
  } else {
    if (type != I) return decoded<I + 1>(type, in);
    std::variant_alternative_t<I, Message> message;
    get(in, message);
    in.expect_end();
    return message;
  }
}

}  // namespace

int Hello::rank() const {
  const auto found = std::find(sites.begin(), sites.end(), site);
  ATOLL_CHECK(found != sites.end(), "site ", site, " is not in the list");
  return static_cast<int>(found - sites.begin());
}

std::vector<std::byte> encode(const Message& message) {
  ByteWriter out;
  out.u32(kProtocol).u8(static_cast<std::uint8_t>(message.index()));
  std::visit([&out](const auto& m) { put(out, m); }, message);
  ATOLL_CHECK(out.size() <= kLargestMessage, "a message of ", out.size(), " bytes");
  return out.take();
}

Message decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes, ByteSource::link("message between trainer and atoll-link"));
  if (const std::uint32_t version = in.u32("protocol"); version != kProtocol)
    in.fail(text("protocol ", version, ", expected ", kProtocol, ": atoll and atoll-link must be of one build"));
  return decoded(in.u8("type"), in);
}

Sent send_message(int socket, const Message& message, bool wait) {
  const std::vector<std::byte> bytes = encode(message);
  for (;;) {
    const ssize_t n = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
    if (n == static_cast<ssize_t>(bytes.size())) return Sent::yes;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && !wait) return Sent::full;
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)) return Sent::gone;
    throw Bug(text("a message of ", bytes.size(), " bytes does not go into the socket (", n, ", errno ", errno, ")"));
  }
}

Segment segment_of(std::span<const std::uint64_t> values, const Codec& codec) {
  const auto aligned = [](std::size_t n) { return (n + 63) / 64 * 64; };
  Segment segment;
  for (const std::uint64_t n : values) {
    Segment::Slot slot{.values = n, .in_bytes = codec.encoded_bytes(n), .in = segment.bytes};
    slot.out = slot.in + aligned(slot.in_bytes);
    segment.bytes = slot.out + aligned(n * sizeof(float));
    segment.slots.push_back(slot);
  }
  return segment;
}

}  // namespace atl::link
