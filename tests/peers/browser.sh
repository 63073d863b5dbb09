#!/usr/bin/env bash
# The pages in Debian's Chromium, driven over the WebDriver protocol: log in, three clicks from the inbox to the bytes that the
# model saw, an approval, and hostile letters that must ask for nothing (each fires without our policy: the control).
#
# ATTACHE: the binary; default target/debug/attache. SCREENS: a folder for pictures of every page at three widths in both
# colour schemes; none are taken without it. AXE_CACHE: where axe-core is kept, which npm fetches once; without npm, or the
# network, that part says SKIPPED. So does the whole where Chromium or its driver is missing.
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
axe="${AXE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/attache-axe}"
if [ ! -f "$axe/package/axe.min.js" ]; then
  mkdir -p "$axe"
  (cd "$axe" && npm pack --silent axe-core@4.14.1 && tar xzf axe-core-4.14.1.tgz) >/dev/null 2>&1 \
    || echo "SKIPPED: axe-core cannot be fetched, so nothing is said of who can use the pages"
fi
[ -f "$axe/package/axe.min.js" ] && with_axe="$axe/package/axe.min.js" || with_axe=""
timeout 2400 python3 browser.py --attache "$attache" ${with_axe:+--axe "$with_axe"} ${SCREENS:+--screens "$SCREENS"}
