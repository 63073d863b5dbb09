#!/usr/bin/env bash
# How many letters a second one, two and four engines answer on one PostgreSQL, beside one on SQLite, by turns: from the first
# letter by SMTP to the last answer at the mail server behind, with one call of a tool and a model that costs nothing. Says
# also what a letter costs both sides: CPU, log, transactions, and for what the sessions of the server wait.
#
# Without arguments it is a test: few letters, and every one of them must have one answer. To measure, with an optimised binary
# and nothing else on the machine:
#
#   ATTACHE=target/release/attache tests/peers/nodes_rate.sh --letters 1000 --nodes 1,2,4 --connections 32 --personas 1,50 --rounds 2
#
# Those are the defaults. `--json FILE` adds a line for each measurement. The databases are below TMPDIR. Raised are, because
# few people write much: answers to one person in an hour and a day, changes of direction in a thread (1,000,000 each), runs at
# once of a node and of a persona (32), connections to the mail server behind (16); responsibilities are taken away.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED without PostgreSQL or python3.
set -euo pipefail
attache="$(realpath "${ATTACHE:-"$(dirname "$0")/../../target/debug/attache"}")"
cd "$(dirname "$0")"
[ -x "$attache" ] || { echo "nodes_rate: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
for program in python3 psql; do
  command -v "$program" >/dev/null || { echo "SKIPPED: nodes_rate.sh needs $program, which is not installed"; exit 0; }
done
[ -n "$(command -v initdb || ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] ||
  { echo "SKIPPED: nodes_rate.sh needs a server of PostgreSQL, which is not installed"; exit 0; }
if [ $# -eq 0 ]; then
  exec timeout 200 python3 nodes_rate.py --attache "$attache" --letters 20 --nodes 2 --connections 8 --personas 3 --rounds 1 --in-memory
fi
exec python3 nodes_rate.py --attache "$attache" "$@"
