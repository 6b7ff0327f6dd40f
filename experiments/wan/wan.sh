#!/usr/bin/env bash
# wan.sh: runs one command a site, each in a network namespace of its own, joined by wan_emulator.  Root.  README.md has examples.
#
#   wan.sh --sites N [--names A,B,...] [--mbit X] [--rtt MS] [--jitter MS] [--loss PERCENT] [--queue_kb N] [--seed N]
#          [--congestion NAME] [--sysctl KEY=VALUE]... [--logs DIR] -- COMMAND [ARGUMENT...]
#   wan.sh clean      removes what runs have left that were ended by SIGKILL, or by a crash
#
# In COMMAND and its arguments: {rank} 0, 1, ...; {name} site-0; {address} 10.88.0.1; {sites} N; {names} "site-0","site-1" (a TOML list);
# {addresses} 10.88.0.1,10.88.0.2; {run} a folder of this run that all sites see; {control} the emulator's FIFO: `echo "drop site-1" >{control}`.
# The device is wan0.  Output goes to stdout, every line with its site's name before it, or to DIR/NAME.log; the emulator's to stderr or DIR/emulator.log.
# Exit code: the largest of the commands'; 2 for wrong use; 128 + the signal's number after Ctrl-C or SIGTERM, which the commands get too: they
# have 10 s to end.  Whatever happens, processes, devices and namespaces of this run are gone afterwards.
set -uo pipefail
set -m  # every job its own process group: Ctrl-C reaches this script only, which passes it on
state=/run/atoll-wan
here=$(cd "$(dirname "$0")" && pwd)
emulator_program=${WAN_EMULATOR:-$here/../../build/release/wan_emulator}

refuse() { echo "wan.sh: $*" >&2; exit 2; }

# Ends all processes in namespace $1: only its run's are there.
end_processes() {  # NETNS SIGNAL
  local pids
  pids=$(ip netns pids "$1" 2>/dev/null) && [[ -n $pids ]] && kill -"$2" $pids 2>/dev/null
}

remove() {  # RUN: namespaces and folder of it
  local netns
  for netns in $(ip netns list | awk -v run="atoll-wan-$1-" 'index($1, run) == 1 {print $1}'); do
    end_processes "$netns" KILL
    ip netns del "$netns"
  done
  rm -rf "${state:?}/$1"
}

