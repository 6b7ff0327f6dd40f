// What users get wrong, and what strangers send: words that name the setting, the sites and both values; soon.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <fstream>
#include <set>
#include <sstream>

#include "processes/sites.h"

using namespace atl;

namespace {

using Change = std::function<void(LinkConfig&)>;

// Two sites, of which site-1 has something changed.
std::vector<Outcome> with_change(const Change& change, double timeout_s = 10) {
  const TempDir folder;
  const Plan plan{.sites = 2, .slots = {2000, 10}, .timeout_s = timeout_s};
  Means means(plan);
  return run_sites(2, [&](int rank) {
    LinkConfig config = link_config(plan, rank, folder / "store");
    if (rank == 1) change(config);
    LinkClient link(config);
    run_exchanges(link, means, plan, 1, 2);
  });
}

void check_both(const std::vector<Outcome>& outcomes, const std::string& kind, const std::vector<std::string>& words) {
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome);
    CHECK(outcome.kind == kind);
    CHECK(outcome.seconds < 6);
    for (const std::string& each : words) {
      CAPTURE(each);
      CHECK(outcome.says(each));
    }
  }
}

// Rank 1's send is changed in its third exchange.
std::vector<Outcome> with_changed_send(const std::function<void(Outgoing&)>& change, int sites = 2) {
  const TempDir folder;
  const Plan plan{.sites = sites, .slots = {2000}, .timeout_s = 10, .promise = false};
  Means means(plan);
  return run_sites(sites, [&](int rank) {
    LinkClient link(link_config(plan, rank, folder / "store"));
    run_exchanges(link, means, plan, 1, 2);
    Outgoing out = plan.outgoing(rank, 3, true);
    if (rank == 1) change(out);
    means.payload(rank, 3, link.payload(0));
    link.send(out);
    link.wait(0);
  });
}

}  // namespace

TEST_CASE("wrong use: settings that differ are all named, on both sides, with both values") {
  const auto outcomes = with_change([](LinkConfig& config) {
    config.settings = {{"inner.lr", "0.2"}, {"outer.delay", "1"}};
  });
  check_both(outcomes, "ConfigError",
             {"inner.lr", "0.1", "0.2", "site-0", "site-1", "outer.period", "30", "not set", "outer.delay"});
}

TEST_CASE("wrong use: another model or other messages are named before anything is sent") {
  check_both(with_change([](LinkConfig& config) { config.layout_hash.low = 9; }), "ConfigError",
             {"layout", "site-0", "site-1"});
  check_both(with_change([](LinkConfig& config) { config.slots[1].values = 11; }), "ConfigError",
             {"10 values", "11 values"});
  check_both(with_change([](LinkConfig& config) { config.slots.push_back({5}); }), "ConfigError",
             {"2 messages", "3 messages"});
}

TEST_CASE("wrong use: what the links themselves are set to must agree too") {
  check_both(with_change([](LinkConfig& config) { config.codec.name = "bf16"; }), "ConfigError",
             {"comm.codec", "fp32", "bf16"});
  check_both(with_change([](LinkConfig& config) { config.mean_codec.name = "bf16"; }), "ConfigError",
             {"comm.mean_codec"});
  check_both(with_change([](LinkConfig& config) { config.streams = 3; }), "ConfigError", {"comm.streams", "2", "3"});
  check_both(with_change([](LinkConfig& config) { config.piece_bytes = 4096; }), "ConfigError",
             {"comm.piece_mib", "0.00390625"});
}

TEST_CASE("wrong use: a congestion control that the kernel does not have") {
  const auto outcomes = with_change([](LinkConfig& config) { config.congestion = "nosuch"; }, 2);
  CAPTURE(outcomes[1]);
  CHECK(outcomes[1].kind == "ConfigError");  // before anything is started
  CHECK(outcomes[1].says("comm.congestion = \"nosuch\": No such file or directory; what there is says "));
}

TEST_CASE("wrong use: lists of sites that differ") {
  const auto outcomes = with_change([](LinkConfig& config) { config.sites = {"site-1", "site-0"}; });
  check_both(outcomes, "ConfigError", {"sites.names", "site-0, site-1", "site-1, site-0"});
}

