#!/usr/bin/env bash
# Set-up, build, all tests of the release preset.  Arguments go to ctest: scripts/test.sh -L unit
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh release
exec ctest --test-dir build/release --output-on-failure "$@"
