#!/usr/bin/env bash
# Large letters into a bucket of moto's S3 server, under kills of the engine and stops of the service: every letter with a yes
# has its object, byte for byte; 451 while the service hangs; what is pruned and what a kill left goes from the bucket.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED where python3 or its package moto (with flask and boto3) is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "objects: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: objects.sh needs python3, which is not installed"; exit 0; }
python3 -c "import moto.server, flask, boto3" 2>/dev/null || { echo "SKIPPED: objects.sh needs python3 with moto[server] and boto3, which are not installed"; exit 0; }
timeout 300 python3 objects.py --attache "$attache"
