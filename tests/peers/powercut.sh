#!/usr/bin/env bash
# Power cuts while letters come in and answers go out: ext4 on a loop device is stopped so that only what was forced to the
# disk is there afterwards, and the engine goes on with that. What got a yes is stored, worked on once and answered; the
# control, an engine that does not wait for the disk (which only a build with debug assertions can be made to be), loses letters.
#
# ATTACHE: the binary; default target/debug/attache. POWER_CUTS: how often; default 20, a release is measured with 1000; if
# it is set, the control takes as many, too. Says SKIPPED where there is no root, no loop device or no ext4.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "powercut: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
PATH="$PATH:/usr/sbin:/sbin"
command -v python3 >/dev/null || { echo "SKIPPED: powercut.sh needs python3, which is not installed"; exit 0; }
absent="$(python3 disks.py)"
[ -z "$absent" ] || { echo "SKIPPED: powercut.sh needs $absent: no power was cut"; exit 0; }
timeout $((60 + ${POWER_CUTS:-20} * 8)) python3 powercut.py --attache "$attache"