TEST_CASE("wrong use: two sites with one name") {
  const TempDir folder;
  const Plan plan{.sites = 2, .timeout_s = 6};
  Means means(plan);
  std::vector<Outcome> outcomes = run_sites(3, [&](int i) {
    if (i == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    LinkClient link(link_config(plan, i == 2 ? 1 : i, folder / "store"));
    run_exchanges(link, means, plan, 1, 2);
    std::this_thread::sleep_for(std::chrono::seconds(3));
    run_exchanges(link, means, plan, 3, 3);
    link.finish();
  });
  CAPTURE(outcomes[2]);
  CHECK(outcomes[2].kind == "ConfigError");
  CHECK(outcomes[2].says("site-1 is running already"));
  CHECK(outcomes[2].seconds < 5);
  for (int i = 0; i < 2; ++i) {  // the run is not disturbed
    CAPTURE(outcomes[static_cast<std::size_t>(i)]);
    CHECK(outcomes[static_cast<std::size_t>(i)].ok());
  }
}

TEST_CASE("wrong use: a store that cannot be one") {
  const TempDir folder;
  const Plan plan{.sites = 2};
  spill(folder / "file", "x");
  const auto outcome_with = [&](const Change& change) {
    LinkConfig config = link_config(plan, 0, folder / "store");
    change(config);
    return outcome_of([&] { LinkClient link(config); });
  };
  for (const std::string& url : {"file://" + (folder / "file").string(), std::string("file:///proc/nothing"),
                                 std::string("redis://x"), std::string()}) {
    const Outcome outcome = outcome_with([&](LinkConfig& config) { config.store = url; });
    CAPTURE(outcome);
    CHECK(outcome.kind == "ConfigError");
    CHECK(outcome.says("store.url"));
    CHECK(outcome.seconds < 1);
  }
  for (const std::string& word : {std::string("eth77"), std::string("203.0.113.7"), std::string()}) {
    const Outcome outcome = outcome_with([&](LinkConfig& config) { config.interface = word; });
    CAPTURE(outcome);
    CHECK(outcome.kind == "ConfigError");
    CHECK(outcome.says("comm.interface = \"" + word + "\""));
    CHECK(outcome.says("lo (127.0.0.1)"));
  }
  spill(folder / "script", "no program");
  for (const auto& program : {folder / "absent", folder / "script"}) {
    const Outcome outcome = outcome_with([&](LinkConfig& config) { config.program = program; });
    CAPTURE(outcome);
    CHECK(outcome.kind == "ConfigError");
    CHECK(outcome.says(program.string()));
  }
}

TEST_CASE("wrong use: a program that is no atoll-link, or one of another version") {
  const TempDir folder;
  const Plan plan{.sites = 2, .timeout_s = 20};
  const auto outcome_with = [&](const std::string& script) {
    spill(folder / "atoll-link", script);
    std::filesystem::permissions(folder / "atoll-link", std::filesystem::perms::owner_all);
    LinkConfig config = link_config(plan, 0, folder / "store");
    config.program = folder / "atoll-link";
    return outcome_of([&] { LinkClient link(config); });
  };
  const Outcome ends = outcome_with("#!/bin/sh\nexit 41\n");
  CAPTURE(ends);
  CHECK(ends.kind == "LinkError");
  CHECK(ends.says("exit code 41"));
  CHECK(ends.seconds < 3);
  // Speaks protocol 999: version, type FAILED, kind, text.
  const Outcome other = outcome_with(
      "#!/bin/sh\nhead -c 1 <&3 >/dev/null\nprintf '\\347\\003\\000\\000\\006\\003\\000\\000\\000\\000' >&3\nsleep "
      "5\n");
  CAPTURE(other);
  CHECK(other.kind == "LinkError");
  CHECK(other.says("protocol 999"));
  CHECK(other.says("must be of one build"));
  CHECK(other.seconds < 3);
}

TEST_CASE("wrong use: a payload that is not finite stops all, and says where") {
  const auto outcomes = with_changed_send([](Outgoing& out) { out.finite = false; }, 3);
  check_both(outcomes, "ConfigError", {"exchange 3", "site-1", "step 3", "NaN or an infinity"});
}

TEST_CASE("wrong use: shared parameters that differ are found in the next exchange") {
  const auto outcomes = with_changed_send([](Outgoing& out) { out.global_hash = {.high = 1, .low = 1}; }, 3);
  check_both(outcomes, "ConfigError", {"exchange 3", "hash of the shared parameters", "site-1"});
}

TEST_CASE("wrong use: another round, or another slot") {
  check_both(with_changed_send([](Outgoing& out) { out.round = 17; }), "ConfigError", {"exchange 3", "round", "17"});
}

TEST_CASE("wrong use: one site finishes while the other still sends") {
  const TempDir folder;
  const Plan plan{.sites = 2, .slots = {2000}, .timeout_s = 5, .promise = false};
  Means means(plan);
  const auto outcomes = run_sites(2, [&](int rank) {
    LinkClient link(link_config(plan, rank, folder / "store"));
    run_exchanges(link, means, plan, 1, 2);
    if (rank == 0) return link.finish();  // a warning: this site has all it wanted
    run_exchanges(link, means, plan, 3, 3);
  });
  CHECK(outcomes[0].ok());
  CAPTURE(outcomes[1]);
  CHECK(outcomes[1].kind == "ConfigError");
  CHECK(outcomes[1].says("kind of message"));
  for (const Outcome& outcome : outcomes) CHECK(outcome.seconds < 3);
}

TEST_CASE("wrong use: a slot sent twice, and a promise that is not kept, are bugs of the trainer") {
  const Plan plan{.sites = 1, .slots = {10, 20}};
  LinkClient link(link_config(plan, 0, "/nowhere"));  // one site: no link, no store
  link.send({.slot = 0, .tokens = 1, .next_slot = 1});
  CHECK_THROWS_AS(link.send({.slot = 0, .tokens = 1}), Bug);
  CHECK_THROWS_AS(link.wait(1), Bug);
  link.wait(0);
  CHECK_THROWS_WITH_AS(link.send({.slot = 0, .tokens = 1}), doctest::Contains("slot 1 was promised"), Bug);
}

TEST_CASE("wrong use: a folder from an earlier run, of other settings and another number of sites, does no harm") {
  const TempDir folder;
  for (const int sites : {3, 2}) {
    const Plan plan{.sites = sites, .slots = {static_cast<std::size_t>(1000 * sites)}, .timeout_s = 10};
    Means means(plan);
    std::atomic<int> complete{0};
    const auto outcomes = run_sites(sites, [&](int rank) {
      LinkConfig config = link_config(plan, rank, folder / "store");
      config.settings = {{"sites.count", std::to_string(sites)}};
      LinkClient link(config);
      run_exchanges(link, means, plan, 1, 2);
      if (sites == 2) return link.finish();
      // Three leave without finishing, so that their records say so; but none before all have what they wait for.
      ++complete;
      for (int ms = 0; complete < sites && ms < 5000; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    for (const Outcome& outcome : outcomes) {
      CAPTURE(outcome);
      CHECK(outcome.ok());
    }
  }
}

namespace {

// Inodes of the sockets that this process's children, the links, have open.
std::set<std::string> sockets_of_links() {
  std::set<std::string> inodes;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream children(task.path() / "children");
    for (std::string pid; children >> pid;)
      for (const auto& fd : std::filesystem::directory_iterator("/proc/" + pid + "/fd", error)) {
        const std::string to = std::filesystem::read_symlink(fd, error).string();  // socket:[12345]
        if (to.starts_with("socket:[")) inodes.insert(to.substr(8, to.size() - 9));
      }
  }
  return inodes;
}

// Ports on which the links listen at this moment, from /proc/net/tcp: address, state 0A, inode.
std::vector<std::uint16_t> open_ports() {
  std::vector<std::uint16_t> ports;
  const std::set<std::string> ours = sockets_of_links();
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
    if (state == "0A" && ours.contains(inode))
      ports.push_back(static_cast<std::uint16_t>(std::stoul(local.substr(9, 4), nullptr, 16)));
  }
  return ports;
}

}  // namespace

TEST_CASE("wrong use: strangers at the ports during rendezvous cost at most that rendezvous") {
  const TempDir folder;
  const Plan plan{.sites = 3, .slots = {20'000, 700'000}, .streams = 4, .timeout_s = 20};
  std::atomic<bool> stop{false};
  std::atomic<int> hits{0};
  std::thread stranger([&] {
    for (unsigned i = 0; !stop; ++i) {
      for (const std::uint16_t port : hits < 10 ? open_ports() : std::vector<std::uint16_t>()) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) ++hits;
        const std::string words = "GET / HTTP/1.0\r\nHost: of-a-stranger-that-sends-more-than-one-preamble\r\n\r\n";
        if (i % 2 == 0) (void)!::send(fd, words.data(), words.size(), MSG_NOSIGNAL);
        ::close(fd);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (int run = 0; run < 30 && hits == 0;
       ++run) {  // the ports are open for milliseconds: the stranger may come too late
    Means means(plan);
    const auto outcomes = run_sites(3, [&](int rank) {
      LinkClient link(link_config(plan, rank, folder / ("store" + std::to_string(run))));
      run_exchanges(link, means, plan, 1, 6);
      link.finish();
    });
    for (const Outcome& outcome : outcomes) {
      CAPTURE(outcome);
      CHECK(outcome.ok());
    }
  }
  stop = true;
  stranger.join();
  MESSAGE(hits.load() << " connections of a stranger");
  CHECK(hits > 0);
}
