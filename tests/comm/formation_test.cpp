// Forming a generation, without processes or clocks: links are Formation objects over one folder, and the test is their clock.
#include "comm/formation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "base/error.h"
#include "support/temp_dir.h"

using namespace atl;
using namespace atl::link;

namespace {

std::string name_of(int rank) { return "site-" + std::to_string(rank); }

Hello hello_of(int rank, int sites, std::uint64_t nonce) {
  Hello hello;
  hello.site = name_of(rank);
  for (int r = 0; r < sites; ++r) hello.sites.push_back(name_of(r));
  hello.slots = {100, 7};
  hello.settings = {{"inner.lr", "0.1"}, {"outer.period", "30"}};
  hello.layout_hash = {.high = 1, .low = 2};
  hello.nonce = nonce;
  return hello;
}

// One link: what atoll-link's front thread does with a Formation, minus the waiting.
struct Link {
  Link(const TempDir& folder, Hello given)
      : hello(std::move(given)), store("file://" + folder.path().string()), formation(store, hello) {}
  void poll(double now) {
    if (dead || failed) return;
    if (generation) {
      dead = formation.dead(*generation);
      return;
    }
    const auto found = formation.poll(now);
    if (found.failed) failed = found.failed;
    if (found.generation) generation = found.generation;
  }
  Hello hello;
  FileStore store;
  Formation formation;
  std::optional<Generation> generation;
  std::optional<Failed> failed;
  bool dead = false;
};

struct Links {
  explicit Links(int sites) {
    for (int r = 0; r < sites; ++r) start(r, 1000 + static_cast<std::uint64_t>(r));
  }
  Link& start(int rank, std::uint64_t nonce) { return start(hello_of(rank, 3, nonce)); }
  Link& start(const Hello& hello) {
    auto& at = all[hello.rank()];
    at = std::make_unique<Link>(folder, hello);
    return *at;
  }
  void run(double seconds) {
    for (const double end = now + seconds; now < end; now += 0.05)
      for (auto& [rank, link] : all) link->poll(now);
  }
  Link& operator[](int rank) { return *all.at(rank); }
  TempDir folder;
  double now = 100;
  std::map<int, std::unique_ptr<Link>> all;
};

}  // namespace

TEST_CASE("formation: records come out as they went in, and damaged ones are refused") {
  const JoinRecord join{.nonce = 1,
                        .after = 2,
                        .beat = 3,
                        .layout_hash = {.high = 4, .low = 5},
                        .slots = {6, 7},
                        .settings = {{"a", "b"}, {"", "c"}}};
  const Generation generation{.number = 3, .random = 4, .sites = {"x", "y"}, .nonces = {5, 6}};
  const LeftRecord left{.nonce = 1, .kind = Kind::finite, .reason = "a NaN"};
  CHECK(encode(decode_join(encode(join), "k")) == encode(join));
  CHECK(decode_join(encode(join), "k").settings == join.settings);
  CHECK(encode(decode_generation(encode(generation), "k")) == encode(generation));
  CHECK(decode_generation(encode(generation), "k").nonces == generation.nonces);
  CHECK(encode(decode_left(encode(left), "k")) == encode(left));
  CHECK(decode_left(encode(left), "k").reason == "a NaN");

  std::mt19937 random(1);
  const std::vector<std::vector<std::byte>> whole{encode(join), encode(generation), encode(left)};
  for (std::size_t type = 0; type < whole.size(); ++type) {
    const auto decode = [type](std::span<const std::byte> bytes) {
      if (type == 0) (void)decode_join(bytes, "join/a");
      if (type == 1) (void)decode_generation(bytes, "gen/1");
      if (type == 2) (void)decode_left(bytes, "left/a");
    };
    for (std::size_t n = 0; n < whole[type].size(); ++n)
      CHECK_THROWS_AS(decode(std::span(whole[type]).first(n)), LinkError);
    for (std::size_t i = 0; i < whole[type].size(); ++i) {
      auto flipped = whole[type];
      flipped[i] ^= static_cast<std::byte>(1U << (random() % 8));
      CHECK_THROWS_AS(decode(flipped), LinkError);
    }
    CHECK_THROWS_AS(decode(whole[(type + 1) % 3]), LinkError);  // a record of another kind
  }
}

TEST_CASE("formation: all who are there adopt one generation") {
  Links links(3);
  links.run(0.5);
  for (int r = 0; r < 3; ++r) {
    REQUIRE(links[r].generation);
    CHECK(links[r].generation->number == 1);
    CHECK(links[r].generation->random == links[0].generation->random);
    CHECK(links[r].generation->nonces == std::vector<std::uint64_t>{1000, 1001, 1002});
    CHECK_FALSE(links[r].dead);
  }
}

TEST_CASE("formation: nobody starts while one is absent, and the absent one is named") {
  Links links(2);  // of three
  links.run(1);
  CHECK_FALSE(links[0].generation);
  CHECK(links[0].formation.absent(links.now) == std::vector<std::string>{"site-2"});
  links.start(2, 1002);
  links.run(0.5);
  for (int r = 0; r < 3; ++r) CHECK(links[r].generation);
}

TEST_CASE("formation: records of an earlier run are never taken for live sites") {
  Links links(3);
  links.run(0.5);
  REQUIRE(links[0].generation);
  links.all.clear();  // all have died, their records stay
  links.now += 1;     // soon after
  links.start(0, 2000);
  links.start(1, 2001);
  links.run(3);
  CHECK_FALSE(links[0].generation);
  CHECK(links[0].formation.absent(links.now) == std::vector<std::string>{"site-2"});
  links.start(2, 2002);
  links.run(0.5);
  for (int r = 0; r < 3; ++r) {
    REQUIRE(links[r].generation);
    CHECK(links[r].generation->number == 2);
    CHECK(links[r].generation->nonces == std::vector<std::uint64_t>{2000, 2001, 2002});
  }
}

