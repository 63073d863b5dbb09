#!/usr/bin/env bash
# Letters through a real LiteLLM proxy: its own mock, and stubs behind it whose vendor speaks another format, so that tools,
# their results and a picture are translated on the way. Chat completions, responses and Anthropic's messages are asked.
#
# ATTACHE: the binary; default target/debug/attache. LITELLM_CACHE: where it is installed; default a folder in TMPDIR.
# Says SKIPPED where it cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "litellm: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: litellm.sh needs python3, which is not installed"; exit 0; }
cache="${LITELLM_CACHE:-${TMPDIR:-/tmp}/attache-litellm-$(id -u)}"
program="$cache/bin/litellm"
# The version that was tried. The mark is set when all of it is there.
if [ ! -e "$cache/complete" ]; then
  { python3 -m venv "$cache" && timeout 100 "$cache/bin/pip" install --quiet 'litellm[proxy]==1.108.7'; } >/dev/null 2>&1 &&
    touch "$cache/complete" || true
fi
[ -e "$cache/complete" ] || { echo "SKIPPED: litellm.sh: pip does not bring litellm here, or not within 100 s"; exit 0; }
timeout "$((225 - SECONDS))" python3 litellm_house.py --attache "$attache" --litellm "$program"
