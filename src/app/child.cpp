#include "app/child.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace atl {

Child::Child(std::string name, const std::filesystem::path& program, const std::vector<std::string>& arguments)
    : name_(std::move(name)) {
  // Everything that allocates happens before the fork.
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();

  pid_ = fork();
  if (pid_ < 0) throw Bug(text("cannot start ", name_, ": ", std::strerror(errno)));
  if (pid_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);  // the parent died before prctl
    execv(argv[0], argv.data());
    _exit(127);
  }
}

Child::Child(Child&& other) noexcept
    : name_(std::move(other.name_)), pid_(std::exchange(other.pid_, -1)), end_(other.end_) {}

Child::~Child() {
  if (pid_ > 0 && !end_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

void Child::signal(int number) {
  if (pid_ > 0 && !end_) kill(pid_, number);
}

bool Child::running() {
  if (end_) return false;
  int status = 0;
  pid_t got;
  do got = waitpid(pid_, &status, WNOHANG);
  while (got < 0 && errno == EINTR);
  if (got == 0) return true;
  if (WIFSIGNALED(status))
    end_ = End{.code = 128 + WTERMSIG(status), .signal = WTERMSIG(status)};
  else
    end_ = End{.code = WEXITSTATUS(status), .signal = 0};
  return false;
}

}  // namespace atl
