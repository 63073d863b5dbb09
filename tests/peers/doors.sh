#!/usr/bin/env bash
# The ways in, used by programs that nobody here wrote: Postfix hands letters over by LMTP (TCP and Unix socket) and by
# SMTP under STARTTLS with our certificate checked; swaks, msmtp and Python's smtplib submit with AUTH; and ten thousand
# connections at once are turned away politely while a new client is still served afterwards.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED for each program that is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "doors: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
PATH="$PATH:/usr/sbin"
for program in python3 openssl; do
  command -v "$program" >/dev/null || { echo "SKIPPED: doors.sh needs $program, which is not installed"; exit 0; }
done
ulimit -n "$(ulimit -Hn)"
timeout 170 python3 doors.py --attache "$attache"
