// atoll: the program.  All of it is in commands.cpp.
#include <malloc.h>

#include "app/commands.h"

int main(int argc, char** argv) {
  // A training step takes and frees the same large blocks again and again.  glibc by default gives those above 128 KiB back to
  // the system each time, and the page faults cost a small model a sixth of its speed.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  return atl::run_command(argc, argv);
}
