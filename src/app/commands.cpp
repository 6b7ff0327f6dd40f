#include "app/commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "app/config.h"
#include "app/config_reader.h"
#include "app/drivers.h"
#include "app/evaluate_run.h"
#include "app/plan.h"
#include "app/report.h"
#include "app/run_options.h"
#include "app/version.h"
#include "base/error.h"
#include "base/file.h"
#include "data/prepare.h"
#include "inner/transformer_inner.h"

namespace atl {

namespace {

constexpr int kUserCode = 2, kLinkCode = 3, kBugCode = 70;  // base/error.h

// What one command has parsed, and what it then does.
using Action = std::function<int()>;

// An error as the user sees it: "atoll: first line", the others below each other.
int say(int code, std::string what) {
  what = what.substr(0, what.find("\nException raised from"));  // libtorch adds its stack there
  std::string out = "atoll: ";
  for (const char c : what) out += c == '\n' ? std::string("\n       ") : std::string(1, c);
  std::fputs((out + "\n").c_str(), stderr);
  return code;
}

// Runs the action and turns what it throws into an exit code.  `who` is put before the text: the site, when launch has
// started it and several speak on one terminal.
int guarded(const Action& action, const std::string& who) {
  const auto named = [&who](const std::string& what) {
    return who.empty() || what.find(who) != std::string::npos ? what : who + ": " + what;
  };
  try {
    return action();
  } catch (const ConfigError& e) {
    return say(kUserCode, named(e.what()));
  } catch (const LinkError& e) {
    return say(kLinkCode, named(e.what()));
  } catch (const std::bad_alloc&) {
    return say(kBugCode, named("there is not enough memory"));
  } catch (const std::exception& e) {
    return say(kBugCode, named(std::string("this is a bug in atoll: ") + e.what()));
  }
}

// ---- options that several commands share

void add_config(CLI::App& command, RunOptions& options, const std::string& about) {
  command.add_option("FILE", options.config_file, about)->type_name("");
  command.add_option("--set", options.overrides, "set one setting, as in --set outer.lr=0.9; may be repeated")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
}

void add_run(CLI::App& command, RunOptions& options, const std::string& default_out) {
  add_config(command, options, "settings in TOML (atoll config --print-default); without it the defaults and --set");
  command.add_option("--out", options.out, "the run folder (default " + default_out + ")")->type_name("DIR");
  command.add_flag("--overwrite", options.overwrite, "replace the run that the folder holds");
  command.add_option("--log-level", options.log_level, "trace, debug, info, warn, error or off (default info)")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
  command.add_flag("--quiet", options.quiet, "show no progress");
}

std::filesystem::path or_default(const std::filesystem::path& out, const std::string& name) {
  return out.empty() ? std::filesystem::path("runs") / name : out;
}

// ---- the commands

void add_simulate(CLI::App& app, RunOptions& o, Action& action) {
  CLI::App* command = app.add_subcommand("simulate", "all sites in this process, with a modelled network");
  add_run(*command, o, "runs/NAME");
  command->footer(
      "Examples:\n"
      "  atoll simulate run.toml\n"
      "  atoll simulate run.toml --set sites.count=8 --set outer.lr=0.9 --out runs/eight\n"
      "  atoll simulate run.toml --set clock.step_seconds=0.1 --set clock.bandwidth_mbit=100 --set clock.rtt_ms=50");
  command->callback([&] {
    action = [&] {
      const RunConfig config = read_config(o.config_file, o.overrides);
      o.out = or_default(o.out, config.run.name);
      return run_simulate(config, o);
    };
  });
}

void add_launch(CLI::App& app, RunOptions& o, Action& action) {
  CLI::App* command = app.add_subcommand("launch", "all sites as processes on this machine, over loopback TCP");
  add_run(*command, o, "runs/NAME");
  command->footer(
      "Examples:\n"
      "  atoll launch run.toml\n"
      "  atoll launch experiments/quickstart/diloco.toml --set run.steps=600 --out runs/try --overwrite");
  command->callback([&] {
    action = [&] {
      const RunConfig config = read_config(o.config_file, o.overrides);
      o.out = or_default(o.out, config.run.name);
      return run_launch(config, o);
    };
  });
}

void add_train(CLI::App& app, RunOptions& o, std::string& site, Action& action) {
  CLI::App* command = app.add_subcommand("train", "one site; start one at every place");
  add_run(*command, o, "runs/NAME-SITE");
  command->add_option("--site", site, "which of sites.names this is")->type_name("NAME")->required();
  command->add_flag("--join", o.join, "write into the run folder of launch")->group("");  // hidden
  command->footer(
      "Every site reads the same settings but for paths, device and interface; they are compared before the start.\n"
      "Examples, at two places that share a file system:\n"
      "  atoll train run.toml --site site-0 --set store.url=file:///shared/run --set comm.interface=eth0\n"
      "  atoll train run.toml --site site-1 --set store.url=file:///shared/run --set comm.interface=wg0");
  command->callback([&] {
    action = [&] {
      const RunConfig config = read_config(o.config_file, o.overrides, site);
      o.out = or_default(o.out, config.run.name + "-" + site);
      return run_train(config, o, site);
    };
  });
}

void add_data(CLI::App& app, PrepareConfig& prepare_config, Action& action) {
  CLI::App* data = app.add_subcommand("data", "make token files from text");
  data->require_subcommand(1);
  CLI::App* command = data->add_subcommand("prepare", "text files -> train.tokens and val.tokens in one folder");
  command->add_option("FILES", prepare_config.files, "text files, joined in this order")->type_name("")->required();
  command->add_option("--out", prepare_config.out, "the folder, for data.path")->type_name("DIR")->required();
  command
      ->add_option("--tokenizer", prepare_config.tokenizer,
                   "bytes, or spm:MODEL, a SentencePiece model (default bytes)")
      ->type_name("NAME");
  command->add_option("--val", prepare_config.val, "the share of the text that is held out (default 0.05)")
      ->type_name("X");
  command->footer(
      "Examples:\n"
      "  atoll data prepare shakespeare/*.txt --out data/shakespeare-bytes\n"
      "  atoll data prepare corpus.txt --out data/corpus --tokenizer spm:corpus.model --val 0.01");
  command->callback([&] {
    action = [&] {
      std::cout << describe(prepare(prepare_config));
      return 0;
    };
  });
}

void add_eval(CLI::App& app, EvaluateOptions& o, Action& action) {
  CLI::App* command = app.add_subcommand("eval", "the held-out loss of a run's model");
  command->add_option("RUN_DIR", o.run, "the run folder")->type_name("")->required();
  command
      ->add_option("--set", o.overrides, "set one of the run's settings, as in --set eval.windows=0; may be repeated")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
  command->footer(
      "Examples:\n"
      "  atoll eval runs/diloco\n"
      "  atoll eval runs/diloco --set eval.windows=0 --set inner.device=cuda\n"
      "  atoll eval runs/diloco --set data.path=data/milton-bytes");
  command->callback([&] {
    action = [&] {
      std::cout << evaluate_run(o);
      return 0;
    };
  });
}

void add_report(CLI::App& app, std::vector<std::filesystem::path>& folders, std::filesystem::path& html,
                Action& action) {
  CLI::App* command = app.add_subcommand("report", "compare runs: a table here, charts in one HTML file");
  command->add_option("DIR", folders, "run folders; the first finished ddp run is what the others are compared with")
      ->type_name("")
      ->required();
  command->add_option("--html", html, "write tables and charts to this file, which needs no network")
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  atoll report runs/ddp runs/diloco\n"
      "  atoll report runs/* --html report.html");
  command->callback([&] {
    action = [&] {
      const std::vector<RunData> runs = load_runs(folders);
      std::cout << report_table(runs);
      if (!html.empty()) {
        write_atomically(html, report_html(runs));
        std::cout << "\ncharts: " << html.string() << "\n";
      }
      return 0;
    };
  });
}

struct PlanOptions {
  double step_seconds = 0, mbit = 0, rtt_ms = -1;
  std::filesystem::path run;
};

// What is not given comes from [clock], then from [network] emulate; a step that nobody knows is measured here.
PlanNetwork network_of(const PlanOptions& o, const RunParts& parts) {
  const RunConfig& c = parts.config;
  const auto first = [](double a, double b, double d) { return a > 0 ? a : b > 0 ? b : d; };
  PlanNetwork network{.step_seconds = first(o.step_seconds, c.clock.step_seconds, 0),
                      .mbit = first(o.mbit, c.clock.bandwidth_mbit, c.emulate.bandwidth_mbit),
                      .rtt_ms = o.rtt_ms >= 0 ? o.rtt_ms : first(0, c.clock.rtt_ms, c.emulate.rtt_ms)};
  if (network.step_seconds == 0) network.step_seconds = measured_step_seconds(parts);
  return network;
}

void add_plan(CLI::App& app, RunOptions& o, PlanOptions& plan, Action& action) {
  CLI::App* command = app.add_subcommand("plan", "what a run will send, hold and wait for");
  add_config(*command, o, "settings in TOML");
  const CLI::Validator above_zero(
      [](const std::string& x) { return std::atof(x.c_str()) > 0 ? "" : "it must be a number above 0"; }, "");
  command->add_option("--step-seconds", plan.step_seconds, "of an inner step (default: a few are measured here)")
      ->type_name("S")
      ->check(above_zero);
  command->add_option("--mbit", plan.mbit, "of each site, each direction (default: [clock], then [network] emulate)")
      ->type_name("X")
      ->check(above_zero);
  command->add_option("--rtt", plan.rtt_ms, "round trip in milliseconds")
      ->type_name("MS")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--run", plan.run, "a finished run of these settings: what was measured stands beside")
      ->type_name("DIR");
  command->footer(
      "Examples:\n"
      "  atoll plan run.toml --mbit 100 --rtt 100\n"
      "  atoll plan run.toml --step-seconds 0.25 --mbit 1000 --rtt 40\n"
      "  atoll plan runs/diloco/config.toml --run runs/diloco");
  command->callback([&] {
    action = [&] {
      const RunParts parts = assemble(read_config(o.config_file, o.overrides));
      std::cout << plan_text(parts, network_of(plan, parts), plan.run);
      return 0;
    };
  });
}

void add_config_command(CLI::App& app, RunOptions& o, bool& print_default, std::string& method, Action& action) {
  CLI::App* command = app.add_subcommand("config", "check settings and print them all");
  add_config(*command, o, "settings to check and to print in full");
  command->add_flag("--print-default", print_default, "print every setting with its default");
  command->add_option("--method", method, "with --print-default: of this method")->type_name("M");
  command->footer(
      "Examples:\n"
      "  atoll config --print-default > run.toml\n"
      "  atoll config --print-default --method ddp\n"
      "  atoll config run.toml --set outer.period=50");
  command->callback([&] {
    action = [&] {
      if (print_default == !o.config_file.empty())
        throw ConfigError("config wants either a FILE to check and to print in full, or --print-default");
      if (!method.empty() && !print_default) throw ConfigError("--method goes with --print-default");
      if (!method.empty()) o.overrides.push_back("run.method=" + method);
      std::cout << to_toml(read_config(o.config_file, o.overrides));
      return 0;
    };
  });
}

// "fly" is no command.  CLI11 only says that one is missing.
std::string unknown_command(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  std::string all;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == argv[1]) return "";
    names.push_back(command->get_name());
    all += (all.empty() ? "" : ", ") + command->get_name();
  }
  return text("\"", argv[1], "\" is no command", near_miss(argv[1], names), "\nthere are: ", all);
}

