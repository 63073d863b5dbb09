#!/usr/bin/env bash
# Text of attachments before poppler: PDFs that groff made are read by the engine's locked child and by pdftotext.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED where groff, pdftotext or python3 is missing, or where the
# child cannot lock itself.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "extract: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
for program in gropdf pdftotext python3; do
  command -v "$program" >/dev/null || { echo "SKIPPED: extract.sh needs $program, which is not installed"; exit 0; }
done
"$attache" extract-worker --self-test </dev/null | cat >/dev/null || { echo "SKIPPED: extract.sh: the child cannot lock itself here"; exit 0; }
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
python3 extract.py "$attache" "$scratch"
