#!/usr/bin/env bash
# fuzz.sh [RUNS]: builds tests/fuzz with clang, ASan and UBSan, and runs each program: as many times as ctest does, or RUNS times.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
command -v clang++ >/dev/null || { echo "fuzz: clang++ is not here: apt-get install clang" >&2; exit 1; }
cmake -S . -B build/fuzz -G Ninja -D CMAKE_CXX_COMPILER=clang++ -D CMAKE_BUILD_TYPE=RelWithDebInfo -D ATOLL_TORCH=OFF -D ATOLL_BENCH=OFF >/dev/null
cmake --build build/fuzz --target header_fuzz codec_fuzz
if [[ $# -eq 0 ]]; then exec ctest --test-dir build/fuzz --output-on-failure -L fuzz; fi
for program in header_fuzz codec_fuzz; do
  mkdir -p "build/fuzz/found/$program"
  "build/fuzz/$program" -runs="$1" -max_len=700 -print_final_stats=1 -verbosity=1 "build/fuzz/found/$program" "tests/fuzz/corpus/$program"
done
