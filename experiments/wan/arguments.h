// "--key value" pairs of the programs that wan.sh runs, one a site.
#pragma once
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace atl::wan {

class Arguments {
 public:
  Arguments(int argc, char** argv, std::map<std::string, std::string> defaults) : values_(std::move(defaults)) {
    for (int i = 1; i < argc; i += 2) {
      const std::string key = argv[i];
      if (!values_.contains(key) || i + 1 == argc)
        throw ConfigError(text(key, values_.contains(key) ? " needs a value" : " is not an option"));
      values_[key] = argv[i + 1];
    }
  }
  const std::string& word(const std::string& key) const { return values_.at(key); }
  double number(const std::string& key, double least, double most) const {
    char* end = nullptr;
    const double x = std::strtod(word(key).c_str(), &end);
    if (*end != '\0' || end == word(key).c_str() || !(x >= least && x <= most))
      throw ConfigError(text(key, " = ", word(key), ", but it must be a number from ", least, " to ", most));
    return x;
  }
  int whole(const std::string& key, int least, int most) const { return static_cast<int>(number(key, least, most)); }
  std::vector<std::string> list(const std::string& key) const {  // "a,b" -> a and b
    std::vector<std::string> parts{""};
    for (const char c : word(key))
      if (c == ',')
        parts.emplace_back();
      else
        parts.back() += c;
    return parts;
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace atl::wan
