#!/usr/bin/env bash
# Faults of the machine beside its disk: no descriptors left, a second engine, an engine stopped for a while, a reader that
# holds on to the database under load, a clock that is set (by libfaketime). After each a letter is answered within ten
# seconds and the books are in order.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED for what needs a program that is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "machine: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: machine.sh needs python3, which is not installed"; exit 0; }
[ "$(uname)" = Linux ] || { echo "SKIPPED: machine.sh needs Linux, whose /proc tells what a process uses"; exit 0; }
timeout 150 python3 machine.py --attache "$attache"
