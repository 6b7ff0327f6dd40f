#!/usr/bin/env bash
# selftest.sh: measures what the emulator gives against what it was told, and that wan.sh cleans up.  Some 20 s.  Root; exit 77 (skipped) otherwise.
set -uo pipefail
set -m  # else what is started in the background ignores Ctrl-C
cd "$(dirname "$0")"
failures=0

skip() {
  echo "!!"
  echo "!! wan selftest SKIPPED: $*; the emulated network was NOT checked"
  echo "!!"
  [[ -z ${ATOLL_REQUIRE_WAN:-} ]] || exit 1
  exit 77
}
[[ $(id -u) == 0 ]] || skip "it needs root"
[[ -c /dev/net/tun ]] || skip "there is no /dev/net/tun"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

judge() {  # WORDS EXPRESSION (of awk)
  if awk "BEGIN { exit !($2) }"; then echo "ok      $1: $2"; else echo "FAILED  $1: $2"; failures=$((failures + 1)); fi
}
same() {  # WORDS FOUND WANTED
  if [[ $2 == "$3" ]]; then echo "ok      $1: $2"; else echo "FAILED  $1: \"$2\" is not \"$3\""; failures=$((failures + 1)); fi
}
value() { sed -n "s/.*: $1=//p" "$out/$2"; }  # KEY FILE
gone() {  # RUN: 1 when nothing of it is left
  [[ ! -e /run/atoll-wan/$1 ]] && ! ip netns list | grep -q "atoll-wan-$1-" && ! pgrep -f "wan_emulator.*/$1/" >/dev/null && echo 1 || echo 0
}

# Two runs at the same time, which do not meet.
./wan.sh --sites 2 --mbit 100 --rtt 20 --loss 5 --seed 3 -- python3 probe.py loss {rank} >"$out/loss" 2>&1 &
loss=$!
./wan.sh --sites 2 --mbit 100 --rtt 20 --congestion cubic -- python3 probe.py line {rank} {control} >"$out/line" 2>&1
same "exit code" "$?" 0
wait "$loss"
same "exit code beside it" "$?" 0
mbit=$(value mbit line) rtt=$(value rtt_ms line) lost=$(value lost_percent loss)
judge "TCP, 100 Mbit/s x 20 ms, at least 90 % and at most what headers leave" "${mbit:-0} >= 90 && ${mbit:-0} <= 96.8"
judge "round trip of 20 ms within 5 %" "${rtt:-0} >= 19 && ${rtt:-0} <= 21"
same "black hole: pings that pass" "$(value passed_while_dropped line)" 0
same "healed: pings of 4 that pass" "$(value passed_after_heal line)" 4
judge "loss of 5 %: 4000 packets, 3 sigma are 1.03 %" "${lost:-0} >= 3.97 && ${lost:-0} <= 6.03"

# Ctrl-C, SIGTERM, a start that fails, a command that fails.
for signal in INT TERM; do
  ./wan.sh --sites 2 -- bash -c 'echo run={run}; exec sleep 100' >"$out/$signal" 2>&1 &
  pid=$!
  for _ in {1..200}; do [[ $(grep -c run= "$out/$signal" 2>/dev/null) == 2 ]] && break; sleep 0.05; done
  run=$(basename "$(value run "$signal" | head -n 1)")
  kill -"$signal" "$pid"
  wait "$pid"
  code=$?
  same "SIG$signal: exit code" "$code" $((128 + $(kill -l "$signal")))
  same "SIG$signal: nothing of run ${run:?the commands did not start} is left" "$(gone "$run")" 1
done
run=$(./wan.sh --sites 2 -- bash -c 'echo {run}; sleep 0.5; yes' 2>&1 | head -n 1)  # a reader that goes away
run=$(basename "$run")
for _ in {1..100}; do [[ $(gone "$run") == 1 ]] && break; sleep 0.1; done
same "broken pipe: nothing of run $run is left" "$(gone "$run")" 1
before=$(ip netns list | grep -c atoll-wan)
./wan.sh --sites 2 --mbit fast -- true >"$out/wrong" 2>&1
same "a number that is none: exit code" "$?" 2
same "a number that is none is named" "$(grep -c -- '--mbit = fast, but it must be a number' "$out/wrong")" 1
./wan.sh --sites 2 -- bash -c 'exit {rank}7' >/dev/null 2>&1
same "the largest exit code" "$?" 17
judge "namespaces left" "$(ip netns list | grep -c atoll-wan) <= $before"

# Round trips of small exchanges: 8 KB do not travel with their header, and three sites send them to owners first.
./exchange.sh --rtt 20 --congestion cubic --repetitions 0 --small_repetitions 9 --small_bytes 4096,8192 --only atoll >"$out/exchange" 2>&1
same "small exchanges: exit code" "$?" 0
ratio=$(sed -n 's/^ratio=//p' "$out/exchange")
judge "small exchanges, the goal's round trips over theirs" "${ratio:-0} >= 1"

[[ $failures == 0 ]] || { echo "wan selftest: $failures failed; what was measured:"; cat "$out"/line "$out"/loss "$out"/wrong "$out"/exchange; exit 1; }
echo "wan selftest: all passed"
