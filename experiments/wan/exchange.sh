#!/usr/bin/env bash
# exchange.sh: atoll's exchange over an emulated link beside plain TCP over as many streams and Gloo's ring, at 2 and at 3 sites.  Root.
#
#   exchange.sh [--mbit X] [--rtt MS] [--jitter MS] [--loss PERCENT] [--queue_kb N] [--sysctl KEY=VALUE] [--congestion NAME]   as wan.sh takes them;
#                                                      defaults 200, 100, 0, 0, mbit * rtt, none, the system's
#               [--bytes N] [--repetitions N] [--streams N] [--piece_mib N] [--small_bytes N,N...] [--small_repetitions N] [--only NAME,NAME...]
#               [--csv FILE]                           defaults 64e6 of fp32, 7, 4, 16, 4096,5000, 15, all, none; FILE is appended to
#
# Last line: ratio=NUMBER, the worst over 2 and 3 sites of: plain TCP's time / atoll's / 0.95; and (0.6 round trips at 2 sites, 1.1 at 3) / what
# small exchanges take.  1 or more is the goal.  Some 6 minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=${WAN_EXCHANGE:-$here/../../build/release/wan_exchange}
[[ -x $program ]] || { echo "exchange.sh: $program is not there: scripts/build.sh release wan_exchange wan_emulator" >&2; exit 2; }

declare -A link=([--mbit]=200 [--rtt]=100 [--congestion]=$(</proc/sys/net/ipv4/tcp_congestion_control))
declare -A bench=([--repetitions]=7 [--small_repetitions]=15)
while [[ $# -gt 0 ]]; do
  [[ $# -ge 2 ]] || { echo "exchange.sh: $1 needs a value" >&2; exit 2; }
  case $1 in
    --mbit | --rtt | --jitter | --loss | --queue_kb | --sysctl | --congestion) link[$1]=$2 ;;
    --csv) bench[$1]=$(realpath "$2") ;;
    --bytes | --repetitions | --streams | --piece_mib | --small_bytes | --small_repetitions | --only) bench[$1]=$2 ;;
    *) echo "exchange.sh: $1 is not an option" >&2; exit 2 ;;
  esac
  shift 2
done
queue=${link[--queue_kb]:-$(awk "BEGIN { print ${link[--mbit]} * ${link[--rtt]} / 8 }")}
machine=$(lscpu | sed -n 's/^Model name: *//p' | head -n 1 | tr -d ',')
bench[--words]="$(date -u +%F),$machine,$(nproc),${link[--mbit]},${link[--rtt]},${link[--jitter]:-0},${link[--loss]:-0},$queue,${link[--congestion]}"
if [[ -n ${bench[--csv]:-} && ! -s ${bench[--csv]} ]]; then
  echo "date,machine,cores,mbit,rtt_ms,jitter_ms,loss_percent,queue_kb,congestion,sites,streams,bytes,what,repetitions,median_s,least_s,most_s,round_trip_s" >"${bench[--csv]}"
fi

arguments() {  # NAME of an associative array: its keys and values
  local -n pairs=$1
  local key
  for key in "${!pairs[@]}"; do printf '%s\0%s\0' "$key" "${pairs[$key]}"; done
}
mapfile -d '' -t link_arguments < <(arguments link)
mapfile -d '' -t bench_arguments < <(arguments bench)
output=$(mktemp)
trap 'rm -f "$output"' EXIT
echo "exchange.sh: ${link_arguments[*]} ${bench_arguments[*]}"
for sites in 2 3; do
  "$here/wan.sh" --sites "$sites" "${link_arguments[@]}" -- "$program" --rank '{rank}' --addresses '{addresses}' --run '{run}' \
    "${bench_arguments[@]}" | tee -a "$output" | grep --line-buffered -v score= | sed -u "s/^site-0: //"
done
echo "ratio=$(sed -n 's/^site-0: score=//p' "$output" | sort -g | head -n 1)"