TEST_CASE("formation: a link that is started again ends its generation for the others, and all meet in a newer one") {
  Links links(3);
  links.run(0.5);
  links.start(1, 1001);  // the same trainer: the same nonce
  links.run(0.2);
  CHECK(links[0].dead);
  CHECK(links[2].dead);
  links.start(0, 1000);
  links.start(2, 1002);
  links.run(0.5);
  for (int r = 0; r < 3; ++r) {
    REQUIRE(links[r].generation);
    CHECK(links[r].generation->number == 2);
    CHECK_FALSE(links[r].dead);
  }
}

TEST_CASE("formation: a trainer that is started anew without its state is refused by those who know the old one") {
  Links links(3);
  links.run(0.5);
  for (int r = 0; r < 3; ++r) {
    Hello hello = hello_of(r, 3, r == 1 ? 5555 : 1000 + static_cast<std::uint64_t>(r));
    if (r != 1) hello.nonces = {1000, 1001, 1002};
    links.start(hello);
  }
  links.run(0.5);
  for (const int r : {0, 2}) {
    REQUIRE(links[r].failed);
    CHECK(links[r].failed->kind == Kind::link);
    CHECK(links[r].failed->reason.find("site-1 was started anew without its state") != std::string::npos);
  }
  links.run(0.5);
  REQUIRE(links[1].failed);  // it reads why they left
  CHECK(links[1].failed->reason.find("started anew") != std::string::npos);
}

TEST_CASE("formation: every difference in settings, layout and slots is named on both sides, with both values") {
  Links links(2);
  Hello other = hello_of(2, 3, 1002);
  other.settings = {{"inner.lr", "0.2"}, {"outer.momentum", "0.9"}};
  other.layout_hash = {.high = 1, .low = 3};
  other.slots = {100, 8};
  links.start(other);
  links.run(5);
  for (const int r : {0, 1, 2}) {
    REQUIRE(links[r].failed);
    CAPTURE(links[r].failed->reason);
    CHECK(links[r].failed->kind == Kind::settings);
  }
  const auto says = [&](int r, const std::string& words) {
    return links[r].failed->reason.find(words) != std::string::npos;
  };
  CHECK(says(0, "inner.lr = 0.1 at site-0, but 0.2 at site-2"));
  CHECK(says(0, "outer.period = 30 at site-0, but not set at site-2"));
  CHECK(says(0, "outer.momentum = not set at site-0, but 0.9 at site-2"));
  CHECK(says(0, "layout"));
  CHECK(says(0, "of 7 values at site-0, but 2 messages, the first that differs of 8 values at site-2"));
  CHECK(says(2, "inner.lr = 0.2 at site-2, but 0.1 at site-0"));
}

TEST_CASE("formation: who has left is heard of with its reason; an earlier run's leaving is not") {
  Links links(3);
  links.run(0.5);
  links[2].formation.leave(Kind::user, "stopped by its user");
  const auto left = links[0].formation.left(links[0].generation);
  REQUIRE(left);
  CHECK(left->site == "site-2");
  CHECK(left->record.reason == "stopped by its user");

  links.all.clear();
  links.now += 10;
  for (int r = 0; r < 3; ++r) links.start(r, 3000 + static_cast<std::uint64_t>(r));
  links.run(0.5);
  for (int r = 0; r < 3; ++r) CHECK(links[r].generation);
}

// Links die and are started again in any order and at any pace.  Whatever happened: once it stops, all meet within seconds, and
// two links that both think they are connected in a generation that is not dead are in the same one.
TEST_CASE("formation: after any sequence of deaths all meet in one generation") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Links links(3);
    std::map<int, double> start_at;
    for (int event = 0; event < 40; ++event) {
      for (int step = static_cast<int>(random() % 12); step >= 0; --step) {
        links.now += 0.01;
        std::vector<int> ranks{0, 1, 2};
        std::shuffle(ranks.begin(), ranks.end(), random);
        for (const int r : ranks) {
          if (links.all.contains(r) && random() % 3 != 0) links[r].poll(links.now);
          if (links.all.contains(r) && links[r].dead) {
            links.all.erase(r);
            start_at[r] = links.now + 0.1;
          }
          if (!links.all.contains(r) && links.now >= start_at[r]) links.start(r, 1000 + static_cast<std::uint64_t>(r));
        }
      }
      const int victim = static_cast<int>(random() % 3);
      if (links.all.erase(victim) > 0) start_at[victim] = links.now + 0.01 * static_cast<double>(random() % 30);
    }
    for (int step = 0; step < 60; ++step) {
      links.now += 0.05;
      for (int r = 0; r < 3; ++r) {
        if (links.all.contains(r)) links[r].poll(links.now);
        if (links.all.contains(r) && links[r].dead) {
          links.all.erase(r);
          start_at[r] = links.now + 0.1;
        }
        if (!links.all.contains(r) && links.now >= start_at[r]) links.start(r, 1000 + static_cast<std::uint64_t>(r));
      }
    }
    for (int r = 0; r < 3; ++r) {
      REQUIRE_FALSE(links[r].failed);
      REQUIRE(links[r].generation);
      REQUIRE_FALSE(links[r].dead);
      REQUIRE(links[r].generation->random == links[0].generation->random);
    }
  }
}
