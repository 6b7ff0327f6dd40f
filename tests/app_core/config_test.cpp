#include "app/config.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "app/presets.h"
#include "base/error.h"
#include "support/temp_dir.h"

using namespace atl;

namespace {

RunConfig parse(const std::string& toml, const std::vector<std::string>& overrides = {}) {
  return parse_config(toml, "run.toml", overrides);
}

// The whole text of the ConfigError, "" when there is none.
std::string complaint(const std::string& toml, const std::vector<std::string>& overrides = {},
                      const std::optional<std::string>& train_site = {}) {
  try {
    parse_config(toml, "run.toml", overrides, train_site);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

std::string agreed(const RunConfig& config, const std::string& key) {
  for (const auto& [name, value] : agreed_settings(config))
    if (name == key) return value;
  return "(not there)";
}

}  // namespace

TEST_CASE("config: every mistake is named with file, line, key, value and rule, all at once") {
  CHECK(complaint("[outer]\nlr = 0.7\nmomentum = 1.5\nmomentun = 0.9\n") ==
        "run.toml:3: outer.momentum = 1.5, but it must be a number in [0, 1)\n"
        "run.toml:4: outer.momentun is not a setting; did you mean outer.momentum?");
}

TEST_CASE("config: a mistake of --set is named by its option, behind those of the file") {
  CHECK(complaint("[run]\nsteps = -3\n", {"outer.lr=-1", "outer.lr=0", "sites", "outr.lr=1"}) ==
        "run.toml:2: run.steps = -3, but it must be a whole number above 0\n"
        "--set sites: it must be section.key=value, as in outer.lr=0.7\n"
        "--set outer.lr=0, but it must be a number above 0\n"
        "--set outr.lr=1: outr.lr is not a setting; did you mean outer.lr?");
}

TEST_CASE("config: unknown keys, sections and keys in the wrong section are refused with the nearest that exists") {
  CHECK(complaint("steps = 3\n") == "run.toml:1: steps is not a setting; did you mean run.steps?");
  CHECK(complaint("[inner]\nperiod = 3\n") == "run.toml:2: inner.period is not a setting; did you mean outer.period?");
  CHECK(complaint("[modle]\n") == "run.toml:1: [modle] is not a section; did you mean model?");
  CHECK(complaint("[run]\nsedd = 3\n") == "run.toml:2: run.sedd is not a setting; did you mean run.seed?");
  CHECK(complaint("[inner]\nqwertyuiop = 3\n") == "run.toml:2: inner.qwertyuiop is not a setting");
  CHECK(complaint("[[run]]\nsteps = 3\n").find("run is not a setting") != std::string::npos);
}

TEST_CASE("config: a value of the wrong type is refused; 1 passes for 1.0") {
  CHECK(complaint("[outer]\nlr = \"0.7\"\n") == "run.toml:2: outer.lr = \"0.7\", but it must be a number above 0");
  CHECK(complaint("[run]\nsteps = 1.5\n") == "run.toml:2: run.steps = 1.5, but it must be a whole number above 0");
  CHECK(complaint("[run]\nsteps = true\n") == "run.toml:2: run.steps = true, but it must be a whole number above 0");
  CHECK(complaint("[model]\ntied = 1\n") == "run.toml:2: model.tied = 1, but it must be true or false");
  CHECK(complaint("[inner]\nbetas = [0.9]\n") ==
        "run.toml:2: inner.betas = [0.9], but it must be two numbers in [0, 1), as in [0.9, 0.99]");
  CHECK(complaint("[run]\nname = 1979-05-27\n").find("run.name = (a date, a time or a table), but") !=
        std::string::npos);
  CHECK(parse("[outer]\nlr = 1\n").outer.optimizer.lr == 1.0F);
}

TEST_CASE("config: numbers that are no numbers, or too large for their place, are refused") {
  CHECK(complaint("[inner]\nlr = nan\n") == "run.toml:2: inner.lr = nan, but it must be a number above 0");
  CHECK(complaint("[inner]\nlr = inf\n") == "run.toml:2: inner.lr = inf, but it must be a number above 0");
  CHECK(complaint("[outer]\nlr = 1e300\n") == "run.toml:2: outer.lr = 1e+300, but it must be a number above 0");
  CHECK(complaint("[outer]\nfragments = 4294967297\n") ==
        "run.toml:2: outer.fragments = 4294967297, but it must be a whole number above 0");
  CHECK(complaint("[run]\nsteps = 9223372036854775807\n").find("must stay below 2^63 tokens") != std::string::npos);
}

TEST_CASE("config: text that is no TOML is refused with its line") {
  CHECK(complaint("[run]\nsteps = \n").starts_with("run.toml:2: no TOML: "));
  CHECK_THROWS_WITH_AS(read_config("/nonexistent/run.toml", {}), doctest::Contains("/nonexistent/run.toml"),
                       ConfigError);
}

TEST_CASE("config: --set takes TOML values and bare words, and wins over the file") {
  const RunConfig c = parse("[run]\nname = \"a\"\nsteps = 10\n[outer]\nlr = 0.5\n",
                            {"run.name=2024", "outer.lr=0.25", "inner.optimizer=sgd", "inner.betas=[0.5, 0.25]",
                             "data.path=/some/where", "model.tied=true"});
  CHECK(c.run.name == "2024");
  CHECK(c.outer.optimizer.lr == 0.25F);
  CHECK(c.inner.optimizer == InnerOptimizer::sgd);
  CHECK(c.inner.betas == std::array{0.5, 0.25});
  CHECK(c.data.path == "/some/where");
  CHECK(c.model.tied);
  CHECK(complaint("", {"outer.lr=1\n[run]\nsteps=1"}).find("--set outer.lr=1") != std::string::npos);
}

TEST_CASE("config: Muon's settings are refused where they have no effect, and written where they have one") {
  CHECK(complaint("[inner]\nmuon_lr = 0.01\n") ==
        "run.toml:2: inner.muon_lr = 0.01, but it has no effect with inner.optimizer = \"adamw\": leave it out, or set "
        "inner.optimizer = \"muon\"");
  CHECK(complaint("[inner]\noptimizer = \"sgd\"\n", {"inner.muon_momentum=0.5"})
            .find("--set inner.muon_momentum=0.5, but it has no effect with inner.optimizer = \"sgd\"") !=
        std::string::npos);
  CHECK(complaint("[inner]\noptimizer = \"muon\"\nmuon_momentum = 1.0\n") ==
        "run.toml:3: inner.muon_momentum = 1.0, but it must be a number in [0, 1)");
  CHECK(agreed(parse(""), "inner.muon_lr") == "(not there)");
  const RunConfig c = parse("", {"inner.optimizer=muon", "inner.muon_lr=0.03"});
  CHECK(c.inner.muon_lr == 0.03);
  CHECK(c.inner.muon_momentum == 0.95);
  CHECK(agreed(c, "inner.muon_lr") == "0.03");
  CHECK(to_toml(parse(to_toml(c))) == to_toml(c));  // what a run folder holds can be read again
  CHECK(to_toml(parse(to_toml(parse("")))) == to_toml(parse("")));
}

TEST_CASE("config: tokens become whole steps, rounded up; both are refused, but --set of one wins") {
  const std::string model = "[model]\ncontext = 10\n[inner]\nbatch = 4\n";  // 40 tokens a step
  CHECK(parse("[run]\ntokens = 80\n" + model).run.steps == 2);
  CHECK(parse("[run]\ntokens = 81\n" + model).run.steps == 3);
  CHECK(parse("[run]\ntokens = 81\n" + model).run.tokens == 120);
  CHECK(parse("[run]\nsteps = 5\n" + model).run.tokens == 200);
  CHECK(complaint("[run]\nsteps = 5\ntokens = 80\n") ==
        "run.toml:3: run.tokens = 80, but run.steps is given too: give one of them");
  CHECK(parse("[run]\nsteps = 5\n" + model, {"run.tokens=80"}).run.steps == 2);
  CHECK(parse("[run]\ntokens = 80\n" + model, {"run.steps=7"}).run.steps == 7);
}

TEST_CASE("config: sites by count or by name") {
  CHECK(parse("[sites]\ncount = 2\n").sites.names == std::vector<std::string>{"site-0", "site-1"});
  const RunConfig named = parse("[sites]\nnames = [\"a\", \"b\", \"c\", \"d\"]\n");
  CHECK(named.sites.count == 4);
  CHECK(named.sites.names[2] == "c");
  CHECK(complaint("[sites]\ncount = 2\nnames = [\"a\"]\n") ==
        "run.toml:3: sites.names = [\"a\"], but sites.count is 2: the names are 1");
  CHECK(complaint("[sites]\nnames = [\"a\", \"a\"]\n").find("a list of different names") != std::string::npos);
  CHECK(complaint("[sites]\nnames = [\"../a\"]\n").find("a list of different names") != std::string::npos);
  CHECK(complaint("[sites]\ncount = 0\n").find("a whole number from 1 to 4096") != std::string::npos);
  CHECK(parse("[sites]\nnames = [\"a\", \"b\"]\n", {"sites.count=4"}).sites.names[3] == "site-3");
}

TEST_CASE("config: names and devices are held to their form") {
  for (const char* good : {"a", "A.b_c-9", "0"}) CHECK(parse("", {std::string("run.name=") + good}).run.name == good);
  for (const std::string bad : {"", ".", "-a", "a/b", "a b", "a\n"})
    CHECK(complaint("", {"run.name=" + bad}).find("1 to 64 letters") != std::string::npos);
  CHECK(parse("", {"run.name=" + std::string(64, 'a')}).run.name.size() == 64);
  CHECK(complaint("", {"run.name=" + std::string(65, 'a')}).find("1 to 64 letters") != std::string::npos);
  for (const char* good : {"cpu", "cuda", "cuda:0", "cuda:12"})
    CHECK(parse("", {std::string("inner.device=") + good}).inner.device == good);
  for (const std::string bad : {"gpu", "cuda:", "cuda:x", "cuda:1234", "cpu:0", ""})
    CHECK(complaint("", {"inner.device=" + bad}).find("\"cpu\", \"cuda\" or") != std::string::npos);
}

TEST_CASE("config: settings that do not fit together are refused with numbers that would") {
  CHECK(complaint("[sites]\ncount = 3\n") ==
        "run.toml: inner.batch = 16 (the default), but it is the batch of all sites together and must be a multiple of "
        "their number (3): try 15 or 18");
  CHECK(complaint("[outer]\nperiod = 500\nfragments = 3\n") ==
        "run.toml:2: outer.period = 500, but it must be a multiple of outer.fragments (3): try 498 or 501");
  CHECK(complaint("[outer]\nperiod = 2\nfragments = 3\n").ends_with("(3): try 3"));
  CHECK(complaint("[outer]\nperiod = 10\ndelay = 10\n") ==
        "run.toml:3: outer.delay = 10, but it must be below outer.period (10)");
  CHECK(complaint("[outer]\nperiod = 10\nfirst_send = 11\n") ==
        "run.toml:3: outer.first_send = 11, but it must be at most outer.period (10)");
  CHECK(complaint("[model]\nwidth = 65\n") ==
        "run.toml:2: model.width = 65, but it must be a multiple of model.heads (4)");
  CHECK(complaint("[model]\nwidth = 12\n") ==
        "run.toml:2: model.width = 12, but a head must have an even width, and width / heads is 3");
  CHECK(complaint("[model]\nkv_heads = 3\n") ==
        "run.toml:2: model.kv_heads = 3, but model.heads (4) must be a multiple of it");
  CHECK(complaint("[inner]\nmicro_batch = 5\n") ==
        "run.toml:2: inner.micro_batch = 5, but it must be at most the batch of a site (16 / 4 = 4), or 0");
  CHECK(complaint("[inner]\nwarmup_steps = 1001\n") ==
        "run.toml:2: inner.warmup_steps = 1001, but it must be at most run.steps (1000)");
  CHECK(complaint("[clock]\nstep_seconds = 1\n").find("clock.bandwidth_mbit is not given") != std::string::npos);
  CHECK(complaint("[clock]\nrtt_ms = 1\n").find("the modelled time needs them") != std::string::npos);
}

TEST_CASE("config: method diloco sets Nesterov 0.7, 0.9, and takes every outer setting") {
  const RunConfig c = parse("");
  CHECK(c.outer.optimizer.kind == OuterKind::nesterov);
  CHECK(c.outer.optimizer.lr == 0.7F);
  CHECK(c.outer.optimizer.momentum == 0.9F);
  const RunConfig streaming = parse("[outer]\nperiod = 30\nfragments = 3\ndelay = 1\nmix = 0.5\n");
  CHECK(streaming.outer.schedule.fragments == 3);
  CHECK(streaming.outer.mix == 0.5F);
  CHECK(parse("[outer]\noptimizer = \"sgd\"\n").outer.optimizer.momentum == 0.0F);
  CHECK(complaint("[outer]\noptimizer = \"sgd\"\nmomentum = 0.9\n") ==
        "run.toml:3: outer.momentum = 0.9, but outer.optimizer = \"sgd\" has no momentum: leave it out");
}

TEST_CASE("config: method local_sgd is the plain mean, and refuses an outer optimizer that is not") {
  const RunConfig c = parse("[run]\nmethod = \"local_sgd\"\n[outer]\nperiod = 10\nmomentum = 0\nlr = 1\n");
  CHECK(c.outer.optimizer.kind == OuterKind::sgd);
  CHECK(c.outer.optimizer.lr == 1.0F);
  CHECK(c.outer.optimizer.momentum == 0.0F);
  CHECK(complaint("[run]\nmethod = \"local_sgd\"\n[outer]\nmomentum = 0.9\n") ==
        "run.toml:4: outer.momentum = 0.9, but it must be 0 with run.method = \"local_sgd\", which takes the plain "
        "mean; for other values use \"diloco\"");
  CHECK(complaint("[outer]\noptimizer = \"nesterov\"\nlr = 0.7\n", {"run.method=local_sgd"})
            .starts_with("run.toml:2: outer.optimizer = \"nesterov\", but it must be \"sgd\" with"));
}

TEST_CASE("config: method ddp refuses outer settings, each by name") {
  CHECK(parse("[run]\nmethod = \"ddp\"\n").ddp());
  CHECK(complaint("[run]\nmethod = \"ddp\"\n[outer]\nperiod = 30\nlr = 0.7\n") ==
        "run.toml:4: outer.period = 30, but run.method = \"ddp\" averages gradients in every step and has no outer "
        "step: leave it out\n"
        "run.toml:5: outer.lr = 0.7, but run.method = \"ddp\" averages gradients in every step and has no outer step: "
        "leave it out");
}

TEST_CASE("config: methods that are known but not there yet are told from those that are unknown") {
  for (const char* name : {"async_dn", "decoupled", "noloco"})
    CHECK(complaint(std::string("[run]\nmethod = \"") + name + "\"\n")
              .starts_with(std::string("run.toml:2: run.method = \"") + name +
                           "\", which is not there yet; exist: ddp, "));
  const std::string unknown = complaint("[run]\nmethod = \"dilico\"\n");
  CHECK(unknown.starts_with(
      "run.toml:2: run.method = \"dilico\", but it must be one of ddp, local_sgd, post_local_sgd, "));
  CHECK(unknown.ends_with("; did you mean diloco?"));
  CHECK(complaint("[run]\nmethod = 3\n") == "run.toml:2: run.method = 3, but it must be a text");
}

TEST_CASE("config: each method is the settings of docs/algorithms.md, 3") {
  const auto of = [](const std::string& method) { return parse("[run]\nmethod = \"" + method + "\"\n"); };
  RunConfig c = of("post_local_sgd");
  CHECK(c.outer.ddp_steps == 500);  // half of 1000
  CHECK(c.outer.optimizer.kind == OuterKind::sgd);
  CHECK(parse("[run]\nmethod = \"post_local_sgd\"\nsteps = 100\n[outer]\nddp_steps = 7\n").outer.ddp_steps == 7);
  c = of("slowmo");
  CHECK(c.outer.optimizer.kind == OuterKind::heavy_ball);
  CHECK(c.outer.optimizer.lr == 1);
  CHECK(c.outer.inner_lr_scaled);
  c = of("streaming");
  CHECK(c.outer.schedule.fragments == 3);
  CHECK(c.outer.schedule.delay == 1);
  CHECK(c.outer.mix == 0.5F);
  CHECK(c.outer.optimizer.lr == 0.4F);
  CHECK(c.outer.optimizer.momentum == 0.9F);
  CHECK(c.comm.codec.name == "e3m0");
  CHECK(c.comm.mean_codec.name == "e3m0");
  for (const auto& [method, merge] : {std::pair{"eager", Merge::eager}, {"delayed", Merge::delayed}}) {
    c = of(method);
    CHECK(c.outer.merge == merge);
    CHECK(c.outer.schedule.delay == 29);  // the exchange has the whole round
    CHECK(c.outer.optimizer.kind == OuterKind::nesterov);
  }
  c = of("delay_corrected");
  CHECK(c.outer.merge == Merge::corrected);
  CHECK(c.outer.schedule.delay == 5);
  c = of("sparseloco");
  CHECK(c.comm.codec.name == "topk");
  CHECK(c.comm.error_feedback == 0.95F);
  CHECK(c.outer.optimizer.kind == OuterKind::sgd);
  CHECK(c.outer.optimizer.lr == 1);
  c = of("muloco");
  CHECK(c.inner.optimizer == InnerOptimizer::muon);
  CHECK(c.outer.optimizer.momentum == 0.6F);
  CHECK(c.outer.optimizer.lr == 0.7F);
  c = of("lookahead");
  CHECK(c.sites.count == 1);
  CHECK(c.outer.schedule.period == 5);
  CHECK(c.outer.optimizer.lr == 0.5F);
  c = of("snoo");
  CHECK(c.sites.count == 1);
  CHECK(c.outer.optimizer.kind == OuterKind::nesterov);
}

TEST_CASE("config: settings that contradict the method, or have no effect beside others, are refused by name") {
  const auto said = [](const std::string& toml) { return complaint(toml); };
  CHECK(said("[run]\nmethod = \"eager\"\n[outer]\nmerge = \"mix\"\n") ==
        "run.toml:4: outer.merge = \"mix\", but it must be \"eager\" with run.method = \"eager\", which is defined by "
        "it");
  CHECK(said("[run]\nmethod = \"delay_corrected\"\n[outer]\nmerge = \"eager\"\n").find("it must be \"corrected\"") !=
        std::string::npos);
  CHECK(said("[run]\nmethod = \"slowmo\"\n[outer]\noptimizer = \"adam\"\n").find("it must be \"heavy_ball\"") !=
        std::string::npos);
  CHECK(said("[run]\nmethod = \"sparseloco\"\n[comm]\ncodec = \"bf16\"\n").find("it must be \"topk\"") !=
        std::string::npos);
  CHECK(said("[run]\nmethod = \"snoo\"\n[sites]\ncount = 2\n").find("it must be 1 with run.method = \"snoo\"") !=
        std::string::npos);
  CHECK(
      said("[run]\nmethod = \"post_local_sgd\"\nsteps = 10\n[outer]\nddp_steps = 10\n").find("below run.steps (10)") !=
      std::string::npos);
  CHECK(said("[outer]\nmerge = \"eager\"\nmix = 0.5\n") ==
        "run.toml:3: outer.mix = 0.5, but only outer.merge = \"mix\" mixes: leave one of them out");
  CHECK(said("[outer]\nbeta2 = 0.5\n").find("only outer.optimizer = \"adam\" has it") != std::string::npos);
  CHECK(said("[outer]\ninner_lr_scaled = true\n").find("only defined for outer.optimizer = \"heavy_ball\"") !=
        std::string::npos);
  CHECK(said("[outer]\nfinal_lr_fraction = 0.1\n").find("outer.schedule is constant") != std::string::npos);
  CHECK(said("[outer]\noptimizer = \"sgd\"\nrestart_every = 3\n").find("has no momentum") != std::string::npos);
  CHECK(said("[outer]\nglobal_every = 3\n").find("outer.clusters is 1") != std::string::npos);
  CHECK(said("[outer]\nclusters = 3\n").find("the sites (4) must be a multiple of it") != std::string::npos);
  CHECK(said("[outer]\nclusters = 2\nmerge = \"eager\"\n").find("outer.merge = \"mix\" only") != std::string::npos);
  CHECK(said("[comm]\nerror_feedback = 0.9\n") ==
        "run.toml:2: comm.error_feedback = 0.9, but comm.codec = \"fp32\" loses nothing: leave one of them out");
  CHECK(said("[comm]\ncodec = \"bf16\"\ncodec_block = 64\n") ==
        "run.toml:3: comm.codec_block = 64, but codec \"bf16\" has no blocks: leave the block size out");
  CHECK(said("[run]\nmethod = \"ddp\"\n[comm]\ncodec = \"bf16\"\nerror_feedback = 1\n").find("keeps no residual") !=
        std::string::npos);
  CHECK(said("[run]\nmethod = \"ddp\"\n[comm]\ncodec = \"e3m0\"\n").find("fp32 or bf16") != std::string::npos);
  CHECK(said("[comm]\ncodec = \"topk\"\nmean_codec = \"bf16\"\n").find("no mean is sent back") != std::string::npos);
  CHECK(said("[comm]\nmean_codec = \"topk\"\n").find("a mean is not sparse") != std::string::npos);
}

TEST_CASE("config: stores other than file:// are refused by name") {
  CHECK(complaint("[store]\nurl = \"redis://host\"\n") ==
        "run.toml:2: store.url = \"redis://host\", but redis:// is not there yet; exists: file:///FOLDER");
  CHECK(complaint("[store]\nurl = \"file://relative\"\n").find("must be file:///FOLDER") != std::string::npos);
  CHECK(parse("[store]\nurl = \"file:///shared/run\"\n").store.url == "file:///shared/run");
}

TEST_CASE("config: train wants sites, interface and store, and refuses an interface that nobody else can reach") {
  const std::string missing = complaint("", {}, "site-0");
  CHECK(missing.find("run.toml: train needs to know all sites: give sites.names") != std::string::npos);
  CHECK(missing.find("run.toml: train needs comm.interface") != std::string::npos);
  CHECK(missing.find("run.toml: train needs store.url") != std::string::npos);

  const std::string rest = "[sites]\ncount = 2\n[store]\nurl = \"file:///s\"\n[comm]\ninterface = ";
  CHECK(complaint(rest + "\"eth0\"\n", {}, "site-1") == "");
  CHECK(complaint(rest + "\"eth0\"\n", {}, "site-2") ==
        "run.toml: --site site-2 is none of the sites: site-0, site-1; did you mean site-0?");
  for (const char* loopback : {"lo", "127.0.0.1", "127.0.1.1", "localhost", "::1"}) {
    CHECK(complaint(rest + '"' + loopback + "\"\n", {}, "site-1").find("but only this machine can reach it") !=
          std::string::npos);
    CHECK(complaint(rest + '"' + loopback + "\"\nallow_loopback = true\n", {}, "site-1") == "");
  }
  CHECK(complaint("[comm]\ninterface = \"lo\"\n") == "");  // launch may
}

TEST_CASE("config: what to_toml writes reads back as the same settings, for each method") {
  const std::string odd =
      "[run]\nname = \"odd\"\nseed = 7\nsteps = 123\n[sites]\nnames = [\"a\", \"b\"]\n[data]\npath = \"a \\\"b\\\\ "
      "\\u0001ä\"\ndeal = \"same\"\n[inner]\nlr = 0.1\neps = 1e-30\nbetas = [0.123456789012345, "
      "0]\nprecision = \"bf16\"\nschedule = \"wsd\"\n[clock]\nstep_seconds = "
      "0.3333333333333333\nbandwidth_mbit = 100\n";
  for (const std::string& method : methods()) {
    CAPTURE(method);
    if (method == "lookahead" || method == "snoo") continue;  // one site; below
    const RunConfig once =
        parse(odd + (method == "sparseloco" ? "[comm]\ncodec = \"topk\"\n" : "[comm]\ncodec = \"bf16\"\n"),
              {"run.method=" + method});
    const std::string toml = to_toml(once);
    const RunConfig twice = parse(toml);
    CHECK(to_toml(twice) == toml);
    CHECK(twice.run.tokens == once.run.tokens);
    CHECK(twice.sites.names == std::vector<std::string>{"a", "b"});
    CHECK(twice.data.path == "a \"b\\ \001ä");
    CHECK(twice.inner.betas[0] == 0.123456789012345);
    CHECK(twice.inner.eps == 1e-30);
    CHECK(twice.clock.step_seconds == 0.3333333333333333);
    CHECK(twice.comm.mean_codec.name == (method == "sparseloco" ? "fp32" : "bf16"));
    CHECK(twice.comm.mean_codec == once.comm.mean_codec);
    CHECK(twice.outer.ddp_steps == once.outer.ddp_steps);
    CHECK(twice.outer.schedule.delay == once.outer.schedule.delay);
    CHECK(twice.outer.merge == once.outer.merge);
    CHECK(twice.outer.optimizer.lr == once.outer.optimizer.lr);
    CHECK(twice.outer.optimizer.momentum == once.outer.optimizer.momentum);
    CHECK((toml.find("\n[outer]\n") == std::string::npos) == (method == "ddp"));
  }
  for (const std::string method : {"lookahead", "snoo"}) {
    const std::string toml = to_toml(parse("[run]\nmethod = \"" + method + "\"\n"));
    CHECK(to_toml(parse(toml)) == toml);
  }
}

TEST_CASE("config: experiments/default.toml names every key, with the default") {
  const std::filesystem::path file = std::filesystem::path(ATOLL_SOURCE_DIR) / "experiments" / "default.toml";
  CHECK(to_toml(read_config(file, {})) == to_toml(RunConfig(parse(""))));
  const std::string text = slurp(file);
  CHECK(text.substr(text.find('\n') + 1) == to_toml(parse("")));
  // Defaults live in the structs: a struct nobody read says the same.
  RunConfig untouched;
  untouched.sites.names = {"site-0", "site-1", "site-2", "site-3"};
  untouched.run.tokens = 1000 * 16 * 64;
  untouched.comm.mean_codec.name = "fp32";
  CHECK(to_toml(untouched) == to_toml(parse("")));
}

TEST_CASE("config: the settings of the issue are all there") {
  const std::string text = to_toml(parse(""));
  for (const char* key : {"name",         "method",      "steps",      "tokens",       "seed",
                          "count",        "layers",      "width",      "heads",        "kv_heads",
                          "ffn",          "context",     "tied",       "qk_norm",      "path",
                          "optimizer",    "lr",          "schedule",   "warmup_steps", "final_lr_fraction",
                          "weight_decay", "betas",       "clip",       "z_loss",       "batch",
                          "micro_batch",  "precision",   "device",     "threads",      "period",
                          "fragments",    "fragment_by", "delay",      "mix",          "first_send",
                          "momentum",     "codec",       "mean_codec", "streams",      "piece_mib",
                          "timeout_s",    "interface",   "url",        "every_rounds", "windows"}) {
    CAPTURE(key);
    const std::string line = std::string(key) + " = ";
    CHECK((text.find("\n" + line) != std::string::npos || text.find("\n# " + line) != std::string::npos));
  }
}

TEST_CASE("config: what must agree between sites leaves out what each site has of its own") {
  const RunConfig a = parse("[sites]\ncount = 2\n");
  const RunConfig b = parse("[sites]\ncount = 2\n",
                            {"run.name=b", "data.path=/b", "comm.interface=eth1", "inner.device=cuda:1",
                             "inner.threads=4", "store.url=file:///b", "inner.micro_batch=2", "comm.timeout_s=5"});
  CHECK(agreed_settings(a) == agreed_settings(b));
  CHECK(agreed(a, "inner.lr") == "0.004");
  CHECK(agreed(a, "sites.names") == R"(["site-0", "site-1"])");
  CHECK(agreed(a, "outer.lr") == "0.7");
  CHECK(agreed(a, "inner.threads") == "(not there)");
  CHECK(agreed(parse("", {"run.method=ddp"}), "outer.lr") == "(not there)");
  CHECK(agreed_settings(a) != agreed_settings(parse("[sites]\ncount = 2\n", {"inner.lr=0.005"})));
}
