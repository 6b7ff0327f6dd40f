// Faults of real runs, each with its message, its exit code and a bound on how long it takes.
#include "runs.h"

#include <sys/mount.h>

using namespace atl;

namespace {

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

// Process ids whose command line holds both words.
std::vector<pid_t> processes(const std::string& a, const std::string& b) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    const std::string line = slurp(entry.path() / "cmdline");
    if (says(line, a) && says(line, b)) found.push_back(pid);
  }
  return found;
}

std::size_t rounds_of(const Workshop& shop, const std::string& name) {
  return read_rounds(shop / name / "rounds.jsonl").size();
}

const std::vector<std::string> kLong{kFive, "sites.count=3", "run.steps=100000", "comm.timeout_s=5"};

}  // namespace

TEST_CASE("faults: a site that is killed ends the run within seconds, with its name and exit code 3") {
  const Workshop shop;
  Program launch = shop.start("launch", "run", kLong);
  REQUIRE(eventually([&] { return rounds_of(shop, "run") > 6; }));
  const auto site = processes("train", (shop / "run").string());
  REQUIRE(site.size() == 3);
  const std::string victim =
      says(slurp("/proc/" + std::to_string(site[1]) + "/cmdline"), "site-1") ? "site-1" : "site-";
  kill(site[1], SIGKILL);
  CHECK(launch.wait(20) == 3);
  CHECK(says(launch.output(), victim));
  CHECK(says(launch.output(), "was killed by signal 9"));
  const Summary s = shop.summary("run");
  CHECK(s.status == RunStatus::failed);
  CHECK(std::filesystem::exists(shop / "run" / "model.safetensors"));  // what was reached
}

TEST_CASE("faults: links that are killed cost nothing: the run ends with the same parameters") {
  const Workshop shop;
  const std::vector<std::string> sets{"sites.count=3", "run.steps=1500", "outer.period=3", "comm.timeout_s=20"};
  Program calm = shop.start("simulate", "calm", sets);
  Program launch = shop.start("launch", "run", sets);
  int killed = 0;
  for (int i = 0; i < 3; ++i) {
    const std::size_t before = rounds_of(shop, "run");
    if (!eventually([&] { return rounds_of(shop, "run") > before + 30 || !launch.running(); })) break;
    for (const pid_t pid : processes("atoll-link", "for site-" + std::to_string(i))) {
      // Only links of this run: their parent's command line names the folder.
      const std::string status = slurp("/proc/" + std::to_string(pid) + "/status");
      const auto at = status.find("PPid:");
      if (at == std::string::npos) continue;
      const int parent = std::atoi(status.c_str() + at + 5);
      if (!says(slurp("/proc/" + std::to_string(parent) + "/cmdline"), (shop / "run").string())) continue;
      kill(pid, SIGKILL);
      ++killed;
    }
  }
  CHECK(killed == 3);
  REQUIRE_MESSAGE(launch.wait(60) == 0, launch.output());
  REQUIRE(calm.wait() == 0);
  CHECK(shop.summary("run").global_hash == shop.summary("calm").global_hash);
  CHECK(shop.summary("run").generations > 1);
}

TEST_CASE("faults: a site that never comes is named") {
  const Workshop shop;
  Program site = shop.train("site-0", "store", 2, {"comm.start_timeout_s=1"});
  CHECK(site.wait(10) == 3);
  CHECK_MESSAGE(says(site.output(), "no site-1"), site.output());
  CHECK(says(site.output(), "comm.start_timeout_s"));
}

TEST_CASE("faults: different settings and models are listed at both sites before training starts") {
  const Workshop shop;
  Program a = shop.train("site-0", "store", 2, {"inner.lr=0.01"}),
          b = shop.train("site-1", "store", 2, {"inner.lr=0.02", "model.width=32"});
  CHECK(a.wait(20) == 2);
  CHECK(b.wait(20) == 2);
  CHECK(says(a.output(), "inner.lr = 0.01 at site-0, but 0.02 at site-1"));
  CHECK(says(b.output(), "inner.lr = 0.02 at site-1, but 0.01 at site-0"));
  CHECK(says(a.output(), "model.width = 16 at site-0, but 32 at site-1"));
  CHECK(says(b.output(), "model.width = 32 at site-1, but 16 at site-0"));
}

TEST_CASE("faults: two sites with one name") {
  const Workshop shop;
  Program a = shop.train("site-0", "store", 2, {});
  REQUIRE(eventually([&] { return std::filesystem::exists(shop / "store" / "join" / "site-0"); }));
  Program twin = shop.train("site-0", "store", 2, {}, "-twin");
  CHECK(twin.wait(15) == 2);
  CHECK(says(twin.output(), "site-0 is running already"));
}

