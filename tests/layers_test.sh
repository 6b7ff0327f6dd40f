#!/usr/bin/env bash
# layers.py itself: a tree with wrong includes must fail, with file and line; the project's own must pass.
set -euo pipefail
root=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/src/{base,data,app} "$dir"/{kernels,inner,outer,comm}
printf '#pragma once\n#include "comm/exchange.h"\n' >"$dir/outer/wrong.h"
printf '#include <torch/torch.h>\n' >"$dir/comm/wrong.cpp"
printf '#include <gloo/context.h>\n' >"$dir/comm/header.cpp"
if found=$(python3 "$root/tests/layers.py" "$dir"); then
  echo "layers.py passed a tree with three wrong includes"
  exit 1
fi
for line in "outer/wrong.h:2: outer may not include comm" "comm/wrong.cpp:1: torch may not be included here" \
  "comm/header.cpp:1: gloo may not be included here"; do
  grep -qF "$line" <<<"$found" || { echo "layers.py did not say: $line"; echo "$found"; exit 1; }
done
python3 "$root/tests/layers.py" "$root"
