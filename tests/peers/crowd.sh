#!/usr/bin/env bash
# Peers that hold what others need and send nothing: memory for letters, places, file descriptors; and a log that nobody reads
# or that has no room. Whoever has done nothing is served all the while, and SIGTERM ends the engine in time.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED for what cannot be done here.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "crowd: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: crowd.sh needs python3, which is not installed"; exit 0; }
[ "$(uname)" = Linux ] || { echo "SKIPPED: crowd.sh needs Linux, whose loopback network has many addresses"; exit 0; }
timeout 200 python3 crowd.py --attache "$attache"
