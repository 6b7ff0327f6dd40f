#include "app/config_reader.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <numeric>

#include "app/toml_value.h"
#include "base/error.h"

namespace atl {

// Turns toml++'s tree into entries.
struct ConfigReader::Toml {
  static toml::table parse(const std::string& text, const std::string& name) {
    try {
      return toml::parse(text, std::string_view(name));
    } catch (const toml::parse_error& e) {
      throw ConfigError(atl::text(name, ":", e.source().begin.line, ": no TOML: ", e.description()));
    }
  }

  static int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

  static Scalar scalar_of(const toml::node& node) {
    if (const auto* v = node.as_boolean()) return v->get();
    if (const auto* v = node.as_integer()) return v->get();
    if (const auto* v = node.as_floating_point()) return v->get();
    if (const auto* v = node.as_string()) return v->get();
    return std::monostate{};
  }

  static std::string text_of(const toml::node& node) {
    if (const auto* array = node.as_array()) {
      std::string out;
      for (const toml::node& element : *array) out += (out.empty() ? "" : ", ") + text_of(element);
      return "[" + out + "]";
    }
    const auto as_text = [](const auto& value) -> std::string {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>)
        return "(a date, a time or a table)";
      else
        return toml_value(value);
    };
    return std::visit(as_text, scalar_of(node));
  }

  static Entry entry_of(const toml::node& node) {
    Entry entry{.scalar = scalar_of(node), .array = {}, .text = {}, .line = line_of(node), .override = {}};
    if (const auto* array = node.as_array()) {
      entry.array.emplace();
      for (const toml::node& element : *array) entry.array->push_back(scalar_of(element));
    }
    entry.text = text_of(node);
    return entry;
  }

  static void flatten(const toml::table& table, const std::string& prefix, ConfigReader& reader) {
    for (const auto& [key, node] : table) {
      const std::string path = prefix + std::string(key.str());
      if (const auto* inner = node.as_table()) {
        reader.sections_[path] = line_of(node);
        flatten(*inner, path + ".", reader);
      } else {
        reader.entries_[path] = entry_of(node);
      }
    }
  }
};

ConfigReader::ConfigReader(const std::string& toml, std::string name, const std::vector<std::string>& overrides)
    : name_(std::move(name)) {
  Toml::flatten(Toml::parse(toml, name_), "", *this);
  for (const std::string& override : overrides) take_override(override);
}

void ConfigReader::take_override(const std::string& override) {
  const auto equals = override.find('=');
  const std::string key = override.substr(0, equals);
  if (equals == std::string::npos || key.find('.') == std::string::npos) {
    complaints_.push_back({INT_MAX, text("--set ", override, ": it must be section.key=value, as in outer.lr=0.7")});
    return;
  }
  const std::string value = override.substr(equals + 1);
  Entry entry{.scalar = value, .array = {}, .text = toml_value(value), .line = 0, .override = override};
  try {  // "v = 1\n[other]" parses too, hence the check that it is one value
    const toml::table table = toml::parse("v = " + value);
    if (table.size() == 1 && table.contains("v") && !table["v"].is_table()) entry = Toml::entry_of(*table.get("v"));
  } catch (const toml::parse_error&) {  // a bare word: --set run.method=ddp
  }
  entry.line = 0;
  entry.override = override;
  entries_[key] = std::move(entry);
}

std::vector<std::string> ConfigReader::given_in(const std::string& section) const {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : entries_)
    if (key.starts_with(section + ".")) keys.push_back(key);
  return keys;
}

bool ConfigReader::overridden(const std::string& key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && !found->second.override.empty();
}

const ConfigReader::Entry& ConfigReader::entry(const std::string& key) const { return entries_.at(key); }

bool ConfigReader::fetch(const std::string& key, bool& out) const {
  const bool* value = std::get_if<bool>(&entry(key).scalar);
  if (value != nullptr) out = *value;
  return value != nullptr;
}

bool ConfigReader::fetch(const std::string& key, std::int64_t& out) const {
  const std::int64_t* value = std::get_if<std::int64_t>(&entry(key).scalar);
  if (value != nullptr) out = *value;
  return value != nullptr;
}

namespace {

template <class Scalar>
std::optional<double> finite_number(const Scalar& scalar) {
  if (const auto* i = std::get_if<std::int64_t>(&scalar)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&scalar); d != nullptr && std::isfinite(*d)) return *d;
  return {};
}

}  // namespace

