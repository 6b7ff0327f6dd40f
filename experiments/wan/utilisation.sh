#!/usr/bin/env bash
# utilisation.sh: the share of the time in which sites compute, over an emulated 100 Mbit/s x 100 ms, with real processes (`atoll train`), beside
# what `atoll plan` says.  Root (TUN); with --emulate instead without root: `atoll launch` and [network] emulate, to compare the two.
#
#   utilisation.sh [--emulate] [--mbit X] [--rtt MS] [--csv FILE]       some 6 minutes, on a machine with nothing else to do
#
# utilisation = time in inner steps / time of the run, mean over sites.  Last line: utilisation=NUMBER of streaming e3m0; the goal is 0.95.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
source scripts/common.sh
mbit=100 rtt=100 csv='' way=tun
while [[ $# -gt 0 ]]; do
  case $1 in
    --emulate) way=emulate; shift ;;
    --mbit) mbit=$2; shift 2 ;;
    --rtt) rtt=$2; shift 2 ;;
    --csv) csv=$(realpath "$2"); shift 2 ;;
    *) echo "utilisation.sh: $1 is not an option" >&2; exit 2 ;;
  esac
done
atoll=$(realpath "${ATOLL:-build/release/atoll}")
data=$atoll_cache/data/shakespeare-bytes
[[ -x $atoll && -e $data/dataset.json ]] || { echo "utilisation.sh: scripts/quickstart.sh --short makes the program and the data" >&2; exit 2; }
out=$PWD/runs/utilisation-$way
mkdir -p "$out"

declare -A arms=(
  [1-ddp-bf16]="40 run.method=ddp comm.codec=bf16"
  [2-diloco-fp32]="120 run.method=diloco outer.period=30"
  [3-streaming-e3m0]="180 run.method=streaming outer.period=60 outer.fragments=4"
  [4-eager-fp32]="120 run.method=eager outer.period=30"
  [5-sparseloco]="120 run.method=sparseloco outer.period=30"
)
printf '%-18s %6s %12s %12s %12s %14s\n' run steps 's a step' utilisation planned 'bytes a site'
worst=
for arm in $(printf '%s\n' "${!arms[@]}" | sort); do
  read -r -a words <<<"${arms[$arm]}"
  sets=(--set "data.path=$data" --set "run.steps=${words[0]}")
  for setting in "${words[@]:1}"; do sets+=(--set "$setting"); done
  rm -rf "${out:?}/$arm"
  if [[ $way == tun ]]; then
    "$here/wan.sh" --sites 2 --mbit "$mbit" --rtt "$rtt" --logs "$out/logs-$arm" -- "$atoll" train experiments/wan/utilisation.toml --site '{name}' "${sets[@]}" \
      --set 'sites.names=[{names}]' --set 'store.url=file://{run}/store' --set comm.interface=wan0 --out "$out/$arm/{name}" --overwrite --quiet --log-level warn >/dev/null
  else
    "$atoll" launch experiments/wan/utilisation.toml "${sets[@]}" --set "network.emulate.bandwidth_mbit=$mbit" --set "network.emulate.rtt_ms=$rtt" \
      --out "$out/$arm" --overwrite --quiet --log-level warn
  fi
  summaries=$(find "$out/$arm" -name summary.json)
  read -r step used bytes < <(python3 -c '
import json, sys
all = [json.load(open(f)) for f in sys.argv[1:]]
all = [s for s in all if s["command"] == "launch"] or all
mean = lambda key: sum(s[key] for s in all) / len(all)
print(mean("compute_s") / all[0]["inner_steps"], mean("utilisation"), int(mean("wire_bytes_per_site")))' $summaries)
  planned=$("$atoll" plan experiments/wan/utilisation.toml "${sets[@]}" --step-seconds "$step" --mbit "$mbit" --rtt "$rtt" | awk '$1 == "utilisation" { print $2 / 100 }')
  printf '%-18s %6s %12.3f %12.4f %12.4f %14s\n' "${arm#*-}" "${words[0]}" "$step" "$used" "$planned" "$bytes"
  if [[ -n $csv ]]; then
    [[ -s $csv ]] || echo "date,machine,commit,way,mbit,rtt_ms,run,steps,step_s,utilisation,planned,wire_bytes_per_site" >"$csv"
    echo "$(date -u +%F),$(lscpu | sed -n 's/^Model name: *//p' | head -n 1 | tr -d ','),$(git rev-parse --short HEAD),$way,$mbit,$rtt,${arm#*-},${words[0]},$step,$used,$planned,$bytes" >>"$csv"
  fi
  if [[ $arm == 3-* ]]; then worst=$used; fi
done
echo "utilisation=$worst"
