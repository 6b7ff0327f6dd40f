// Meeting: a barrier and a board of numbers for processes of one machine, in a file that all of them map.  Nothing of it goes over the emulated link.
#pragma once
#include <memory>
#include <string>
#include <vector>

namespace atl::wan {

class Meeting {
 public:
  // `folder` is the same at all; blocks until rank 0 has made the file there.  At most 32 sites.
  Meeting(const std::string& folder, int rank, int sites);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  void meet();                // until all have called it; within some 0.1 ms of each other afterwards
  double worst(double mine);  // the largest of all sites' numbers; all call it

 private:
  struct Board;
  Board* board_;
  int rank_, sites_;
};

}  // namespace atl::wan
