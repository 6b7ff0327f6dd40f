#!/usr/bin/env bash
# Set-up, build, data; then 4 sites on this machine train one small language model on Shakespeare, once with DiLoCo and once with
# fully synchronous DDP, equal tokens.  Prints the table; writes runs/quickstart/{diloco,ddp}/ and runs/quickstart/report.html.
# --short: a few hundred steps into runs/quickstart-short, to see that everything works; its losses say nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh
out=runs/quickstart
sets=()
case ${1:-} in
  "") ;;
  --short)
    out=runs/quickstart-short
    sets=(--set run.steps=300 --set inner.warmup_steps=30 --set eval.every_rounds=0)
    ;;
  *)
    echo "usage: scripts/quickstart.sh [--short]" >&2
    exit 2
    ;;
esac

scripts/setup.sh
scripts/build.sh release atoll atoll-link atoll-tokenize
atoll=build/release/atoll
data=$atoll_cache/data/shakespeare-bytes
[[ -e $data/dataset.json ]] || $atoll data prepare "$atoll_cache"/text/shakespeare/*.txt --out "$data"

[[ ! -e $out ]] || echo "quickstart: $out is there from an earlier run and is replaced"
for arm in diloco ddp; do
  echo "quickstart: experiments/quickstart/$arm.toml -> $out/$arm"
  $atoll launch "experiments/quickstart/$arm.toml" --set "data.path=$data" "${sets[@]}" --out "$out/$arm" --overwrite --log-level warn
done
$atoll report "$out/diloco" "$out/ddp" --html "$out/report.html"
