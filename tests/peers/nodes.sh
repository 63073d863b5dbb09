#!/usr/bin/env bash
# N engines on one PostgreSQL while everything fails: engines are killed and stopped beyond their lease, the database is
# killed, connections are cut, hang, go deaf, answer late or lose the answer to a COMMIT. In the end every letter with a yes
# is stored once, has one run that succeeded and one answer (a second copy only where it was announced), the runs of each
# thread went one after the other in the order of the letters, and nobody spent more than the bound. The checks are first
# shown evidence that was tampered with, and must complain.
#
# ATTACHE: the binary; default target/debug/attache. Arguments: --nodes 4 --letters 300 --kills 6 --freezes 6 --restarts 2
# --cuts 6 --lease 2 (seconds) --seed N; those are the defaults but for the seed, which is printed. The long form is
# `nodes.sh --letters 10000 --kills 100 --freezes 100 --restarts 20 --cuts 100`, for which NODES_SECONDS (7200) is the longest
# that it may take. Says SKIPPED without PostgreSQL or python3.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "nodes: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
for program in python3 psql; do
  command -v "$program" >/dev/null || { echo "SKIPPED: nodes.sh needs $program, which is not installed"; exit 0; }
done
[ -n "$(command -v initdb || ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] ||
  { echo "SKIPPED: nodes.sh needs a server of PostgreSQL, which is not installed"; exit 0; }
timeout "${NODES_SECONDS:-$([ $# -gt 0 ] && echo 7200 || echo 220)}" python3 nodes.py --attache "$attache" "$@"
