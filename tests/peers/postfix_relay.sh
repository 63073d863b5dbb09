#!/usr/bin/env bash
# Postfix in front of Attaché: two hundred letters wait in its queue while the engine is down, the engine comes up, is
# killed in the middle, comes up again, and has every letter once. The answers go out through the same Postfix.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED where Postfix, python3 or root is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "postfix_relay: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
PATH="$PATH:/usr/sbin"
for program in python3 postfix postqueue; do
  command -v "$program" >/dev/null || { echo "SKIPPED: postfix_relay.sh needs $program, which is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: postfix_relay.sh needs root, because Postfix starts as root"; exit 0; }
timeout 200 python3 postfix_relay.py --attache "$attache"
