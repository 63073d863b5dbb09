#!/usr/bin/env bash
# A mailbox on Dovecot, over TLS: letters that lay there, letters that come while we idle, Dovecot restarted and the
# engine killed in the middle, all letters under new numbers. Every letter has one run, and flags follow the commits.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED where a program or root is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "dovecot: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
PATH="$PATH:/usr/sbin"
for program in python3 dovecot doveadm openssl; do
  command -v "$program" >/dev/null || { echo "SKIPPED: dovecot.sh needs $program, which is not installed"; exit 0; }
done
[ -e /usr/lib/dovecot/lmtp ] || { echo "SKIPPED: dovecot.sh needs Dovecot's LMTP server, which is not installed"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "SKIPPED: dovecot.sh needs root, because Dovecot starts as root"; exit 0; }
sink=
for candidate in smtp-sink aiosmtpd smtpd; do
  if python3 sinks.py "$candidate"; then sink=$candidate; break; fi
done
[ -n "$sink" ] || { echo "SKIPPED: dovecot.sh has no mail server to answer to"; exit 0; }
timeout 200 python3 dovecot.py --attache "$attache" --sink "$sink"
