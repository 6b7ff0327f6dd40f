// Child: a program that this one started and looks after.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace atl {

class Child {
 public:
  // Starts `program` with `arguments`, in a process group of its own (a Ctrl-C at the terminal reaches the parent
  // alone, which passes it on); the child gets SIGTERM when the parent dies.  Throws Bug when the system refuses.
  Child(std::string name, const std::filesystem::path& program, const std::vector<std::string>& arguments);
  ~Child();  // kills it if it still runs
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  void signal(int number);
  bool running();  // reaps it when it has ended
  struct End {
    int code = 0;    // exit code; 128 + signal when killed
    int signal = 0;  // 0: it exited
  };
  const std::optional<End>& end() const { return end_; }  // set once running() is false

 private:
  std::string name_;
  pid_t pid_ = -1;
  std::optional<End> end_;
};

}  // namespace atl
