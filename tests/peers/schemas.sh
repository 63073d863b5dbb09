#!/usr/bin/env bash
# Requests of every adapter to a model, first turns, after tools, with a picture, with a scan, with a schema, before the request types that
# the vendors publish in their Python packages: openai (chat completions and responses), anthropic, google-genai, ollama.
# As a control each request is damaged in six ways, and must be refused.
#
# ATTACHE: the binary; default target/debug/attache. SCHEMAS_CACHE: where the packages are installed; default a folder in
# TMPDIR. Says SKIPPED where they cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "schemas: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: schemas.sh needs python3, which is not installed"; exit 0; }
cache="${SCHEMAS_CACHE:-${TMPDIR:-/tmp}/attache-schemas-$(id -u)}"
brings='import anthropic, openai, google.genai, ollama, pydantic'
# The versions that were tried.
if ! PYTHONPATH="$cache" python3 -c "$brings" 2>/dev/null; then
  timeout 120 python3 -m pip install --quiet --target "$cache" \
    openai==3.57.0 anthropic==2.13.0 google-genai==3.6.1 ollama==0.6.3 >/dev/null 2>&1 || true
fi
PYTHONPATH="$cache" python3 -c "$brings" 2>/dev/null ||
  { echo "SKIPPED: schemas.sh: pip does not bring the vendors' packages here"; exit 0; }
PYTHONPATH="$cache" timeout "$((225 - SECONDS))" python3 schemas.py --attache "$attache"
