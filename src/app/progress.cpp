#include "app/progress.h"

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "app/units.h"
#include "base/error.h"

namespace atl {

namespace {

using Clock = std::chrono::steady_clock;

struct Size {
  int columns = 80, rows = 24;
};
Size terminal_size() {
  ::winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

bool terminal_can_redraw() {
  const char* term = std::getenv("TERM");  // changes how a run looks, never what it computes
  return ::isatty(STDERR_FILENO) == 1 && term != nullptr && std::string(term) != "dumb";
}

void write_stderr(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ::ssize_t n = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) return;  // nobody looks any more
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

// Steps a second, smoothed over a few seconds.
class Rate {
 public:
  void update(std::uint64_t steps, Clock::time_point now) {
    if (!started_) {
      started_ = true;
    } else {
      const double dt = std::chrono::duration<double>(now - at_).count();
      if (dt <= 0) return;
      const double current = static_cast<double>(steps - steps_) / dt;
      const double keep = known_ ? std::exp(-dt / kMemory) : 0;
      rate_ = keep * rate_ + (1 - keep) * current;
      known_ = true;
    }
    steps_ = steps;
    at_ = now;
  }
  double a_second() const { return rate_; }

 private:
  static constexpr double kMemory = 5;  // seconds
  bool started_ = false, known_ = false;
  std::uint64_t steps_ = 0;
  Clock::time_point at_;
  double rate_ = 0;
};

// The lines that a file has grown by.  A line without its newline waits.
class Tail {
 public:
  std::vector<std::string> read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(offset_));
    std::vector<std::string> lines;
    for (std::string line; in && std::getline(in, line) && !in.eof();) {
      offset_ += line.size() + 1;
      lines.push_back(std::move(line));
    }
    return lines;
  }

 private:
  std::uint64_t offset_ = 0;
};

}  // namespace

struct Progress::Impl {
  struct Line {
    std::uint64_t step = 0, round = 0;
    double loss = 0;  // smoothed
    std::string state;
    Rate rate;
  };

  // First among the log's sinks: takes the live lines away before a message is printed where they stand.
  class Eraser : public spdlog::sinks::base_sink<std::mutex> {
   public:
    explicit Eraser(Impl& impl) : impl_(impl) {}

   private:
    void sink_it_(const spdlog::details::log_msg&) override {
      const std::lock_guard lock(impl_.mutex);
      impl_.erase();
    }
    void flush_() override {}
    Impl& impl_;
  };

  Options options;
  Show show;
  std::mutex mutex;
  std::vector<Line> lines;
  std::size_t name_width = 0;
  int drawn_lines = 0;     // of the live ones, standing on the terminal
  Clock::time_point last;  // drawn or said
  bool finished = false;
  Tail steps_tail, rounds_tail;
  std::shared_ptr<spdlog::logger> logger;  // whose sinks we changed; may be null
  std::shared_ptr<Eraser> eraser;
  spdlog::sink_ptr quieted;
  spdlog::level::level_enum quieted_level = spdlog::level::trace;

  Clock::time_point now() const { return options.now ? options.now() : Clock::now(); }
  void put(const std::string& text) const { options.write ? options.write(text) : write_stderr(text); }
  Size size() const {
    return options.columns > 0 ? Size{.columns = options.columns, .rows = options.rows} : terminal_size();
  }

  void touch_log() {
    logger = spdlog::default_logger();
    eraser = std::make_shared<Eraser>(*this);
    for (const auto& sink : logger->sinks())
      if (std::dynamic_pointer_cast<spdlog::sinks::stderr_color_sink_mt>(sink)) quieted = sink;
    if (quieted) {
      quieted_level = quieted->level();
      quieted->set_level(std::max(quieted_level, spdlog::level::warn));
      eraser->set_level(quieted->level());
    }
    logger->sinks().insert(logger->sinks().begin(), eraser);
  }
  void leave_log() {
    if (!logger) return;
    std::erase(logger->sinks(), eraser);
    if (quieted) quieted->set_level(quieted_level);
    logger.reset();
  }

  std::string words(std::size_t site) const {
    const Line& line = lines[site];
    const double left = static_cast<double>(options.steps - std::min(line.step, options.steps));
    const double rate = line.rate.a_second();
    std::string out = fmt::format("{:<{}}  {}/{}  {:3.0f}%  loss {:.3f}  {} tok/s", options.sites[site], name_width,
                                  line.step, options.steps, percent(line.step), line.loss,
                                  short_count(rate * static_cast<double>(options.tokens_a_step)));
    if (rate > 0 && left > 0) out += "  ETA " + short_duration(left / rate);
    if (line.round > 0) out += fmt::format("  round {}", line.round);
    if (!line.state.empty()) out += "  " + line.state;
    return out;
  }
  double percent(std::uint64_t step) const {
    return options.steps > 0 ? 100.0 * static_cast<double>(step) / static_cast<double>(options.steps) : 0;
  }

