#!/usr/bin/env bash
# run.sh: bytes that really left the sockets, per inner step, of few-byte methods against bf16 DDP.  `atoll launch`, real links.
#
#   experiments/bytes/run.sh [--short]      --short: few rounds, to see that it works; some 5 minutes without it
#
# Writes results.csv (not with --short).  Last line: ratio=NUMBER, how many times fewer wire bytes streaming e3m0 at H = 100 sends
# than bf16 DDP, scales, headers, Gloo's preambles and the last exchanges of the run included.  The goal is 380.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/common.sh
short=${1:-}
atoll=${ATOLL:-build/release/atoll}
data=$atoll_cache/data/shakespeare-bytes
[[ -x $atoll && -e $data/dataset.json ]] || { echo "run.sh: scripts/quickstart.sh --short makes the program and the data" >&2; exit 2; }
out=runs/bytes
rounds() { [[ -n $short ]] && echo 3 || echo "$1"; }

run() {  # NAME SITES STEPS SETTING...
  local name=$1 sites=$2 steps=$3 sets=()
  shift 3
  for setting in "$@"; do sets+=(--set "$setting"); done
  $atoll launch experiments/bytes/base.toml --set "data.path=$data" --set "run.name=$name" --set "sites.count=$sites" \
    --set "inner.batch=$sites" --set "run.steps=$steps" "${sets[@]}" --out "$out/$name" --overwrite --quiet --log-level warn
}

for sites in 2 4; do
  run "ddp-bf16-M$sites" $sites 40 run.method=ddp comm.codec=bf16
  run "diloco-fp32-M$sites" $sites $((30 * $(rounds 6))) run.method=diloco outer.period=30
  run "streaming-e3m0-M$sites" $sites $((100 * $(rounds 60))) run.method=streaming outer.period=100 outer.fragments=4
  run "sparseloco-M$sites" $sites $((30 * $(rounds 60))) run.method=sparseloco outer.period=30
done
python3 - "$out" "$short" <<'PY'
import csv, json, os, subprocess, sys
out, short = sys.argv[1], sys.argv[2]
rows, ratio = [], {}
machine = subprocess.run("lscpu | sed -n 's/^Model name: *//p' | head -n 1", shell=True, capture_output=True, text=True).stdout.strip()
commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
print(f"{'run':24} {'params':>9} {'steps':>6} {'payload/step':>13} {'wire/step':>11} {'wire over payload':>18} {'fewer than bf16 DDP':>20}")
for sites in (2, 4):
    base = None
    for name in ("ddp-bf16", "diloco-fp32", "streaming-e3m0", "sparseloco"):
        s = json.load(open(f"{out}/{name}-M{sites}/summary.json"))
        assert s["status"] == "finished", s
        wire, payload = s["wire_bytes_per_site"] / s["inner_steps"], s["payload_bytes_per_site"] / s["inner_steps"]
        base = base or wire
        ratio[name, sites] = base / wire
        print(f"{name + '-M' + str(sites):24} {s['params']:9} {s['inner_steps']:6} {payload:13.1f} {wire:11.1f} {100 * (wire / payload - 1):16.2f} % {base / wire:20.1f}")
        rows.append([machine, commit, name, sites, s["params"], s["inner_steps"], s["seed"], s["payload_bytes_per_site"],
                     s["header_bytes_per_site"], s["wire_bytes_per_site"], s["received_bytes_per_site"], f"{base / wire:.2f}"])
if not short:
    with open("experiments/bytes/results.csv", "w", newline="") as file:
        to = csv.writer(file)
        to.writerow(["machine", "commit", "run", "sites", "params", "steps", "seed", "payload_bytes", "header_bytes", "wire_bytes", "received_bytes", "fewer"])
        to.writerows(rows)
print(f"sparseloco at M = 2: {ratio['sparseloco', 2]:.1f} (the goal is 2000); at M = 4: {ratio['sparseloco', 4]:.1f}, an all-gather grows with M")
print(f"ratio={min(ratio['streaming-e3m0', 2], ratio['streaming-e3m0', 4]):.1f}")
PY
