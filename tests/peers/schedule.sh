#!/usr/bin/env bash
# A responsibility of every minute: `attache serve` waits for two real minutes, and a mail server that nobody here wrote gets
# one mail for each, with the right slots in `schedule history`. Then three hours of downtime, by libfaketime.
#
# ATTACHE: the binary; default target/debug/attache. Takes up to three minutes, nearly all of it waiting. Says SKIPPED where
# a program is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "schedule: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: schedule.sh needs python3, which is not installed"; exit 0; }
sink=
for candidate in smtp-sink aiosmtpd smtpd; do
  if python3 sinks.py "$candidate"; then sink=$candidate; break; fi
  echo "SKIPPED: the sink $candidate is not installed"
done
[ -n "$sink" ] || { echo "SKIPPED: schedule.sh has no mail server to mail to"; exit 0; }
timeout 230 python3 schedule.py --attache "$attache" --sink "$sink"
