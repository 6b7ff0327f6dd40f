// Where a buffer lives, and (cuda) on which stream work on it is queued.
#pragma once

namespace atl {

struct Place {
  enum class Kind { host, cuda };
  Kind kind = Kind::host;
  int device = 0;          // cuda: the card's number
  void* stream = nullptr;  // cuda: a cudaStream_t; work is queued there and not waited for
  bool on_host() const { return kind == Kind::host; }
};

}  // namespace atl
