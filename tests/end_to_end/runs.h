// Runs of the real program on a tiny text and model, for the end-to-end tests.
#pragma once
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "app/records.h"
#include "base/file.h"
#include "support/program.h"

namespace atl {

inline const std::filesystem::path kAtoll = std::filesystem::path(ATOLL_BINARY_DIR) / "atoll";

inline const std::string kFive = "outer.period=5";  // not in the file: DDP refuses it

// A folder with a prepared text and the settings of a small run: 2 layers, 16 wide, 20 steps; kFive says H = 5.
class Workshop {
 public:
  Workshop() {
    std::string text;
    for (int i = 0; i < 3000; ++i)
      text += "the " + std::to_string(i * 7919 % 1009) + "th line of a text that is nowhere read\n";
    spill(dir_ / "text", text);
    Program prepare(kAtoll, {"data", "prepare", (dir_ / "text").string(), "--out", (dir_ / "data").string()},
                    dir_ / "prepare.out");
    REQUIRE(prepare.wait() == 0);
    spill(dir_ / "run.toml",
          "[run]\nname = \"small\"\nsteps = 20\n[model]\nlayers = 2\nwidth = 16\nheads = 2\ncontext = 16\n[inner]\nlr "
          "= 1e-2\nbatch = 12\n"
          "[comm]\ntimeout_s = 20\n[eval]\nwindows = 8\n[data]\npath = \"" +
              (dir_ / "data").string() + "\"\n");
  }

  std::filesystem::path operator/(const std::string& name) const { return dir_ / name; }

  // The words of `atoll COMMAND run.toml --out NAME --set ...`.
  std::vector<std::string> words(const std::string& command, const std::string& name,
                                 const std::vector<std::string>& sets) const {
    std::vector<std::string> all{command, (dir_ / "run.toml").string(), "--out", (dir_ / name).string(), "--quiet"};
    for (const std::string& set : sets) {
      all.push_back("--set");
      all.push_back(set);
    }
    return all;
  }
  Program start(const std::string& command, const std::string& name, const std::vector<std::string>& sets) const {
    return Program(kAtoll, words(command, name, sets), dir_ / (name + ".out"));
  }
  // One site of several that are started one by one, over a store in the workshop.
  Program train(const std::string& site, const std::string& store, int sites, std::vector<std::string> sets,
                const std::string& suffix = "") const {
    sets.insert(sets.end(), {"sites.count=" + std::to_string(sites), "store.url=file://" + (dir_ / store).string(),
                             "comm.interface=lo", "comm.allow_loopback=true"});
    const std::string name = store + "-" + site + suffix;
    std::vector<std::string> all = words("train", name, sets);
    all.insert(all.end(), {"--site", site});
    return Program(kAtoll, all, dir_ / (name + ".out"));
  }
  Summary summary(const std::string& name) const {
    return parse_summary(read_text(dir_ / name / "summary.json", 1U << 20U));
  }
  std::string log(const std::string& name) const { return slurp(dir_ / name / "log"); }

 private:
  TempDir dir_;
};

}  // namespace atl