# A run holds a lock as long as its wan.sh lives.
clean() {
  local dir run netns
  for dir in "$state"/*/; do
    [[ -d $dir ]] || continue
    run=$(basename "$dir")
    exec {lock}<>"$dir/lock"
    if flock -n "$lock"; then
      [[ ! -s $dir/emulator ]] || ! grep -qs wan_emulator "/proc/$(<"$dir/emulator")/comm" || kill "$(<"$dir/emulator")"
      remove "$run"
      echo "wan.sh: removed what run $run had left"
    else
      echo "wan.sh: run $run is still going on"
    fi
    exec {lock}>&-
  done
}

[[ $(id -u) == 0 ]] || refuse "must be root: it makes network namespaces"
if [[ ${1:-} == clean ]]; then clean; exit 0; fi

sites='' names='' logs='' congestion='' sysctls=() emulated=()
while [[ $# -gt 0 && $1 != -- ]]; do
  [[ $# -ge 2 ]] || refuse "$1 needs a value"
  case $1 in
    --sites) sites=$2 ;;
    --names) names=$2 ;;
    --logs) logs=$2 ;;
    --congestion) congestion=$2 ;;
    --sysctl) sysctls+=("$2") ;;
    --mbit | --rtt | --jitter | --loss | --queue_kb | --seed) emulated+=("$1" "$2") ;;
    *) refuse "$1 is not an option (the command comes after --)" ;;
  esac
  shift 2
done
[[ ${1:-} == -- && $# -ge 2 ]] || refuse "no command: wan.sh --sites N ... -- COMMAND"
shift
[[ $sites =~ ^[0-9]{1,3}$ ]] && ((sites >= 2 && sites <= 250)) || refuse "--sites = $sites, but it must be a whole number from 2 to 250"
if [[ -n $names ]]; then IFS=, read -ra names <<<"$names"; else mapfile -t names < <(seq -f 'site-%g' 0 $((sites - 1))); fi
[[ ${#names[@]} == "$sites" ]] || refuse "--names has ${#names[@]} names for $sites sites"
[[ -c /dev/net/tun ]] || refuse "there is no /dev/net/tun: the kernel's module tun is missing, or the container may not use it"
[[ -x $emulator_program ]] || refuse "$emulator_program is not there: scripts/build.sh release wan_emulator, or set WAN_EMULATOR"

run='' emulator='' commands=() readers=() signal=0

finish() {
  trap '' INT TERM HUP PIPE
  [[ -n $run ]] || return
  local i
  if [[ ${#commands[@]} -gt 0 ]] && kill -0 "${commands[@]}" 2>/dev/null; then  # ended early
    for ((i = 0; i < sites; ++i)); do end_processes "atoll-wan-$run-$i" TERM; done
    for ((i = 0; i < 20; ++i)); do kill -0 "${commands[@]}" 2>/dev/null || break; sleep 0.1; done
  fi
  if [[ -n $emulator ]]; then kill "$emulator" 2>/dev/null; wait "$emulator"; fi
  remove "$run"
  [[ ${#readers[@]} == 0 ]] || wait "${readers[@]}"
}
trap finish EXIT
trap 'signal=2' INT
trap 'signal=15' TERM
trap 'signal=1' HUP
trap 'signal=15' PIPE  # nobody reads what it prints any more
mkdir -p "$state" && dir=$(mktemp -d "$state/XXXXXX") || exit 2
run=$(basename "$dir")
exec {lock}<>"$dir/lock"
flock -n "$lock"

fill() {  # RANK: its command, into $filled
  local word quoted addresses
  quoted=$(printf ',"%s"' "${names[@]}")
  addresses=$(seq -s, -f '10.88.0.%g' 1 "$sites")
  filled=()
  for word in "${command[@]}"; do
    word=${word//'{rank}'/$1} word=${word//'{name}'/${names[$1]}} word=${word//'{address}'/10.88.0.$(($1 + 1))}
    word=${word//'{sites}'/$sites} word=${word//'{names}'/${quoted:1}} word=${word//'{addresses}'/$addresses}
    filled+=("${word//'{run}'/$dir}")
    filled[-1]=${filled[-1]//'{control}'/$dir/control}
  done
}

start() {
  local i netns pair=()
  for ((i = 0; i < sites; ++i)); do
    netns=atoll-wan-$run-$i
    ip netns add "$netns" || return 2
    pair+=("${names[i]}=$netns")
    [[ ${#sysctls[@]} == 0 ]] || ip netns exec "$netns" sysctl -qw "${sysctls[@]}" || return 2
  done
  local log
  if [[ -n $logs ]]; then
    mkdir -p "$logs" && exec {log}>"$logs/emulator.log" || return 2
  else
    exec {log}>&2
  fi
  "$emulator_program" "${emulated[@]}" --control "$dir/control" "${pair[@]}" </dev/null >&"$log" 2>&1 {lock}>&- {log}>&- &
  emulator=$!
  echo "$emulator" >"$dir/emulator"
  until [[ -p $dir/control ]]; do  # made when everything is there
    kill -0 "$emulator" 2>/dev/null || return 2
    sleep 0.02
  done
  for ((i = 0; i < sites; ++i)); do
    # By the route: a namespace's own default may only be what the whole machine allows to users.
    [[ -z $congestion ]] || ip -n "atoll-wan-$run-$i" route replace 10.88.0.0/24 dev wan0 proto kernel scope link \
      src "10.88.0.$((i + 1))" congctl "$congestion" || return 2
  done
  for ((i = 0; i < sites; ++i)); do
    fill "$i"
    if [[ -n $logs ]]; then
      : >"$logs/${names[i]}.log"
      ip netns exec "atoll-wan-$run-$i" "${filled[@]}" </dev/null >"$logs/${names[i]}.log" 2>&1 {lock}>&- &
      commands+=($!)
      continue
    fi
    mkfifo "$dir/output-$i"
    sed -u "s/^/${names[i]}: /" <"$dir/output-$i" {lock}>&- &
    readers+=($!)
    ip netns exec "atoll-wan-$run-$i" "${filled[@]}" </dev/null >"$dir/output-$i" 2>&1 {lock}>&- &
    commands+=($!)
  done
}

# Waits for all; a signal is passed on at once.
worst=0
await() {
  local pid code deadline=
  for pid in "${commands[@]}"; do
    while :; do
      if ((signal)) && [[ -z $deadline ]]; then
        deadline=$((SECONDS + 10))
        for i in "${!commands[@]}"; do end_processes "atoll-wan-$run-$i" "$signal"; done
      fi
      if [[ -z $deadline ]]; then
        wait "$pid"
        code=$?
        ((signal)) && kill -0 "$pid" 2>/dev/null && continue  # it was the wait that ended
      else
        while kill -0 "$pid" 2>/dev/null && ((SECONDS < deadline)); do sleep 0.05; done
        code=0
      fi
      ((code > worst)) && worst=$code
      break
    done
  done
  return 0
}

command=("$@")
start || { echo "wan.sh: could not start" >&2; exit 2; }
await
((signal)) && exit $((128 + signal))
exit "$worst"
