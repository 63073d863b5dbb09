#!/usr/bin/env bash
# What one answered letter costs, counted: commits and frames of the log, bytes kept, and calls of the system where strace is; where
# a server of PostgreSQL can be started, its statements, messages and transactions.
# No other program's work changes these numbers, so each has its limit (`LIMITS` in counted.py). Raise one only in a commit that
# changes nothing else.
#
# ATTACHE: the binary; default target/debug/attache. INSTRUCTIONS=1: count them as well, by callgrind, where valgrind is.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "counted: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: counted.sh needs python3, which is not installed"; exit 0; }
python3 counted.py --attache "$attache" ${INSTRUCTIONS:+--instructions}
