#include "data/tokenizer.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "data/mapped_file.h"

extern char** environ;

namespace atl {

namespace {

class ByteTokenizer : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  Hash128 hash() const override { return hash_text("bytes"); }
  std::uint32_t vocabulary() const override { return 256; }
  void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }
};

// A child process with a socket as its standard input and output; ended and reaped with the object.
class Helper {
 public:
  Helper(const std::filesystem::path& program, const std::string& argument) : name_(program.filename().string()) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      fail_errno(program, "make a socket for");
    socket_ = FileDescriptor(ends[0]);
    const FileDescriptor theirs(ends[1]);
    std::string path = program.string(), copy = argument;
    const std::array<char*, 3> arguments{path.data(), copy.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
    const int error = ::posix_spawn(&pid_, path.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) fail_errno(program, "start", error);
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  ~Helper() {
    socket_ = FileDescriptor();  // it ends at the end of its input
    ::waitpid(pid_, nullptr, 0);
  }

  void send(const void* data, std::size_t bytes) {
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ::ssize_t n = ::send(socket_.get(), from, bytes, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) ended();
      from += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }
  void receive(void* data, std::size_t bytes) {
    char* to = static_cast<char*>(data);
    while (bytes > 0) {
      const ::ssize_t n = ::recv(socket_.get(), to, bytes, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) ended();
      to += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }
  std::uint32_t receive_number() {
    std::uint32_t number = 0;
    receive(&number, sizeof(number));
    return number;
  }

 private:
  [[noreturn]] void ended() const {
    throw ConfigError(text(name_, ": ended before its work was done; what it wrote to the terminal may say why"));
  }

  std::string name_;
  FileDescriptor socket_;
  ::pid_t pid_ = -1;
};

std::filesystem::path beside_this_program(const char* name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path() / name;
}

// The other end is tokenize_main.cpp, where the messages are described.
class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::filesystem::path& model, const std::filesystem::path& program)
      : model_(model), hash_(hash_bytes(MappedFile(model).bytes())) {
    if (!std::filesystem::exists(program))
      throw ConfigError(program.string() +
                        ": there is no such program, and SentencePiece models need it: build or install "
                        "atoll-tokenize");
    helper_.emplace(program, model.string());
    vocabulary_ = receive_count();
  }

  std::string name() const override { return "spm:" + model_.filename().string(); }
  Hash128 hash() const override { return hash_; }
  std::uint32_t vocabulary() const override { return vocabulary_; }
  void encode(std::string_view text, std::vector<std::int32_t>& ids) override {
    ATOLL_CHECK(text.size() <= 0xFFFFFFFFU, "a text of ", text.size(), " bytes");
    const auto bytes = static_cast<std::uint32_t>(text.size());
    helper_->send(&bytes, sizeof(bytes));
    helper_->send(text.data(), text.size());
    const std::size_t at = ids.size();
    ids.resize(at + receive_count());
    helper_->receive(ids.data() + at, (ids.size() - at) * sizeof(std::int32_t));
  }

 private:
  // A number, or an error that the helper has put into words.
  std::uint32_t receive_count() {
    const bool failed = helper_->receive_number() != 0;
    const std::uint32_t count = helper_->receive_number();
    if (!failed) return count;
    std::string what(count, ' ');
    helper_->receive(what.data(), what.size());
    throw ConfigError(model_.string() + ": " + what);
  }

  std::filesystem::path model_;
  Hash128 hash_;
  std::optional<Helper> helper_;
  std::uint32_t vocabulary_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec, const std::filesystem::path& helper) {
  constexpr std::string_view kPrefix = "spm:";
  if (spec == "bytes") return std::make_unique<ByteTokenizer>();
  if (!spec.starts_with(kPrefix) || spec.size() == kPrefix.size())
    throw ConfigError(text("--tokenizer ", spec, ", but it must be bytes or spm:MODEL (a file of SentencePiece)"));
  return std::make_unique<SentencePieceTokenizer>(spec.substr(kPrefix.size()),
                                                  helper.empty() ? beside_this_program("atoll-tokenize") : helper);
}

}  // namespace atl
