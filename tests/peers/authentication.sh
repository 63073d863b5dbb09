#!/usr/bin/env bash
# Who is it really, with strangers' programs: OpenDKIM signs inside Postfix, dnsmasq publishes, Attaché verifies; then the
# zone is gone and OpenDKIM verifies inside a Postfix whose Authentication-Results are trusted. The controls: a letter
# without a signature, one that was changed, one that brings its own results along.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED where a program or root is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "authentication: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
export PATH="$PATH:/usr/sbin"
for program in python3 postfix opendkim dnsmasq openssl; do
  command -v "$program" >/dev/null || { echo "SKIPPED: authentication.sh needs $program, which is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: authentication.sh needs root, because Postfix starts as root"; exit 0; }
timeout 120 python3 authentication.py --attache "$attache"
