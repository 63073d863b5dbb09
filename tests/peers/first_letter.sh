#!/usr/bin/env bash
# A letter by a client that nobody here wrote, answered at a mail server that nobody here wrote, and a second letter
# whose context shows the first exchange. The model is a stub on loopback (chat_stub.py).
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED where a program is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "first_letter: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }

if ! command -v python3 >/dev/null; then
  echo "SKIPPED: first_letter.sh needs python3, which is not installed"
  exit 0
fi

clients=(smtplib)
if command -v swaks >/dev/null; then clients+=(swaks); else echo "SKIPPED: swaks is not installed; only smtplib writes"; fi
sink=
for candidate in smtp-sink aiosmtpd smtpd; do
  if python3 sinks.py "$candidate"; then sink=$candidate; break; fi
  echo "SKIPPED: the sink $candidate is not installed"
done
[ -n "$sink" ] || { echo "SKIPPED: first_letter.sh has no mail server to answer to"; exit 0; }

for client in "${clients[@]}"; do
  timeout 120 python3 first_letter.py --attache "$attache" --client "$client" --sink "$sink"
done
