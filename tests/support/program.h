// Program: a real program started by a test, with its output in a file, and an end that is waited for with a deadline.
#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/temp_dir.h"

namespace atl {

class Program {
 public:
  // stdout and stderr go to `output`, which is replaced.
  Program(const std::filesystem::path& program, const std::vector<std::string>& arguments, std::filesystem::path output)
      : output_(std::move(output)) {
    std::vector<std::string> words{program.string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int out = open(output_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      dup2(out, 1);
      dup2(out, 2);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(out);
  }
  Program(Program&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), code_(other.code_), output_(std::move(other.output_)) {}
  Program& operator=(Program&&) = delete;
  ~Program() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { kill(pid_, number); }
  bool running() {
    int status = 0;
    if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return pid_ > 0;
    code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    pid_ = -1;
    return false;
  }
  // The exit code (128 + signal when killed); -1 when it still runs after `seconds`.
  int wait(double seconds = 60) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (running()) {
      if (std::chrono::steady_clock::now() > end) return -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return code_;
  }
  std::string output() const { return slurp(output_); }

 private:
  pid_t pid_ = -1;
  int code_ = -1;
  std::filesystem::path output_;
};

// Waits until `ready()`; false when it is not after `seconds`.
template <class Ready>
bool eventually(Ready ready, double seconds = 20) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace atl
