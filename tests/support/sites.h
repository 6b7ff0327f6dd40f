// run_sites: M sites as threads.  A failed REQUIRE on a bare thread would end the whole program, so the first exception is
// carried back to the test.
#pragma once
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace atl {

inline void run_sites(int sites, const std::function<void(int rank)>& run) {
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < sites; ++rank)
    threads.emplace_back([&, rank] {
      try {
        run(rank);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace atl
