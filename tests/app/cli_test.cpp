// The real program: wrong uses, their texts and exit codes.  Runs that train are in tests/end_to_end.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/temp_dir.h"

using namespace atl;

namespace {

struct Result {
  int code = -1;
  std::string out, err;
};

// Runs `atoll WORDS` through the shell, in `dir`.
Result run_atoll(const TempDir& dir, const std::string& words) {
  const std::string command =
      "cd '" + dir.path().string() + "' && '" ATOLL_BINARY_DIR "/atoll' " + words + " >.out 2>.err </dev/null";
  const int status = std::system(command.c_str());
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .out = slurp(dir / ".out"), .err = slurp(dir / ".err")};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Exit code 2, nothing on stdout, and exactly this on stderr.
void refused(const TempDir& dir, const std::string& words, const std::string& err) {
  CAPTURE(words);
  const Result r = run_atoll(dir, words);
  CHECK(r.code == 2);
  CHECK(r.out == "");
  CHECK(r.err == err);
}

}  // namespace

TEST_CASE("cli: every command has help with an example") {
  const TempDir dir;
  for (const std::string command : {"simulate", "launch", "train", "data prepare", "eval", "report", "config"}) {
    CAPTURE(command);
    const Result r = run_atoll(dir, command + " --help");
    CHECK(r.code == 0);
    CHECK(r.err == "");
    CHECK(contains(r.out, "Example"));
    CHECK(contains(r.out, "\n  atoll " + command));
    CHECK(contains(run_atoll(dir, "--help").out, "\n  " + command.substr(0, command.find(' ')) + " "));
  }
  CHECK(!contains(run_atoll(dir, "train --help").out, "--join"));
}

TEST_CASE("cli: the version says what the program was built from") {
  const TempDir dir;
  const Result r = run_atoll(dir, "--version");
  CHECK(r.code == 0);
  CHECK(r.out.starts_with("atoll 0."));
}

TEST_CASE("cli: wrong use of the command line is exit code 2 and says what there is") {
  const TempDir dir;
  refused(dir, "", "atoll: A subcommand is required\n       `atoll --help` shows what there is\n");
  refused(dir, "simluate run.toml",
          "atoll: \"simluate\" is no command; did you mean simulate?\n"
          "       there are: simulate, launch, train, data, eval, report, plan, config\n"
          "       `atoll --help` shows what there is\n");
  refused(dir, "simulate --steps 3",
          "atoll: The following argument was not expected: --steps\n"
          "       `atoll simulate --help` shows what there is\n");
  refused(dir, "train run.toml", "atoll: --site is required\n       `atoll train --help` shows what there is\n");
  refused(dir, "report", "atoll: DIR is required\n       `atoll report --help` shows what there is\n");
  refused(dir, "launch --log-level loud",
          "atoll: --log-level: loud not in {trace,debug,info,warn,error,off}\n"
          "       `atoll launch --help` shows what there is\n");
  refused(dir, "config", "atoll: config wants either a FILE to check and to print in full, or --print-default\n");
  refused(dir, "config --method ddp",
          "atoll: config wants either a FILE to check and to print in full, or --print-default\n");
}

TEST_CASE("cli: mistakes in the settings are exit code 2, all at once") {
  const TempDir dir;
  refused(dir, "simulate nothing.toml", "atoll: nothing.toml: cannot open: No such file or directory (errno 2)\n");
  spill(dir / "run.toml", "[outer]\nmomentum = 1.5\n[innner]\nlr = 1\n");
  for (const std::string command : {"simulate", "launch", "config"})
    refused(dir, command + " run.toml --set inner.batch=0 --set run.sedd=1",
            "atoll: run.toml:2: outer.momentum = 1.5, but it must be a number in [0, 1)\n"
            "       run.toml:4: innner.lr is not a setting; did you mean inner.lr?\n"
            "       --set inner.batch=0, but it must be a whole number above 0\n"
            "       --set run.sedd=1: run.sedd is not a setting; did you mean run.seed?\n");
  CHECK(!std::filesystem::exists(dir / "runs"));
}

TEST_CASE("cli: train says what it needs to know") {
  const TempDir dir;
  spill(dir / "run.toml", "[sites]\ncount = 2\n");
  refused(
      dir, "train run.toml --site site-7 --set comm.interface=lo",
      "atoll: run.toml: --site site-7 is none of the sites: site-0, site-1; did you mean site-0?\n"
      "       --set comm.interface=lo, but only this machine can reach it: name the card that faces the other sites, "
      "or set comm.allow_loopback = true when all sites run on this machine\n"
      "       run.toml: train needs store.url, where the sites find each other: file:///FOLDER in a file system that "
      "all of them see\n");
}

TEST_CASE("cli: config prints every setting, and what it prints is settings") {
  const TempDir dir;
  for (const std::string method : {"ddp", "local_sgd", "diloco"}) {
    const Result r = run_atoll(dir, "config --print-default --method " + method);
    CHECK(r.code == 0);
    CHECK(contains(r.out, "method = \"" + method + "\""));
    spill(dir / "run.toml", r.out);
    CHECK(run_atoll(dir, "config run.toml").out == r.out);
    CHECK(contains(run_atoll(dir, "config run.toml --set run.steps=77").out, "\nsteps = 77 "));
  }
  refused(
      dir, "config --print-default --method noloco",
      "atoll: --set run.method=noloco, which is not there yet; exist: ddp, local_sgd, post_local_sgd, diloco, slowmo, "
      "streaming, eager, delayed, delay_corrected, muloco, sparseloco, lookahead, snoo\n");
}

TEST_CASE("cli: data that is not there or not given is exit code 2") {
  const TempDir dir;
  for (const std::string command : {"simulate", "launch"}) {
    const Result none = run_atoll(dir, command + " --set run.steps=1");
    CHECK(none.code == 2);
    CHECK(contains(none.err, "atoll: data.path is not set"));
    const Result absent = run_atoll(dir, command + " --set data.path=/nonexistent");
    CHECK(absent.code == 2);
    CHECK(contains(absent.err, "/nonexistent"));
    CHECK(!std::filesystem::exists(dir / "runs"));
  }
}

TEST_CASE("cli: report and eval refuse what is no run") {
  const TempDir dir;
  refused(dir, "report nothing", "atoll: nothing: there is no such folder\n");
  spill(dir / "thesis.tex", "x");
  refused(dir, "report .", "atoll: .: is no run folder: it holds no config.toml\n");
  refused(dir, "eval .", "atoll: .: is no run folder: it holds no config.toml\n");
  spill(dir / "config.toml", "");
  refused(dir, "eval .", "atoll: .: holds no model.safetensors yet\n");
}

TEST_CASE("cli: an output that nobody reads any more ends the program without a word") {
  const TempDir dir;
  const Result r = run_atoll(dir, "config --print-default | head -1");
  CHECK(r.code == 0);
  CHECK(r.err == "");
}
