// Links and sites that are killed, stopped or never come: the run goes on with every mean exactly right, or ends with words, never by hanging.
#include <atomic>
#include <random>

#include "processes/sites.h"

using namespace atl;

namespace {

void check_all_well(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome);
    CHECK(outcome.ok());
  }
}

// Not when it has ended and only waits to be reaped.
bool runs(int pid) {
  const std::string stat = slurp("/proc/" + std::to_string(pid) + "/stat");
  return !stat.empty() && stat[stat.rfind(')') + 2] != 'Z';
}

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Sites exchange until somebody says stop; all stop after the same exchange.
class Agreement {
 public:
  explicit Agreement(int sites) : at_(static_cast<std::size_t>(sites)) {}
  bool may_start(int rank, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    if (number > last_) return false;
    at_[static_cast<std::size_t>(rank)] = number;
    return true;
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    last_ = *std::max_element(at_.begin(), at_.end()) + 1;
  }
  std::uint64_t slowest() {
    const std::lock_guard lock(mutex_);
    return *std::min_element(at_.begin(), at_.end());
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> at_;
  std::uint64_t last_ = ~std::uint64_t{0};
};

// Kills links at random moments, one or several at once, until `kills` have died; every mean is checked by every site.
void storm(const Plan& plan, int kills, unsigned seed) {
  const TempDir folder;
  Means means(plan);
  Agreement agreement(plan.sites);
  std::vector<std::atomic<LinkClient*>> links(static_cast<std::size_t>(plan.sites));
  std::atomic<int> ended{0};
  std::vector<std::uint32_t> generations(static_cast<std::size_t>(plan.sites));
  int killed = 0;
  std::thread killer([&] {
    std::mt19937 random(seed);
    while (killed < kills && ended == 0) {
      const std::uint64_t before = agreement.slowest();
      sleep_for(static_cast<double>(random() % 1000) / 1000 * (random() % 4 == 0 ? 0.3 : 0.02));
      const int at_once = random() % 3 == 0 ? 2 : 1;
      for (int i = 0; i < at_once; ++i) {
        LinkClient* link = links[random() % links.size()];
        const int pid = link == nullptr ? 0 : link->link_pid();
        if (pid > 0 && kill(pid, SIGKILL) == 0) ++killed;
      }
      // Mostly let them get on; sometimes hit them while they are forming.
      if (random() % 4 != 0)
        for (int i = 0; i < 1000 && ended == 0 && agreement.slowest() <= before + random() % 3; ++i) sleep_for(0.002);
    }
    agreement.stop();
  });
  const auto outcomes = run_sites(plan.sites, [&](int rank) {
    try {
      LinkClient link(link_config(plan, rank, folder / "store"));
      const auto index = static_cast<std::size_t>(rank);
      links[index] = &link;
      const std::uint64_t depth = plan.slots.size();
      std::uint64_t k = 1;
      for (; agreement.may_start(rank, k); ++k) {
        if (k > depth) take_exchange(link, means, plan, k - depth);
        means.payload(rank, k, link.payload(plan.slot_of(k)));
        Outgoing out = plan.outgoing(rank, k, true);  // where it ends is not known: no promise
        link.send(out);
      }
      for (std::uint64_t rest = k > depth ? k - depth : 1; rest < k; ++rest) take_exchange(link, means, plan, rest);
      while (killed < kills) sleep_for(0.01);  // nobody is killed at the end: that has a test of its own
      links[index] = nullptr;
      link.finish();
      generations[index] = link.totals().generations;
    } catch (...) {
      ++ended;
      links[static_cast<std::size_t>(rank)] = nullptr;
      throw;
    }
  });
  killer.join();
  check_all_well(outcomes);
  MESSAGE(plan.sites << " sites, " << plan.slots[0] << " values: " << killed << " links killed, " << agreement.slowest()
                     << " exchanges, " << generations[0] << " generations");
}

int storm_kills(int normal) {
  const char* factor = std::getenv("ATOLL_TEST_STORM");
  return factor == nullptr ? normal : normal * std::atoi(factor);
}

}  // namespace

