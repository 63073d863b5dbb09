#!/usr/bin/env bash
# Disks that fail under the engine: full, full to the brim, fsync with EIO (by strace), a file system that turns read-only, a
# database in which bytes were changed, a workspace on a disk that is mounted read-only. No letter that got a yes is lost, what can be read stays readable, and the engine goes
# on, or ends and starts again cleanly, or refuses to start.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED for what cannot be done without root, a loop device, strace.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "disk: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
PATH="$PATH:/usr/sbin:/sbin"
command -v python3 >/dev/null || { echo "SKIPPED: disk.sh needs python3, which is not installed"; exit 0; }
if [ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ]; then
  timeout 120 python3 disk_full.py --attache "$attache"
else
  echo "SKIPPED: no disk was filled, which needs Linux and root, because only root mounts"
fi
if [ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ]; then
  timeout 60 python3 disk_read_only.py --attache "$attache"
else
  echo "SKIPPED: nothing was read from a read-only disk, which needs Linux and root, because only root mounts"
fi
timeout 100 python3 disk_errors.py --attache "$attache"
timeout 60 python3 disk_damage.py --attache "$attache"
