#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <map>
#include <memory>
#include <vector>

#include "base/error.h"

namespace atl {

namespace {

spdlog::level::level_enum level_of(const std::string& name) {
  static const std::map<std::string, spdlog::level::level_enum> levels{
      {"trace", spdlog::level::trace}, {"debug", spdlog::level::debug}, {"info", spdlog::level::info},
      {"warn", spdlog::level::warn},   {"error", spdlog::level::err},   {"off", spdlog::level::off}};
  const auto found = levels.find(name);
  if (found == levels.end())
    throw ConfigError(text("log level \"", name, "\" does not exist: trace, debug, info, warn, error or off"));
  return found->second;
}

}  // namespace

void init_log(const std::string& level, const std::string& label, const std::optional<std::filesystem::path>& file) {
  const auto threshold = level_of(level);
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
  if (file) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file->string()));
    } catch (const spdlog::spdlog_ex& e) {
      throw ConfigError(text("log file ", file->string(), " cannot be opened: ", e.what()));
    }
  }
  std::string quoted;
  for (const char c : label) quoted += c == '%' ? std::string("%%") : std::string(1, c);
  auto logger = std::make_shared<spdlog::logger>("", sinks.begin(), sinks.end());
  logger->set_level(threshold);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L " + quoted + " %v");
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace atl
