#!/usr/bin/env bash
# A domain divided over two engines by recipient: Postfix with the lines that docs/guide/cells.md shows brings each letter to
# its persona's engine, and refuses an address that nobody has.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED where Postfix, python3 or root is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "cells: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
PATH="$PATH:/usr/sbin"
for program in python3 postfix postqueue; do
  command -v "$program" >/dev/null || { echo "SKIPPED: cells.sh needs $program, which is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: cells.sh needs root, because Postfix starts as root"; exit 0; }
timeout 120 python3 cells.py --attache "$attache"
