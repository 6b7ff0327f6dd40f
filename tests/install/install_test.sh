#!/usr/bin/env bash
# install_test.sh BUILD SOURCE: installs a built tree, builds a project with find_package(atoll), and runs both from there.
set -euo pipefail
build=$1
source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cmake --install "$build" --prefix "$dir/prefix" >"$dir/install.log"
cmake -G Ninja -S "$source/tests/install" -B "$dir/own_model" -D CMAKE_PREFIX_PATH="$dir/prefix" >"$dir/configure.log"
cmake --build "$dir/own_model"
"$dir/own_model/own_model"

if [[ -x $dir/prefix/bin/atoll ]]; then  # a tree with libtorch: the installed trainer finds it, and the installed link
  cd "$dir"
  seq 20000 >text
  prefix/bin/atoll data prepare text --out data
  prefix/bin/atoll launch --set data.path=data --set sites.count=2 --set run.steps=4 --set outer.period=2 --set model.layers=1 \
    --set model.width=16 --set model.heads=2 --set model.context=16 --set inner.batch=4 --set inner.warmup_steps=1 --out run
  grep -q global_hash run/summary.json
fi
