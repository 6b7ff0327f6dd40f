#!/usr/bin/env bash
# run.sh: all arms of run.py (its --help says what there is), three paired seeds; some 2 hours of one core.  Last line: gap=NUMBER.
exec python3 "$(dirname "$0")/run.py" "$@"
