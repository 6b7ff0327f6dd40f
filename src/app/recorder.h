// Recorder: what a site did, as lines of the run folder, log and progress.  Driven by simulate and train.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "app/assemble.h"
#include "app/observed_exchange.h"
#include "app/progress.h"
#include "app/records.h"
#include "app/run_folder.h"
#include "app/site.h"
#include "base/clock.h"

namespace atl {

// The time of a run: seconds since the start, evaluation not counted.
class RunClock {
 public:
  double seconds() const { return steady_seconds() - start_ - paused_; }
  void pause(double seconds) { paused_ += seconds; }

 private:
  double start_ = steady_seconds();
  double paused_ = 0;
};

// Evaluates Θ on the fixed validation windows and keeps model.safetensors.  One site of a run does it.
class Evaluator {
 public:
  Evaluator(const RunParts& parts, RunFolder& folder, Progress* progress, RunClock& clock);
  // True when Θ is to be evaluated now: a round divisible by eval.every_rounds has just been completed.
  bool due(std::uint64_t completed_round) const;
  // Mean loss a token of site.global().  Saves the model first when it is finite.
  double evaluate(Site& site, Inner& inner, std::uint64_t round);
  std::size_t windows() const { return count_; }
  std::optional<double> last() const { return last_; }

 private:
  const RunParts& parts_;
  RunFolder& folder_;
  Progress* progress_;
  RunClock& clock_;
  std::vector<Batch> windows_;
  std::size_t count_ = 0;
  std::optional<double> last_;
};

// Writes Θ to `file`, by way of the host when the model is on a device.  What is not finite is not written: a warning.
void save_model(const std::filesystem::path& file, const RunParts& parts, const Site& site, Place place);

class Recorder {
 public:
  // `line`: of this site in the progress.
  Recorder(const RunParts& parts, RunFolder& folder, Progress* progress, const RunClock& clock, int rank, int line);

  // After Site::collect() of a step, before applied(): its StepRecord.
  void stepped(const Site& site);
  // After Site::collect() or drain(): a RoundRecord for each fragment (ddp: one for the step).  wait_s: stood still;
  // apply_s: the rest.
  void applied(const Site& site, const std::vector<Applied>& answers, const ObservedExchange& exchange, double wait_s,
               double apply_s, std::optional<double> modelled_s);
  // Θ was evaluated after the last applied(): goes into its record, which is held back until flush().
  void evaluated(double loss);
  void flush();  // writes the record held back

  std::uint64_t completed_round() const { return completed_round_; }  // by the last applied(); 0: it completed none
  std::uint64_t rounds() const { return outer_rounds_; }

 private:
  const RunParts& parts_;
  RunFolder& folder_;
  Progress* progress_;
  const RunClock& clock_;
  int rank_, line_;
  double loss_sum_ = 0;
  std::uint64_t loss_steps_ = 0;
  std::uint64_t payload_total_ = 0, wire_total_ = 0;
  std::uint64_t completed_round_ = 0, outer_rounds_ = 0, ddp_rounds_ = 0, answers_ = 0;
  std::optional<RoundRecord> held_;
};

// Site::collect (after a step, or after the drain) or Site::drain (at the end), timed and recorded.  `modelled_s`: of
// the moment after it, asked for then; nothing without a modelled clock.
enum class After { step, end, drain };
void apply_answers(Site& site, ObservedExchange& exchange, Recorder& recorder, After after,
                   const std::function<std::optional<double>()>& modelled_s = nullptr);

// The part of a summary that one site knows.
Summary summarize(const RunParts& parts, const Site& site, const ExchangeTotals& totals, const std::string& command);

}  // namespace atl