TEST_CASE("faults: links killed at random moments, small payloads") {
  storm({.sites = 2, .slots = {700}}, storm_kills(40), 1);
  storm({.sites = 3, .slots = {700, 20, 0}}, storm_kills(40), 2);
}

TEST_CASE("faults: links killed at random moments, large payloads") {
  storm({.sites = 2, .slots = {1'000'000}, .piece_bytes = 256U << 10U}, storm_kills(30), 3);
  storm({.sites = 3, .slots = {1'000'000, 300'000}, .mean_codec = "bf16", .piece_bytes = 256U << 10U}, storm_kills(30),
        4);
  storm({.sites = 4, .slots = {400'000, 5000}, .codec = "bf16", .mean_codec = "bf16"}, storm_kills(30), 5);
}

TEST_CASE("faults: links killed at random moments, groups with one header") {
  storm({.sites = 3, .slots = {50'000, 20'000, 3000, 10}, .group = 4}, storm_kills(30), 6);
}

TEST_CASE("faults: links killed at random moments, clusters that run ahead of each other") {
  storm({.sites = 4, .slots = {300'000, 500, 40'000}, .clusters = 2}, storm_kills(30), 7);
  storm({.sites = 6, .slots = {60'000, 700}, .codec = "bf16", .mean_codec = "bf16", .clusters = 3}, storm_kills(20), 8);
}

TEST_CASE("faults: an idle link is started again although its trainer only computes") {
  const TempDir folder;
  const Plan plan{.sites = 2, .slots = {5000}, .timeout_s = 3};
  Means means(plan);
  std::atomic<int> killed{0};
  check_all_well(run_sites(2, [&](int rank) {
    LinkClient link(link_config(plan, rank, folder / "store"));
    run_exchanges(link, means, plan, 1, 2);
    if (rank == 0) {
      const int pid = link.link_pid();
      kill(pid, SIGKILL);
      ++killed;
      sleep_for(1.5);  // computes
      if (link.link_pid() == pid || link.totals().generations != 2) throw std::runtime_error("no new generation");
    }
    run_exchanges(link, means, plan, 3, 5);
    link.finish();
  }));
}

TEST_CASE("faults: links killed while sites finish: all are told that all is there, or warn, and return in time") {
  const TempDir folder;
  for (int round = 0; round < 12; ++round) {
    const Plan plan{.sites = 2, .slots = {5000}, .timeout_s = 5};
    Means means(plan);
    const auto outcomes = run_sites(2, [&](int rank) {
      LinkClient link(link_config(plan, rank, folder / ("store" + std::to_string(round))));
      run_exchanges(link, means, plan, 1, 2);
      std::thread killer([&] {
        sleep_for(0.001 * round);
        if (rank == round % 2)
          if (const int pid = link.link_pid(); pid > 0) kill(pid, SIGKILL);
      });
      link.finish();
      killer.join();
    });
    check_all_well(outcomes);
    for (const Outcome& outcome : outcomes) CHECK(outcome.seconds < 4);
  }
}

TEST_CASE("faults: a link stopped for less than the timeout is waited for") {
  const TempDir folder;
  for (const std::size_t values : {500U, 2'000'000U}) {
    const Plan plan{.sites = 2, .slots = {values}, .timeout_s = 6};
    Means means(plan);
    const auto outcomes = run_sites(2, [&](int rank) {
      LinkClient link(link_config(plan, rank, folder / ("store" + std::to_string(values))));
      run_exchanges(link, means, plan, 1, 2);
      std::thread other;
      if (rank == 1) {
        const int pid = link.link_pid();
        kill(pid, SIGSTOP);
        other = std::thread([pid] {
          sleep_for(1.0);
          kill(pid, SIGCONT);
        });
      }
      run_exchanges(link, means, plan, 3, 4);
      if (other.joinable()) other.join();
      if (link.totals().generations != 1) throw std::runtime_error("a new generation was formed");
      link.finish();
    });
    check_all_well(outcomes);
  }
}

TEST_CASE("faults: a link stopped for longer than the timeout: both sites end in time, the other one names it") {
  const TempDir folder;
  const Plan plan{.sites = 2, .slots = {500}, .timeout_s = 1.5};
  Means means(plan);
  std::atomic<int> stopped{0};
  const auto outcomes = run_sites(2, [&](int rank) {
    LinkClient link(link_config(plan, rank, folder / "store"));
    run_exchanges(link, means, plan, 1, 2);
    if (rank == 1) {
      stopped = link.link_pid();
      kill(stopped, SIGSTOP);
    } else {
      while (stopped == 0) sleep_for(0.001);
    }
    run_exchanges(link, means, plan, 3, 3);
  });
  CAPTURE(outcomes[0]);
  CAPTURE(outcomes[1]);
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.kind == "LinkError");
    CHECK(outcome.seconds < 6);  // 1.5, and 2 more where the own link cannot speak
  }
  CHECK(outcomes[0].says("exchange 3: no answer for 1.5 s (comm.timeout_s): waiting for site-1"));
  CHECK(outcomes[1].says("exchange 3"));
  CHECK_FALSE(runs(stopped));  // also a stopped link is gone with its trainer
}

TEST_CASE("faults: many exchanges sent to a stopped link do not stop the trainer's deadlines") {
  const TempDir folder;
  Plan plan{.sites = 2, .slots = std::vector<std::size_t>(1000, 1), .timeout_s = 1, .start_s = 10};
  Means means(plan);
  const auto outcomes = run_sites(2, [&](int rank) {
    LinkClient link(link_config(plan, rank, folder / "store"));
    if (rank == 1) kill(link.link_pid(), SIGSTOP);
    for (std::uint64_t k = 1; k <= 1000; ++k) send_exchange(link, means, plan, k, k == 1000);
    for (std::uint64_t k = 1; k <= 1000; ++k) take_exchange(link, means, plan, k);
  });
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome);
    CHECK(outcome.kind == "LinkError");
    CHECK(outcome.seconds < 6);
  }
}

TEST_CASE("faults: many exchanges in flight arrive, also when the link is stopped for a while or killed") {
  for (const bool dies : {false, true}) {
    const TempDir folder;
    const Plan plan{.sites = 2, .slots = std::vector<std::size_t>(1500, 3), .timeout_s = 10};
    Means means(plan);
    check_all_well(run_sites(2, [&](int rank) {
      LinkClient link(link_config(plan, rank, folder / "store"));
      const int pid = link.link_pid();
      if (rank == 1) kill(pid, SIGSTOP);
      for (std::uint64_t k = 1; k <= 1500; ++k) send_exchange(link, means, plan, k, k == 1500);
      if (rank == 1) kill(pid, dies ? SIGKILL : SIGCONT);
      for (std::uint64_t k = 1; k <= 1500; ++k) take_exchange(link, means, plan, k);
      link.finish();
    }));
  }
}

TEST_CASE("faults: a trainer killed with -9: its link ends, and the others name it at once") {
  const TempDir folder;
  for (const int sites : {2, 3}) {
    const Plan plan{.sites = sites, .slots = {800, 300'000}, .timeout_s = 8};
    const auto store = folder / ("store" + std::to_string(sites));
    ChildSite victim([&] {
      Means means(plan);
      LinkClient link(link_config(plan, sites - 1, store));
      spill(folder / "pid", std::to_string(link.link_pid()));
      run_exchanges(link, means, plan, 1, 1'000'000);
    });
    Means means(plan);
    std::thread killer([&] {
      sleep_for(1);
      victim.signal(SIGKILL);
    });
    const auto outcomes = run_sites(sites - 1, [&](int rank) {
      LinkClient link(link_config(plan, rank, store));
      run_exchanges(link, means, plan, 1, 1'000'000);
    });
    killer.join();
    victim.end();
    for (const Outcome& outcome : outcomes) {
      CAPTURE(outcome);
      CHECK(outcome.kind == "LinkError");
      CHECK(outcome.says(site_name(sites - 1)));
      CHECK(outcome.says("its trainer ended without a word"));
      CHECK(outcome.seconds < 3);
    }
    CHECK_FALSE(runs(std::stoi(slurp(folder / "pid"))));
  }
}

TEST_CASE("faults: a trainer and its link killed with -9 together: the others name the site after the timeout") {
  const TempDir folder;
  const Plan plan{.sites = 2, .slots = {800}, .timeout_s = 1.5, .start_s = 10};
  ChildSite victim([&] {
    Means means(plan);
    LinkClient link(link_config(plan, 1, folder / "store"));
    run_exchanges(link, means, plan, 1, 3);
    spill(folder / "pid", std::to_string(link.link_pid()));
    for (;;) pause();  // the test kills both
  });
  Means means(plan);
  const auto outcomes = run_sites(1, [&](int rank) {
    LinkClient link(link_config(plan, rank, folder / "store"));
    run_exchanges(link, means, plan, 1, 3);
    while (slurp(folder / "pid").empty()) sleep_for(0.01);
    victim.signal(SIGSTOP);  // it starts no other link
    kill(std::stoi(slurp(folder / "pid")), SIGKILL);
    victim.signal(SIGKILL);
    run_exchanges(link, means, plan, 4, 4);
  });
  CAPTURE(outcomes[0]);
  CHECK(outcomes[0].kind == "LinkError");
  CHECK(outcomes[0].says("exchange 4: no answer for 1.5 s (comm.timeout_s): site-1 does not come back"));
  CHECK(outcomes[0].seconds < 5);
}

TEST_CASE("faults: a site that never comes is named") {
  const TempDir folder;
  const Plan plan{.sites = 3, .timeout_s = 20, .start_s = 1};
  const auto outcomes = run_sites(2, [&](int rank) { LinkClient link(link_config(plan, rank, folder / "store")); });
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome);
    CHECK(outcome.kind == "LinkError");
    CHECK(outcome.says("site-2"));
    CHECK(outcome.seconds < 4);
  }
  CHECK((outcomes[0].says("no site-2 after") || outcomes[1].says("no site-2 after")));
}

TEST_CASE("faults: a site that leaves early tells the others why") {
  const TempDir folder;
  const Plan plan{.sites = 3, .slots = {2000}, .timeout_s = 10};
  Means means(plan);
  const auto outcomes = run_sites(3, [&](int rank) {
    LinkClient link(link_config(plan, rank, folder / "store"));
    run_exchanges(link, means, plan, 1, 2);
    if (rank == 1) return link.leave("stopped by its user at step 120");
    run_exchanges(link, means, plan, 3, 3);
  });
  CHECK(outcomes[1].ok());
  for (const int rank : {0, 2}) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    CAPTURE(outcome);
    CHECK(outcome.kind == "LinkError");
    CHECK(outcome.says("stopped by its user at step 120"));
    CHECK(outcome.seconds < 3);
  }
}

TEST_CASE("faults: an interrupt ends every wait soon") {
  const TempDir folder;
  const Plan plan{.sites = 2, .slots = {2000}, .timeout_s = 30};
  Means means(plan);
  std::atomic<bool> interrupt{false};
  std::atomic<double> at{0};
  const auto interruptible = [&](int rank) {
    LinkConfig config = link_config(plan, rank, folder / "store");
    config.interrupted = [&interrupt] { return interrupt.load(); };
    return config;
  };
  const auto later = [&](double seconds) {
    sleep_for(seconds);
    at = steady_seconds();
    interrupt = true;
  };
  SUBCASE("of the first generation") {
    std::thread timer(later, 0.3);
    const Outcome outcome = outcome_of([&] { LinkClient link(interruptible(0)); });
    timer.join();
    CHECK(outcome.kind == "Interrupted");
    CHECK(steady_seconds() - at < 0.5);
  }
  SUBCASE("of an answer") {
    const auto outcomes = run_sites(2, [&](int rank) {
      LinkClient link(interruptible(rank));
      run_exchanges(link, means, plan, 1, 1);
      if (rank == 1) {
        later(0.3);
        sleep_for(0.5);
        return;
      }
      double seconds = 0;
      const Outcome waiting = outcome_of([&] { run_exchanges(link, means, plan, 2, 2); });
      seconds = steady_seconds() - at;
      if (waiting.kind != "Interrupted" || seconds > 0.2) throw std::runtime_error(text(waiting, " ", seconds));
    });
    check_all_well(outcomes);
  }
}