bool ConfigReader::fetch(const std::string& key, double& out) const {
  const std::optional<double> value = finite_number(entry(key).scalar);
  if (value) out = *value;
  return value.has_value();
}

bool ConfigReader::fetch(const std::string& key, float& out) const {
  double wide = 0;
  if (!fetch(key, wide)) return false;
  out = static_cast<float>(wide);
  return std::isfinite(out);
}

bool ConfigReader::fetch(const std::string& key, std::string& out) const {
  const Entry& e = entry(key);
  if (const auto* value = std::get_if<std::string>(&e.scalar)) {
    out = *value;
  } else if (!e.override.empty() && !e.array) {  // --set run.name=2024: a shell has no types
    out = e.override.substr(e.override.find('=') + 1);
  } else {
    return false;
  }
  return true;
}

bool ConfigReader::fetch(const std::string& key, std::vector<std::string>& out) const {
  const Entry& e = entry(key);
  if (!e.array) return false;
  for (const Scalar& element : *e.array) {
    const auto* value = std::get_if<std::string>(&element);
    if (value == nullptr) return false;
    out.push_back(*value);
  }
  return true;
}

bool ConfigReader::fetch(const std::string& key, std::array<double, 2>& out) const {
  const Entry& e = entry(key);
  if (!e.array || e.array->size() != out.size()) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::optional<double> value = finite_number((*e.array)[i]);
    if (!value) return false;
    out[i] = *value;
  }
  return true;
}

void ConfigReader::complain(const std::string& key, const std::string& what, const std::string& value) {
  if (!broken_.insert(key).second) return;  // one mistake of a key is enough
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    complaints_.push_back({INT_MAX, text(name_, ": ", key, " = ", value, " (the default), ", what)});
  } else if (found->second.override.empty()) {
    const Entry& e = found->second;
    complaints_.push_back({e.line, text(name_, ":", e.line, ": ", key, " = ", e.text, ", ", what)});
  } else {
    complaints_.push_back({INT_MAX, text("--set ", found->second.override, ", ", what)});
  }
}

void ConfigReader::complain_about_file(const std::string& what) {
  complaints_.push_back({INT_MAX, text(name_, ": ", what)});
}

void ConfigReader::complain_about_unknown_keys() {
  const std::vector<std::string> known(known_.begin(), known_.end());
  for (const auto& [key, e] : entries_) {
    if (known_.contains(key)) continue;
    const std::string what = " is not a setting" + near_miss(key, known);
    if (e.override.empty())
      complaints_.push_back({e.line, text(name_, ":", e.line, ": ", key, what)});
    else
      complaints_.push_back({INT_MAX, text("--set ", e.override, ": ", key, what)});
  }
  std::set<std::string> sections;
  for (const std::string& key : known) sections.insert(key.substr(0, key.find('.')));
  for (const auto& [section, line] : sections_) {
    const auto first_key = entries_.lower_bound(section + ".");
    const bool has_keys = first_key != entries_.end() && first_key->first.starts_with(section + ".");
    if (sections.contains(section) || has_keys) continue;  // its keys are complained about one by one
    complaints_.push_back({line, text(name_, ":", line, ": [", section, "] is not a section",
                                      near_miss(section, {sections.begin(), sections.end()}))});
  }
}

void ConfigReader::finish() {
  complain_about_unknown_keys();
  if (complaints_.empty()) return;
  std::stable_sort(complaints_.begin(), complaints_.end(),
                   [](const Complaint& a, const Complaint& b) { return a.line < b.line; });
  std::string all;
  for (const Complaint& complaint : complaints_) all += (all.empty() ? "" : "\n") + complaint.words;
  throw ConfigError(all);
}

namespace {

// Letters to insert, delete, replace or swap with a neighbour on the way from one to the other (Damerau-Levenshtein).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0U);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

std::string list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string near_miss(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  std::size_t least = std::max<std::size_t>(2, last_part(word).size() / 3) + 1;  // more than this is another word
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(word, candidate);
    if (last_part(word) == last_part(candidate)) distance = std::min<std::size_t>(distance, 2);  // in the wrong section
    if (distance < least) {
      least = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? "" : "; did you mean " + *best + "?";
}

}  // namespace atl
