// atoll-tokenize MODEL: encodes text with a SentencePiece model, for data/tokenizer.cpp.  Not for use by hand.
//
// A program of its own because libsentencepiece and libtorch do not go together in one process: both export a variable
// FLAGS_minloglevel, the one of 32 bytes, the other of 4 (libc10.so), so that the one's constructor writes over what
// lies behind the other's.
//
// Over standard input and output, all numbers uint32, little-endian, as this machine's:
//   once, first   out: 0, vocabulary                  or 1, length, text of an error
//   then          in:  length, text                   nothing more: the end
//                 out: 0, count, count ids (int32)    or 1, length, text of an error
#include <sentencepiece_processor.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

using sentencepiece::SentencePieceProcessor;
using sentencepiece::util::Status;

void put(const void* data, std::size_t bytes) {
  if (bytes > 0) std::fwrite(data, 1, bytes, stdout);  // an empty vector's data may be null
}
void put_number(std::uint32_t number) { put(&number, sizeof(number)); }
void put_error(const std::string& what) {
  put_number(1);
  put_number(static_cast<std::uint32_t>(what.size()));
  put(what.data(), what.size());
}

bool get(void* data, std::size_t bytes) { return bytes == 0 || std::fread(data, 1, bytes, stdin) == bytes; }

// The id of a newline, or -1.
int newline_of(const SentencePieceProcessor& model) {
  for (const char* piece : {"\n", "<0x0A>"})
    if (const int id = model.PieceToId(piece); !model.IsUnknown(id)) return id;
  return -1;
}

Status encode(const SentencePieceProcessor& model, std::string_view text, std::vector<int>& ids) {
  const int newline = newline_of(model);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::vector<int> line;
    if (const Status status = model.Encode(text.substr(0, end), &line); !status.ok()) return status;
    ids.insert(ids.end(), line.begin(), line.end());
    if (end == std::string_view::npos) break;
    if (newline >= 0) ids.push_back(newline);
    text.remove_prefix(end + 1);
  }
  return {};
}

// False at the end of the input.
bool serve_one(const SentencePieceProcessor& model) {
  std::uint32_t bytes = 0;
  if (!get(&bytes, sizeof(bytes))) return false;
  std::string text(bytes, ' ');
  if (!get(text.data(), text.size())) return false;
  std::vector<int> ids;
  if (const Status status = encode(model, text, ids); !status.ok()) {
    put_error(status.ToString());
  } else {
    put_number(0);
    put_number(static_cast<std::uint32_t>(ids.size()));
    put(ids.data(), ids.size() * sizeof(int));
  }
  return std::fflush(stdout) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  static_assert(sizeof(int) == sizeof(std::int32_t));
  if (argc != 2) {
    std::fputs("atoll-tokenize is a part of `atoll data prepare --tokenizer spm:MODEL`, and not for use by hand\n",
               stderr);
    return 2;
  }
  SentencePieceProcessor model;
  if (const Status status = model.Load(argv[1]); !status.ok()) {
    put_error("is no SentencePiece model: " + status.ToString());
    return 2;
  }
  put_number(0);
  put_number(static_cast<std::uint32_t>(model.GetPieceSize()));
  if (std::fflush(stdout) != 0) return 3;
  while (serve_one(model)) {
  }
  return 0;
}
