// Records: the lines of steps.jsonl and rounds.jsonl and the content of summary.json, as structs and as JSON.
//
// One JSON object a line; unknown keys are skipped and absent ones keep the default when read, so that files of other
// versions can be compared.  JSON has no NaN: a value that is not finite is written as null and read back as NaN.
// Seconds are since the run's start, by this machine's clock.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl {

// One inner step of one site.
struct StepRecord {
  int site = 0;              // rank
  std::uint64_t step = 0;    // inner steps done, from 1
  double loss = 0;           // mean training loss a token of the step's batch
  double gradient_norm = 0;  // before the clip
  double lr = 0;
  std::uint64_t tokens = 0;  // trained by this site so far
  double seconds = 0;
};

// One answer applied by one site.  ddp: one record a step (bytes and times of its buckets summed, slot 0); a writer may
// leave records out, since the totals carry on.
struct RoundRecord {
  int site = 0;
  std::uint64_t exchange = 0;  // its number, from 1
  std::uint64_t round = 0;     // from 1
  std::uint64_t step = 0;      // inner steps done when it was applied
  int slot = 0;                // the fragment (ddp: bucket)
  std::uint64_t tokens = 0;    // trained by all sites together so far
  double seconds = 0;
  double loss_mean = 0;             // training loss, mean over this site's steps since its last record
  double delta_norm = 0;            // of this site's own delta
  double mean_norm = 0;             // of the mean over sites
  std::uint64_t payload_bytes = 0;  // this exchange, this site
  std::uint64_t header_bytes = 0;
  std::uint64_t wire_bytes = 0;           // what left the sockets (TCP_INFO); 0 in a simulation
  std::uint64_t payload_bytes_total = 0;  // of this site since the start of the run, this exchange included
  std::uint64_t wire_bytes_total = 0;
  std::uint64_t retransmitted_bytes = 0;  // part of wire_bytes
  std::uint64_t received_bytes = 0;       // what came in through the sockets
  double encode_s = 0;                    // writing the payload, hashing, looking for a NaN: before the send
  double wait_s = 0;                      // exposed: the trainer stood still for the answer
  double hidden_s = 0;                    // of link_s, in which the trainer did not stand still
  double link_s = 0;                      // the exchange took in the link
  double apply_s = 0;                     // outer step and merge
  std::optional<double> eval_loss = {};   // of Θ after this record, when it was evaluated
  std::optional<double> modelled_s = {};  // simulate with [clock]: the virtual time
};

// How a run ended.
enum class RunStatus { finished, interrupted, failed };
std::string name_of(RunStatus status);

struct Summary {
  std::string name = {};
  std::string method = {};
  std::string command = {};  // simulate | launch | train
  std::string site = {};     // train: the one site this summary speaks of; else ""
  std::uint64_t seed = 0;
  RunStatus status = RunStatus::finished;
  std::string error = {};  // why it failed; "" else
  int sites = 0;
  std::uint64_t params = 0;
  std::uint64_t tokens = 0;              // trained by all sites together
  std::uint64_t inner_steps = 0;         // done by each site
  std::uint64_t rounds = 0;              // outer steps of the whole model (ddp: steps)
  std::optional<double> eval_loss = {};  // of Θ at the end; nothing when it was not evaluated
  std::uint64_t eval_windows = 0;        // on how many windows
  std::string data_hash = {};            // two runs with different ones are not comparable
  std::uint64_t payload_bytes_per_site = 0;
  std::uint64_t header_bytes_per_site = 0;
  std::uint64_t wire_bytes_per_site = 0;  // mean over sites, measured; 0 in a simulation
  std::uint64_t retransmitted_bytes_per_site = 0;
  std::uint64_t received_bytes_per_site = 0;
  double seconds = 0;
  double tokens_per_s = 0;        // all sites together, evaluation not counted
  double exchange_wait_s = 0;     // mean over sites
  double compute_s = 0;           // in inner steps, encoding not counted; mean over sites
  double utilisation = 0;         // compute_s / seconds
  std::string global_hash = {};   // of Θ, hexadecimal
  std::uint32_t generations = 0;  // 1 without a fault
  struct Clock {                  // simulate with [clock]: the model's input and answer
    double step_seconds = 0, bandwidth_mbit = 0, rtt_ms = 0;
    double seconds = 0;      // of the whole run
    double utilisation = 0;  // share of it in which sites compute
  };
  std::optional<Clock> modelled = {};
  std::string backend = {};  // "libtorch 2.11.0, cpu, 1 thread"
  std::string version = {};  // the program's; filled in by to_json when empty
};

// One line without a newline.
std::string to_json(const StepRecord& record);
std::string to_json(const RoundRecord& record);
// Indented, ends with a newline.
std::string to_json(const Summary& summary);

// Throw ConfigError (what is wrong; the caller adds where) when the text is no JSON object or a value has a wrong type.
StepRecord parse_step(std::string_view json);
RoundRecord parse_round(std::string_view json);
Summary parse_summary(std::string_view json);

// All records of a file, in the order written.  A file that is not there is empty.  Lines that cannot be read (a last
// one cut short by a crash, a full disk) are counted in *unreadable.
std::vector<StepRecord> read_steps(const std::filesystem::path& file, std::size_t* unreadable = nullptr);
std::vector<RoundRecord> read_rounds(const std::filesystem::path& file, std::size_t* unreadable = nullptr);

}  // namespace atl
