#!/usr/bin/env bash
# Invitations in the shape of six programs, answered by the engine, and invitations of its own: what it writes is read by
# Python's icalendar and by npm's ical.js, and both read the same.
#
# ATTACHE: the binary; default target/debug/attache. CALENDAR_CACHE: where the two are installed; default a folder in TMPDIR.
# Says SKIPPED where one of them cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "calendar: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
for program in python3 node npm; do
  command -v "$program" >/dev/null || { echo "SKIPPED: calendar.sh needs $program, which is not installed"; exit 0; }
done
cache="${CALENDAR_CACHE:-${TMPDIR:-/tmp}/attache-calendar-$(id -u)}"
mkdir -p "$cache"
# The versions that were tried.
if ! PYTHONPATH="$cache/python" python3 -c 'import icalendar' 2>/dev/null; then
  timeout 90 python3 -m pip install --quiet --target "$cache/python" icalendar==6.3.2 >/dev/null 2>&1 || true
fi
PYTHONPATH="$cache/python" python3 -c 'import icalendar' 2>/dev/null ||
  { echo "SKIPPED: calendar.sh: pip does not bring icalendar here"; exit 0; }
[ -d "$cache/node_modules/ical.js" ] ||
  timeout 90 npm install --silent --no-audit --no-fund --prefix "$cache" ical.js@2.2.1 >/dev/null 2>&1 || true
[ -d "$cache/node_modules/ical.js" ] || { echo "SKIPPED: calendar.sh: npm does not bring ical.js here"; exit 0; }
PYTHONPATH="$cache/python" timeout 120 python3 calendar_mail.py --attache "$attache" --cache "$cache"
