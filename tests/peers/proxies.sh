#!/usr/bin/env bash
# The pages behind nginx and Caddy, configured by the very blocks of docs/guide/pages.md: over a port and over a Unix socket,
# nginx also with the HTTP/1.0 that it speaks by default. Log in, a page, a form of another site, a stream that comes at once.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED for each program that is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "proxies: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
PATH="$PATH:/usr/sbin"
for program in python3 openssl; do
  command -v "$program" >/dev/null || { echo "SKIPPED: proxies.sh needs $program, which is not installed"; exit 0; }
done
timeout 170 python3 proxies.py --attache "$attache"
