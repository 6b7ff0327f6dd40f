#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures (once) and builds.  Presets: release, debug, asan, tsan, cuda (CMakePresets.json).
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
[[ -e build/$preset/build.ninja ]] || cmake --preset "$preset" >"/tmp/atoll-configure-$preset.$$" 2>&1 ||
  { cat "/tmp/atoll-configure-$preset.$$" >&2; exit 1; }
rm -f "/tmp/atoll-configure-$preset.$$"
cmake --build "build/$preset" ${1:+--target} "$@"
