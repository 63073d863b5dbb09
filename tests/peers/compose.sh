#!/usr/bin/env bash
# Postfix with packaging/compose/postfix/main.cf in front of three engines that are one name: it takes them in turns, goes to
# another when one is dead, refuses addresses that nobody has while the sender waits, and relays nothing elsewhere. In a
# network and with a name server of its own. No container is started.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED where Postfix, dnsmasq, python3 or root is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "compose: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
PATH="$PATH:/usr/sbin:/sbin"
for program in python3 postfix dnsmasq unshare ip; do
  command -v "$program" >/dev/null || { echo "SKIPPED: compose.sh needs $program, which is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: compose.sh needs root, because Postfix starts as root"; exit 0; }
unshare --mount --net true 2>/dev/null || { echo "SKIPPED: compose.sh needs a network of its own, which is not allowed here"; exit 0; }
timeout 120 unshare --mount --net python3 compose.py --attache "$attache"
