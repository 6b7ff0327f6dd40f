// ConfigReader: takes settings out of TOML and of --set, and collects every mistake before it speaks.
//
// A key is "section.name".  Each read() names the key, where it goes (holding its default), a rule as code and as
// words. finish() throws one ConfigError with a line for each mistake, keys that nobody read among them.  What a
// setting means is written in config.cpp.
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace atl {

class ConfigReader {
 public:
  // `name` stands in messages.  `overrides` are "section.key=value", the value as TOML or as a bare word; the last one
  // of a key wins, and wins over the file.  Throws ConfigError for TOML that cannot be parsed; all else waits for
  // finish().
  ConfigReader(const std::string& toml, std::string name, const std::vector<std::string>& overrides);

  // The key's value, if given, right and ok(value).  T: bool, an integer, float, double, string, vector<string>,
  // array<double, 2>.  1 passes for 1.0; "1" does not.
  template <class T, class Ok>
  void read(const std::string& key, T& value, Ok ok, const std::string& rule) {
    known_.insert(key);
    if (!given(key)) return;
    T found{};
    if (!fetch(key, found) || !ok(found)) return complain(key, "but it must be " + rule);
    value = std::move(found);
  }

  bool given(const std::string& key) const { return entries_.contains(key); }
  std::vector<std::string> given_in(const std::string& section) const;  // keys
  bool overridden(const std::string& key) const;                        // by --set
  bool sound(const std::string& key) const { return !broken_.contains(key); }

  // Takes a key that has a better replacement back, as if it had not been given.
  void forget(const std::string& key) { entries_.erase(key); }

  // "run.toml:3: outer.lr = -1, " + what;  "--set outer.lr=-1, " + what;  not given:
  // "run.toml: outer.lr = 0.7 (the default), " + what, with `value` the default's text.
  // Only the first complaint about a key counts.
  void complain(const std::string& key, const std::string& what, const std::string& value = "");
  void complain_about_file(const std::string& what);  // "run.toml: " + what

  void finish();

 private:
  using Scalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;  // monostate: a date or such
  struct Entry {
    Scalar scalar;
    std::optional<std::vector<Scalar>> array;
    std::string text;      // the value as TOML
    int line = 0;          // in the file
    std::string override;  // "outer.lr=-1", when it came from --set
  };
  struct Complaint {
    int line = 0;  // of the file; overrides come behind it
    std::string words;
  };
  struct Toml;  // what needs toml++, kept out of this header

  void take_override(const std::string& override);
  void complain_about_unknown_keys();

  const Entry& entry(const std::string& key) const;
  bool fetch(const std::string& key, bool& out) const;
  bool fetch(const std::string& key, std::int64_t& out) const;
  bool fetch(const std::string& key, double& out) const;
  bool fetch(const std::string& key, std::string& out) const;
  bool fetch(const std::string& key, std::vector<std::string>& out) const;
  bool fetch(const std::string& key, std::array<double, 2>& out) const;
  bool fetch(const std::string& key, float& out) const;
  template <std::integral T>
  bool fetch(const std::string& key, T& out) const {
    std::int64_t wide = 0;
    if (!fetch(key, wide) || !std::in_range<T>(wide)) return false;
    out = static_cast<T>(wide);
    return true;
  }

  std::string name_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, int> sections_;  // and their lines
  std::set<std::string> known_, broken_;
  std::vector<Complaint> complaints_;
};

std::string list(const std::vector<std::string>& words);  // "a, b, c"

// "; did you mean outer.momentum?" for the candidate that is nearest to `word`, "" when none is near.
std::string near_miss(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace atl
