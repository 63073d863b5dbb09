#!/usr/bin/env bash
# Slow models, many personas, letters with large files, a cold start: memory, time and CPU, each with the number of rows there were.
# By default a minute's form; FULL=1: 500 runs, 10,000 personas, letters of 24 MB, for an optimised binary.
#
# ATTACHE: the binary; default target/debug/attache.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "measure: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: measure.sh needs python3, which is not installed"; exit 0; }
brief=(--runs 150 --wait 8 --personas 300 --letters 1 --megabytes 8)
python3 measure.py --attache "$attache" $([ -n "${FULL:-}" ] || echo "${brief[@]}")
