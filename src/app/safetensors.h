// safetensors: a model as one file that other programs can read.  Only fp32.
//
// Format: https://github.com/huggingface/safetensors: u64 little-endian length of a JSON header, the header
// {"__metadata__": {text: text}, name: {"dtype": "F32", "shape": [...], "data_offsets": [begin, end]}}, padded with
// spaces to a multiple of 8, then the tensors' bytes back to back.
#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/param_layout.h"

namespace atl {

using Metadata = std::map<std::string, std::string>;

// values [layout.size()], on the host.  The file holds all of it or what it held before (aside, fsync, rename).
// Throws ConfigError when it cannot be written.
void write_safetensors(const std::filesystem::path& file, const ParamLayout& layout, std::span<const float> values,
                       const Metadata& metadata = {});

// out [layout.size()], written: the tensors by name, in the layout's order.  Throws ConfigError, with out untouched,
// when the file is cut short or malformed, or its tensors are not the layout's: every absent, additional and
// differently shaped one is named. Returns the metadata.
Metadata read_safetensors(const std::filesystem::path& file, const ParamLayout& layout, std::span<float> out);

}  // namespace atl
