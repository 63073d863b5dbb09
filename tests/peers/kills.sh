#!/usr/bin/env bash
# kill -9 at random instants while letters come in and answers go out: what got a yes is stored once and answered, and an
# answer that came twice is the same bytes and marked as a possible duplicate.
#
# ATTACHE: the binary; default target/debug/attache. KILLS: how often; default 10, a release is measured with 500.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "kills: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: kills.sh needs python3, which is not installed"; exit 0; }
timeout $((60 + ${KILLS:-10} * 4)) python3 kills.py --attache "$attache"
