#include "app/records.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "app/version.h"
#include "base/error.h"

namespace atl {

namespace {

using Json = nlohmann::ordered_json;  // keys in the order written

// What is not finite becomes null.
template <class T>
void put(Json& out, const char* key, const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    if (!std::isfinite(value)) return void(out[key] = nullptr);
  }
  out[key] = value;
}
template <class T>
void put(Json& out, const char* key, const std::optional<T>& value) {
  if (value) put(out, key, *value);
}

template <class T>
void take(const Json& in, const char* key, T& value) {
  const auto found = in.find(key);
  if (found == in.end()) return;
  if constexpr (std::is_same_v<T, double>) {
    if (found->is_null()) return void(value = std::numeric_limits<double>::quiet_NaN());
  }
  // nlohmann converts -1 and 1.5 to an unsigned number without a word.
  const bool right = std::is_same_v<T, double>        ? found->is_number()
                     : std::is_same_v<T, std::string> ? found->is_string()
                     : std::is_unsigned_v<T>          ? found->is_number_unsigned()
                                                      : found->is_number_integer();
  if (!right) throw ConfigError(text(key, " = ", found->dump(), " has a wrong type"));
  value = found->get<T>();
}
template <class T>
void take(const Json& in, const char* key, std::optional<T>& value) {
  if (!in.contains(key)) return;
  T found{};
  take(in, key, found);
  value = found;
}

// Each record names its keys once: fields(record, f) calls f(key, member).
template <class R, class F>
requires std::is_same_v<std::remove_const_t<R>, StepRecord>
void fields(R& r, F f) {
  f("site", r.site), f("step", r.step), f("loss", r.loss), f("gradient_norm", r.gradient_norm), f("lr", r.lr);
  f("tokens", r.tokens), f("seconds", r.seconds);
}

template <class R, class F>
requires std::is_same_v<std::remove_const_t<R>, RoundRecord>
void fields(R& r, F f) {
  f("site", r.site), f("exchange", r.exchange), f("round", r.round), f("step", r.step), f("slot", r.slot);
  f("tokens", r.tokens), f("seconds", r.seconds), f("loss_mean", r.loss_mean);
  f("delta_norm", r.delta_norm), f("mean_norm", r.mean_norm);
  f("payload_bytes", r.payload_bytes), f("header_bytes", r.header_bytes), f("wire_bytes", r.wire_bytes);
  f("payload_bytes_total", r.payload_bytes_total), f("wire_bytes_total", r.wire_bytes_total);
  f("retransmitted_bytes", r.retransmitted_bytes), f("received_bytes", r.received_bytes);
  f("encode_s", r.encode_s), f("hidden_s", r.hidden_s);
  f("wait_s", r.wait_s), f("link_s", r.link_s), f("apply_s", r.apply_s);
  f("eval_loss", r.eval_loss), f("modelled_s", r.modelled_s);
}

template <class R, class F>
requires std::is_same_v<std::remove_const_t<R>, Summary::Clock>
void fields(R& r, F f) {
  f("step_seconds", r.step_seconds), f("bandwidth_mbit", r.bandwidth_mbit), f("rtt_ms", r.rtt_ms);
  f("seconds", r.seconds), f("utilisation", r.utilisation);
}

template <class R, class F>
requires std::is_same_v<std::remove_const_t<R>, Summary>
void fields(R& r, F f) {  // all but status and modelled
  f("name", r.name), f("method", r.method), f("command", r.command), f("site", r.site), f("seed", r.seed);
  f("error", r.error), f("sites", r.sites), f("params", r.params), f("tokens", r.tokens);
  f("inner_steps", r.inner_steps), f("rounds", r.rounds), f("eval_loss", r.eval_loss);
  f("eval_windows", r.eval_windows), f("data_hash", r.data_hash);
  f("payload_bytes_per_site", r.payload_bytes_per_site), f("header_bytes_per_site", r.header_bytes_per_site);
  f("wire_bytes_per_site", r.wire_bytes_per_site), f("retransmitted_bytes_per_site", r.retransmitted_bytes_per_site);
  f("received_bytes_per_site", r.received_bytes_per_site);
  f("seconds", r.seconds), f("tokens_per_s", r.tokens_per_s), f("exchange_wait_s", r.exchange_wait_s);
  f("compute_s", r.compute_s), f("utilisation", r.utilisation);
  f("global_hash", r.global_hash), f("generations", r.generations), f("backend", r.backend), f("version", r.version);
}

template <class R>
Json json_of(const R& record) {
  Json out = Json::object();
  fields(record, [&out](const char* key, const auto& value) { put(out, key, value); });
  return out;
}

template <class R>
void take_fields(const Json& in, R& record) {
  fields(record, [&in](const char* key, auto& value) { take(in, key, value); });
}

Json parse_object(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw ConfigError("is no JSON object");
  return json;
}

template <class R>
R parse_record(std::string_view json) {
  R record;
  take_fields(parse_object(json), record);
  return record;
}

// Invalid UTF-8 (a file's name in an error) is replaced, never thrown about.
std::string dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

template <class R>
std::vector<R> read_records(const std::filesystem::path& file, std::size_t* unreadable) {
  std::vector<R> records;
  std::size_t bad = 0;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    try {
      records.push_back(parse_record<R>(line));
    } catch (const ConfigError&) {
      ++bad;
    }
  }
  if (unreadable != nullptr) *unreadable = bad;
  return records;
}

RunStatus status_of(const std::string& name) {
  for (const RunStatus status : {RunStatus::finished, RunStatus::interrupted, RunStatus::failed})
    if (name_of(status) == name) return status;
  throw ConfigError(text("status = \"", name, "\" must be finished, interrupted or failed"));
}

}  // namespace

std::string name_of(RunStatus status) {
  switch (status) {
    case RunStatus::finished:
      return "finished";
    case RunStatus::interrupted:
      return "interrupted";
    case RunStatus::failed:
      return "failed";
  }
  throw Bug(text("RunStatus ", static_cast<int>(status)));
}

std::string to_json(const StepRecord& record) { return dump(json_of(record), -1); }
std::string to_json(const RoundRecord& record) { return dump(json_of(record), -1); }

std::string to_json(const Summary& summary) {
  Json out = Json::object();
  out["status"] = name_of(summary.status);
  out.update(json_of(summary));
  if (summary.version.empty()) out["version"] = kVersion;
  if (summary.modelled) out["modelled"] = json_of(*summary.modelled);
  return dump(out, 2) + "\n";
}

StepRecord parse_step(std::string_view json) { return parse_record<StepRecord>(json); }
RoundRecord parse_round(std::string_view json) { return parse_record<RoundRecord>(json); }

Summary parse_summary(std::string_view text) {
  const Json json = parse_object(text);
  Summary summary;
  take_fields(json, summary);
  std::string status = name_of(summary.status);
  take(json, "status", status);
  summary.status = status_of(status);
  if (const auto found = json.find("modelled"); found != json.end()) {
    if (!found->is_object()) throw ConfigError("modelled is no JSON object");
    take_fields(*found, summary.modelled.emplace());
  }
  return summary;
}

std::vector<StepRecord> read_steps(const std::filesystem::path& file, std::size_t* unreadable) {
  return read_records<StepRecord>(file, unreadable);
}
std::vector<RoundRecord> read_rounds(const std::filesystem::path& file, std::size_t* unreadable) {
  return read_records<RoundRecord>(file, unreadable);
}

}  // namespace atl