TEST_CASE("faults: a store of an earlier run is used again; a file, or a folder that is not writable, is refused") {
  const Workshop shop;
  for (int run = 0; run < 2; ++run) {
    CAPTURE(run);
    Program a = shop.train("site-0", "store", 2, {}, std::to_string(run)),
            b = shop.train("site-1", "store", 2, {}, std::to_string(run));
    CHECK_MESSAGE(a.wait(20) == 0, a.output());
    CHECK_MESSAGE(b.wait(20) == 0, b.output());
  }
  spill(shop / "file", "not a folder");
  Program file = shop.train("site-0", "file", 2, {}, "-x");
  CHECK(file.wait(10) == 2);
  CHECK(says(file.output(), "that is not a folder"));
  auto words =
      shop.words("train", "proc",
                 {"sites.count=2", "store.url=file:///proc/atoll", "comm.interface=lo", "comm.allow_loopback=true"});
  words.insert(words.end(), {"--site", "site-0"});
  Program unwritable(kAtoll, words, shop / "proc.out");
  CHECK(unwritable.wait(10) == 2);
  CHECK(says(unwritable.output(), "cannot make folders in it"));
}

TEST_CASE("faults: an interface that is not there, and loopback without being asked for") {
  const Workshop shop;
  auto words = shop.words("train", "nic",
                          {"sites.count=2", "store.url=file://" + (shop / "store").string(), "comm.interface=nic9"});
  words.insert(words.end(), {"--site", "site-0"});
  Program nic(kAtoll, words, shop / "nic.out");
  CHECK(nic.wait(10) == 2);
  CHECK(says(nic.output(), "nic9"));
  CHECK(says(nic.output(), "lo (127.0.0.1)"));
  words = shop.words("train", "lo",
                     {"sites.count=2", "store.url=file://" + (shop / "store").string(), "comm.interface=lo"});
  words.insert(words.end(), {"--site", "site-0"});
  Program lo(kAtoll, words, shop / "lo.out");
  CHECK(lo.wait(10) == 2);
  CHECK(says(lo.output(), "comm.allow_loopback"));
}

TEST_CASE("faults: a token file that was cut short") {
  const Workshop shop;
  std::filesystem::resize_file(shop / "data" / "train.tokens", 5000);
  Program launch = shop.start("launch", "run", {});
  CHECK(launch.wait(10) == 2);
  CHECK(says(launch.output(), "train.tokens"));
}

TEST_CASE("faults: a loss that becomes NaN stops the run with step and site; what was good stays") {
  const Workshop shop;
  for (const std::string method : {"diloco", "ddp"}) {
    for (const std::string command : {"simulate", "launch"}) {
      CAPTURE(method);
      CAPTURE(command);
      const std::string name = method + command;
      Program run = shop.start(command, name,
                               {"run.method=" + method, "inner.lr=1e30", "inner.schedule=constant", "inner.clip=0",
                                "inner.optimizer=sgd", "sites.count=2"});
      CHECK(run.wait(20) == 2);
      CHECK((says(run.output(), "the training loss is") || says(run.output(), "holds a NaN or an infinity")));
      CHECK(says(run.output(), ", step "));
      CHECK(says(run.output(), "site-"));
      CHECK(shop.summary(name).status == RunStatus::failed);
    }
  }
}

TEST_CASE("faults: Ctrl-C stops all sites and writes what was reached; the folder says so") {
  const Workshop shop;
  for (const std::string command : {"simulate", "launch"}) {
    CAPTURE(command);
    Program run = shop.start(command, command, kLong);
    REQUIRE(eventually([&] { return rounds_of(shop, command) > 6; }));
    run.signal(SIGINT);
    CHECK(run.wait(15) == 0);
    const Summary s = shop.summary(command);
    CHECK(s.status == RunStatus::interrupted);
    CHECK(s.inner_steps > 0);
    CHECK(std::filesystem::exists(shop / command / "model.safetensors"));
  }
}

TEST_CASE("faults: one site's Ctrl-C is told to the others") {
  const Workshop shop;
  Program a = shop.train("site-0", "store", 2, {"run.steps=100000"}),
          b = shop.train("site-1", "store", 2, {"run.steps=100000"});
  REQUIRE(eventually([&] { return rounds_of(shop, "store-site-0") > 3; }));
  b.signal(SIGINT);
  CHECK(b.wait(10) == 0);
  CHECK(a.wait(10) == 3);
  CHECK(says(a.output(), "site-1 left: stopped by its user (Ctrl-C) after step"));
}

TEST_CASE("faults: a full disk during training is a warning, and the end says what could not be written" *
          doctest::skip(geteuid() != 0)) {
  const Workshop shop;
  std::filesystem::create_directories(shop / "small");
  REQUIRE(mount("none", (shop / "small").c_str(), "tmpfs", 0, "size=64k") ==
          0);  // needs root in a sandbox that may mount
  auto words = shop.words("simulate", "small/run", {"run.steps=400"});
  Program run(kAtoll, words, shop / "full.out");
  const int code = run.wait(60);
  umount2((shop / "small").c_str(), MNT_DETACH);
  CHECK(code == 2);  // it trained to the end; then model and summary did not fit
  CHECK(says(run.output(), "step=400"));
  CHECK(says(run.output(), "steps.jsonl"));
  CHECK(says(run.output(), "No space left on device"));
}
