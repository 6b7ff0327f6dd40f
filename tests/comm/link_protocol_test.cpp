// Messages between trainer and link: what goes in comes out, and nothing else is taken.
#include "comm/link_protocol.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>
#include <thread>

#include "base/error.h"

using namespace atl;
using namespace atl::link;

namespace {

// One message of every type, every field away from its default.
std::vector<Message> samples() {
  Hello hello;
  hello.site = "site-1";
  hello.sites = {"site-0", "site-1", "die dritte"};
  hello.store = "file:///tmp/store";
  hello.interface = "eth0";
  hello.codec = {.name = "bf16", .block = 256, .keep = 3};
  hello.mean_codec = {.name = "fp32"};
  hello.congestion = "bbr";
  hello.log_level = "debug";
  hello.streams = 3;
  hello.piece_bytes = 1U << 20U;
  hello.timeout_ms = 12'345;
  hello.start_ms = 777;
  hello.slots = {0, 1, 1ULL << 40U};
  hello.settings = {{"inner.lr", "0.1"}, {"outer.period", ""}};
  hello.layout_hash = {.high = 1, .low = 2};
  hello.nonce = 3;
  hello.nonces = {4, 3, 5};
  hello.completed = 6;
  hello.completed_tokens = 7;
  hello.completed_slot = 2;
  hello.completed_in_cluster = true;
  hello.clusters = 3;
  hello.emulate = {.bandwidth_mbit = 100, .rtt_ms = 50.5, .jitter_ms = 2, .loss_percent = 0.1};
  Send send{.number = 9, .out = {}, .oldest_ms = 10};
  send.out = {.slot = 2,
              .round = 3,
              .step = 4,
              .tokens = 5,
              .finite = false,
              .first_of_group = false,
              .in_cluster = true,
              .next_slot = -1,
              .next_in_cluster = true,
              .global_hash = {.high = 6, .low = 7}};
  Answered answered;
  answered.number = 1;
  answered.slot = 2;
  answered.in_cluster = true;
  answered.generation = 3;
  answered.tokens = 4;
  answered.seconds = 0.125;
  answered.payload_bytes = 5;
  answered.header_bytes = 6;
  answered.wire_bytes = 7;
  answered.retransmitted_bytes = 8;
  return {hello,
          send,
          Finish{.number = 11},
          Leave{.kind = Kind::user, .reason = "stopped by its user at step 120"},
          Ready{.generation = 12, .nonces = {1, 2, 3}},
          answered,
          Failed{.kind = Kind::finite, .reason = "a NaN"},
          Finished{},
          Counted{.wire_bytes = 1, .retransmitted_bytes = 2}};
}

}  // namespace

TEST_CASE("link protocol: every message comes out as it went in") {
  for (const Message& message : samples()) {
    CAPTURE(message.index());
    const auto bytes = encode(message);
    const Message back = decode(bytes);
    CHECK(back.index() == message.index());
    CHECK(encode(back) == bytes);  // every field is in the bytes: see the next test
  }
  const Message read = decode(encode(samples()[0]));  // a Message of its own: the fields outlive the statement
  const auto& hello = std::get<Hello>(read);
  CHECK(hello.sites == std::vector<std::string>{"site-0", "site-1", "die dritte"});
  CHECK(hello.slots == std::vector<std::uint64_t>{0, 1, 1ULL << 40U});
  CHECK(hello.settings[1] == std::pair<std::string, std::string>{"outer.period", ""});
  CHECK(hello.rank() == 1);
  CHECK(hello.nonces == std::vector<std::uint64_t>{4, 3, 5});
  const Message sent = decode(encode(samples()[1]));
  const auto& send = std::get<Send>(sent);
  CHECK(send.out.next_slot == -1);
  CHECK_FALSE(send.out.finite);
  CHECK(send.out.global_hash == Hash128{.high = 6, .low = 7});
  CHECK(send.oldest_ms == 10);
}

TEST_CASE("link protocol: a message cut short anywhere or with a byte too many is refused") {
  for (const Message& message : samples()) {
    CAPTURE(message.index());
    auto bytes = encode(message);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      CAPTURE(n);
      CHECK_THROWS_AS(decode(std::span(bytes).first(n)), LinkError);
    }
    bytes.push_back(std::byte{0});
    CHECK_THROWS_AS(decode(bytes), LinkError);
  }
}

TEST_CASE("link protocol: another version is refused, and the text says what to do") {
  auto bytes = encode(Finish{.number = 1});
  bytes[0] = std::byte{static_cast<unsigned char>(kProtocol + 1)};
  CHECK_THROWS_WITH_AS(decode(bytes), doctest::Contains("must be of one build"), LinkError);
}

TEST_CASE("link protocol: no bytes make decoding crash or take memory without end") {
  std::mt19937 random(20261201);
  for (const Message& message : samples()) {
    const auto whole = encode(message);
    for (int i = 0; i < 3000; ++i) {
      auto bytes = whole;
      const int flips = 1 + static_cast<int>(random() % 4);
      for (int f = 0; f < flips; ++f) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      try {
        (void)decode(bytes);  // may well be a message: only the length, the type and the ranges are looked at
      } catch (const LinkError&) {
      }
    }
  }
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    CHECK_THROWS_AS(decode(bytes), LinkError);
  }
}

TEST_CASE("link protocol: a packet is one message, and a closed socket is false, not a signal") {
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) == 0);
  CHECK(send_message(ends[0], Finish{.number = 1}) == Sent::yes);
  CHECK(send_message(ends[0], Leave{.kind = Kind::user, .reason = std::string(30'000, 'x')}) == Sent::yes);
  std::vector<std::byte> packet(kLargestMessage);
  ssize_t n = recv(ends[1], packet.data(), packet.size(), 0);
  CHECK(std::get<Finish>(decode(std::span(packet).first(static_cast<std::size_t>(n)))).number == 1);
  n = recv(ends[1], packet.data(), packet.size(), 0);
  CHECK(std::get<Leave>(decode(std::span(packet).first(static_cast<std::size_t>(n)))).reason.size() == 30'000);
  int sent = 0;
  while (send_message(ends[0], Finish{.number = 2}, false) == Sent::yes && sent < 1'000'000) ++sent;
  CHECK(sent > 1);
  CHECK(send_message(ends[0], Finish{.number = 2}, false) == Sent::full);
  close(ends[1]);
  CHECK(send_message(ends[0], Finish{.number = 2}) == Sent::gone);
  close(ends[0]);
}

TEST_CASE("link protocol: the segment's areas are apart, aligned and large enough") {
  for (const char* name : {"fp32", "bf16"}) {
    const auto codec = make_codec(name);
    const std::vector<std::uint64_t> values{0, 1, 16, 17, 1000, 0, 100'003};
    const Segment segment = segment_of(values, *codec);
    REQUIRE(segment.slots.size() == values.size());
    std::size_t end = 0;
    for (std::size_t s = 0; s < values.size(); ++s) {
      const Segment::Slot& slot = segment.slots[s];
      CHECK(slot.values == values[s]);
      CHECK(slot.in_bytes == codec->encoded_bytes(values[s]));
      CHECK(slot.in >= end);
      CHECK(slot.in % 64 == 0);
      CHECK(slot.out % 64 == 0);
      CHECK(slot.out >= slot.in + slot.in_bytes);
      end = slot.out + values[s] * sizeof(float);
    }
    CHECK(segment.bytes >= end);
  }
}
