#include "meeting.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/error.h"

namespace atl::wan {

struct Meeting::Board {
  pthread_barrier_t barrier;
  std::array<double, 32> numbers;
};

Meeting::Meeting(const std::string& folder, int rank, int sites) : rank_(rank), sites_(sites) {
  const std::string path = folder + "/board", aside = path + ".new";
  if (sites > static_cast<int>(Board{}.numbers.size())) throw ConfigError(text(sites, " sites, but 32 is the most"));
  const auto map = [](int fd) {
    void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) throw ConfigError(text("cannot map the board: ", std::strerror(errno)));
    return static_cast<Board*>(memory);
  };
  if (rank == 0) {
    const int fd = open(aside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(Board)) != 0)
      throw ConfigError(text("cannot make ", aside, ": ", std::strerror(errno)));
    board_ = map(fd);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board_->barrier, &shared, static_cast<unsigned>(sites));
    std::rename(aside.c_str(), path.c_str());
    return;
  }
  int fd;
  while ((fd = open(path.c_str(), O_RDWR | O_CLOEXEC)) < 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  board_ = map(fd);
}
Meeting::~Meeting() { munmap(board_, sizeof(Board)); }

void Meeting::meet() { pthread_barrier_wait(&board_->barrier); }

double Meeting::worst(double mine) {
  board_->numbers[static_cast<std::size_t>(rank_)] = mine;
  meet();
  const double most = *std::max_element(board_->numbers.begin(), board_->numbers.begin() + sites_);
  meet();
  return most;
}

}  // namespace atl::wan
