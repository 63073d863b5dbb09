#!/usr/bin/env bash
# The pages in Debian's Chromium, driven over the WebDriver protocol: log in, three clicks from the inbox to the bytes that the
# model saw, an approval, and hostile letters that must ask for nothing (each fires without our policy: the control).
#
# ATTACHE: the binary; default target/debug/attache. SCREENS: a folder for pictures of every page at three widths in both
# colour schemes; none are taken without it. Says SKIPPED where Chromium or its driver is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "browser: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
for program in python3 chromium chromedriver; do
  if ! command -v "$program" >/dev/null; then
    echo "SKIPPED: browser.sh needs $program, which is not installed"
    exit 0
  fi
done
timeout 900 python3 browser.py --attache "$attache" ${SCREENS:+--screens "$SCREENS"}
