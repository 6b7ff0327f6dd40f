// Whole files: read with a limit, written so that an interrupted write never counts, lines appended whole.
//
// Every failure names the path and the system's reason, a full disk among them, as ConfigError or (Blame::link, for
// files of a store) LinkError.  All calls block on the disk.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl {

// The file holds exactly `bytes`, or what it held before: written aside in the same folder, flushed, renamed, and the
// folder flushed.  Nothing stays aside after an error.  Several processes may write one path: one of them wins.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes, Blame blame = Blame::user);
void write_atomically(const std::filesystem::path& path, std::string_view text, Blame blame = Blame::user);

// All of the file.  Refused when it is longer than `limit` bytes, before memory is taken for it, and when it is no
// regular file.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t limit, Blame blame = Blame::user);
std::string read_text(const std::filesystem::path& path, std::size_t limit, Blame blame = Blame::user);

// Appends `line` and a newline with one write to an O_APPEND file, made if it is not there: lines of several processes
// do not mix.  Not flushed to the disk.  Throws Bug when `line` holds a newline.
void append_line(const std::filesystem::path& path, std::string_view line, Blame blame = Blame::user);

}  // namespace atl
