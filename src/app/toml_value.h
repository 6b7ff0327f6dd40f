// toml_value: a value as TOML writes it, for the resolved settings and for messages.
#pragma once
#include <charconv>
#include <concepts>
#include <cstdio>
#include <string>

namespace atl {

inline std::string toml_value(bool x) { return x ? "true" : "false"; }

template <std::integral T>
std::string toml_value(T x) {
  return std::to_string(x);
}

// The shortest text that reads back as the same number, with the point that TOML wants.
template <std::floating_point T>
std::string toml_value(T x) {
  char buffer[64];
  const std::string out(buffer, std::to_chars(buffer, buffer + sizeof(buffer), x).ptr);
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
}

inline std::string toml_value(const std::string& x) {
  std::string out = "\"";
  for (const char c : x) {
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

template <class Sequence>
requires requires(const Sequence& s) { s.begin() != s.end(); }
std::string toml_value(const Sequence& values) {
  std::string out;
  for (const auto& value : values) out += (out.empty() ? "" : ", ") + toml_value(value);
  return "[" + out + "]";
}

}  // namespace atl
