#!/usr/bin/env bash
# Programs talk to a persona with the clients that OpenAI publishes for Python and for Node: models, an answer, a stream, a call of a
# tool inside the run, a conversation that goes on, responses, errors. The same streams are read by a third parser, sseclient-py.
#
# ATTACHE: the binary; default target/debug/attache. OPENAI_CACHE: where the clients are installed; default a folder in TMPDIR.
# Says SKIPPED for a client that cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "openai_sdk: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: openai_sdk.sh needs python3, which is not installed"; exit 0; }
cache="${OPENAI_CACHE:-${TMPDIR:-/tmp}/attache-openai-$(id -u)}"
mkdir -p "$cache"
# The versions that were tried.
if ! PYTHONPATH="$cache/python" python3 -c 'import openai, sseclient' 2>/dev/null; then
  timeout 120 python3 -m pip install --quiet --target "$cache/python" 'openai==3.57.0' 'sseclient-py==1.9.0' >/dev/null 2>&1 || true
fi
if command -v npm >/dev/null && [ ! -d "$cache/node/node_modules/openai" ]; then
  mkdir -p "$cache/node"
  (cd "$cache/node" && timeout 120 npm install --silent 'openai@6.49.0' >/dev/null 2>&1) || true
fi
PYTHONPATH="$cache/python" python3 -c 'import openai, sseclient' 2>/dev/null ||
  { echo "SKIPPED: openai_sdk.sh: pip does not bring the clients openai and sseclient-py here"; exit 0; }
[ -d "$cache/node/node_modules/openai" ] || echo "SKIPPED: the client of Node, which npm does not bring here"
PYTHONPATH="$cache/python" timeout 200 python3 openai_sdk.py --attache "$attache" --node "$cache/node"