  // One plain line for all sites: the step that all have reached, the mean loss, the sum of rates.
  std::string plain_words() const {
    std::uint64_t step = options.steps, round = 0;
    double loss = 0, rate = 0, slowest = 0;
    for (const Line& line : lines) {
      step = std::min(step, line.step);
      round = std::max(round, line.round);
      loss += line.loss / static_cast<double>(lines.size());
      rate += line.rate.a_second();
      slowest = slowest == 0 ? line.rate.a_second() : std::min(slowest, line.rate.a_second());
    }
    std::string out = fmt::format("step {}/{}  {:.0f}%  loss {:.3f}  {} tok/s", step, options.steps, percent(step),
                                  loss, short_count(rate * static_cast<double>(options.tokens_a_step)));
    if (slowest > 0 && step < options.steps)
      out += "  ETA " + short_duration(static_cast<double>(options.steps - step) / slowest);
    if (round > 0) out += fmt::format("  round {}", round);
    return out;
  }

  void erase() {
    if (drawn_lines > 0) put(fmt::format("\x1b[{}F\x1b[J", drawn_lines));
    drawn_lines = 0;
  }

  void draw() {
    const Size terminal = size();
    const auto most = static_cast<std::size_t>(std::max(1, terminal.rows - 2));
    std::string out = drawn_lines > 0 ? fmt::format("\x1b[{}F", drawn_lines) : "";
    const std::size_t shown = lines.size() <= most ? lines.size() : most - 1;
    for (std::size_t i = 0; i < shown; ++i) {
      // A line that wraps could not be taken back.
      out += words(i).substr(0, static_cast<std::size_t>(std::max(1, terminal.columns - 1))) + "\x1b[K\n";
    }
    if (shown < lines.size()) out += fmt::format("... and {} more sites\x1b[K\n", lines.size() - shown);
    drawn_lines = static_cast<int>(shown) + (shown < lines.size() ? 1 : 0);
    put(out);
  }

  // Draws or says something when it is time.
  void tick() {
    if (finished || show == Show::nothing) return;
    const auto time = now();
    if (time - last < (show == Show::live ? options.redraw : options.every)) return;
    last = time;
    for (Line& line : lines) line.rate.update(line.step, time);
    if (show == Show::live)
      draw();
    else
      put(plain_words() + "\n");
  }

  Line& at(int site) {
    ATOLL_CHECK(site >= 0 && static_cast<std::size_t>(site) < lines.size(), "site ", site, " of ", lines.size());
    return lines[static_cast<std::size_t>(site)];
  }
};

Progress::Progress(Options options) : impl_(std::make_unique<Impl>()) {
  Impl& p = *impl_;
  p.options = std::move(options);
  p.show = p.options.show;
  if (p.show == Show::automatic) p.show = terminal_can_redraw() ? Show::live : Show::plain;
  p.lines.resize(p.options.sites.size());
  for (const std::string& site : p.options.sites) p.name_width = std::max(p.name_width, site.size());
  p.last = p.now();
  for (Impl::Line& line : p.lines) line.rate.update(0, p.last);
  if (p.show == Show::live) p.touch_log();
}

Progress::~Progress() { finish(); }

void Progress::step(int site, std::uint64_t step, double loss) {
  const std::lock_guard lock(impl_->mutex);
  Impl::Line& line = impl_->at(site);
  constexpr double kKeep = 0.9;  // of the smoothed loss: about the last ten steps
  line.loss = line.step == 0 || !std::isfinite(line.loss) ? loss : kKeep * line.loss + (1 - kKeep) * loss;
  line.step = step;
  impl_->tick();
}

void Progress::state(int site, std::string words) {
  const std::lock_guard lock(impl_->mutex);
  impl_->at(site).state = std::move(words);
  impl_->tick();
}

void Progress::round(int site, std::uint64_t round) {
  const std::lock_guard lock(impl_->mutex);
  impl_->at(site).round = round;
  impl_->tick();
}

void Progress::evaluated(std::uint64_t step, std::uint64_t round, double eval_loss) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->finished || impl_->show == Show::nothing) return;
  impl_->erase();
  impl_->put(fmt::format("step {}  round {}  held-out loss {:.4f}\n", step, round, eval_loss));
  if (impl_->show == Show::live) impl_->draw();
}

void Progress::finish() {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->finished) return;
    if (impl_->show == Show::live) impl_->draw();
    if (impl_->show == Show::plain) impl_->put(impl_->plain_words() + "\n");
    impl_->drawn_lines = 0;  // they stay
    impl_->finished = true;
  }
  impl_->leave_log();  // without the lock: a thread that logs holds the eraser's and wants ours
}

void Progress::follow(const std::filesystem::path& run_folder) {
  for (const std::string& line : impl_->steps_tail.read(run_folder / "steps.jsonl")) {
    try {
      const StepRecord record = parse_step(line);
      step(record.site, record.step, record.loss);
    } catch (const ConfigError&) {  // a line broken by a full disk
    }
  }
  for (const std::string& line : impl_->rounds_tail.read(run_folder / "rounds.jsonl")) {
    try {
      const RoundRecord record = parse_round(line);
      round(record.site, record.round);
      if (record.eval_loss) evaluated(record.step, record.round, *record.eval_loss);
    } catch (const ConfigError&) {
    }
  }
}

}  // namespace atl
