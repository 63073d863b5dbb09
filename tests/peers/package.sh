#!/usr/bin/env bash
# The Debian package on a clean Debian without network, whose systemd runs the engine: installed, set up, answering its
# first letter, watched, upgraded, removed. The mail server and the model are programs on loopback.
#
# ATTACHE: the binary; default target/debug/attache. PACKAGE: a package that is made already. Says SKIPPED where a program is
# missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -n "${PACKAGE:-}" ] || [ -x "$attache" ] || { echo "package: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }

for program in python3 mmdebstrap unshare nsenter dpkg cargo-deb; do
  command -v "$program" >/dev/null || { echo "SKIPPED: package.sh needs $program, which is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: package.sh makes a system of its own, which only root may"; exit 0; }
python3 sinks.py smtp-sink || { echo "SKIPPED: package.sh needs smtp-sink, which is not installed"; exit 0; }

scratch="$(mktemp -d)"
trap 'rm -rf --one-file-system "$scratch"' EXIT
chmod 755 "$scratch" # the mail server runs as a user of its own
package="${PACKAGE:-}"
if [ -z "$package" ]; then
  bash ../../packaging/debian.sh "$attache" "$scratch/package" --fast >"$scratch/build.log" 2>&1 || { cat "$scratch/build.log"; exit 1; }
  package="$(echo "$scratch"/package/attache_*.deb)"
fi

release="$(. /etc/os-release && echo "$VERSION_CODENAME")"
include=systemd,systemd-sysv,adduser,ca-certificates,bubblewrap
if ! timeout 400 mmdebstrap --quiet --variant=minbase --include="$include" "$release" "$scratch/root" 2>"$scratch/root.log"; then
  tail -5 "$scratch/root.log"
  echo "SKIPPED: package.sh cannot make a clean Debian here (no mirror of Debian's packages?)"
  exit 0
fi
unshare --net --mount python3 package.py --package "$package" --root "$scratch/root" --scratch "$scratch"
