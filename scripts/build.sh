#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures when needed, and builds.  Presets: release, debug, asan, tsan, cuda (CMakePresets.json).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
preset=$1
shift
tree=build/$preset

# CMake itself notices changes of CMakeLists.txt, not of the preset or the cache folder.
configured_for="$(cksum <CMakePresets.json) $atoll_cache ${ATOLL_TORCH_DIR:-}"
if [[ ! -e $tree/build.ninja || $(cat "$tree/configured_for" 2>/dev/null) != "$configured_for" ]]; then
  mkdir -p "$tree"
  echo "build: configuring $tree"
  cmake --preset "$preset" -U 'AtollTorch_*' -U ATOLL_TORCH_DIR ${ATOLL_TORCH_DIR:+-D ATOLL_TORCH_DIR="$ATOLL_TORCH_DIR"} \
    >"$tree/configure.log" 2>&1 || { cat "$tree/configure.log" >&2; exit 1; }
  echo "$configured_for" >"$tree/configured_for"
fi
cmake --build "$tree" ${1:+--target} "$@"
