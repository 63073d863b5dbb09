#!/usr/bin/env bash
# Postfix as a provider's submission server: STARTTLS with a certificate, AUTH against Dovecot, and from there to a sink.
# The controls: without the authority nothing is said, with a wrong password nothing is sent, and all mail is kept.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED where a program or root is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "postfix_submission: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
export PATH="$PATH:/usr/sbin"
for program in python3 postfix smtp-sink dovecot openssl; do
  command -v "$program" >/dev/null || { echo "SKIPPED: postfix_submission.sh needs $program, which is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: postfix_submission.sh needs root, because Postfix starts as root"; exit 0; }
timeout 200 python3 postfix_submission.py --attache "$attache"