// A wrong use: what is wrong, and where help is.
int say_wrong_use(const CLI::App& app, const std::string& what) {
  const auto used = app.get_subcommands();
  const std::string of = used.empty() ? "atoll" : "atoll " + used.front()->get_name();
  return say(kUserCode, what + "\n`" + of + " --help` shows what there is");
}

}  // namespace

int run_command(int argc, const char* const* argv) {
  CLI::App app("atoll trains one neural network at several sites that are joined by slow, unreliable links.", "atoll");
  app.require_subcommand(1);
  app.set_version_flag("--version", [] { return std::string("atoll ") + kVersion + "\n" + describe_backend({}); });
  app.footer(
      "`atoll COMMAND --help` shows options and examples.  Exit codes: 0; 2 settings, files, wrong use; 3 a site or "
      "link failed; 70 a bug.");

  Action action;
  RunOptions options;
  PrepareConfig prepare_config;
  EvaluateOptions evaluate_options;
  std::string site, method;
  bool print_default = false;
  std::vector<std::filesystem::path> folders;
  std::filesystem::path html;
  add_simulate(app, options, action);
  add_launch(app, options, action);
  add_train(app, options, site, action);
  add_data(app, prepare_config, action);
  add_eval(app, evaluate_options, action);
  add_report(app, folders, html, action);
  PlanOptions plan;
  add_plan(app, options, plan, action);
  add_config_command(app, options, print_default, method, action);
  if (const std::string wrong = unknown_command(app, argc, argv); !wrong.empty()) return say_wrong_use(app, wrong);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return say_wrong_use(app, e.what());
  }
  return guarded(action, options.join ? site : "");
}

}  // namespace atl
