#!/usr/bin/env bash
# Makes everything that a release has, and installs each in an empty Debian: packaging/release.sh [OUT]
# OUT: a folder, default target/release-files. It gets the Debian package, the static binary, what the container image holds, and
# SHA256SUMS of all three.
#
# Needs cargo-deb, python3, mmdebstrap, musl-gcc (musl-tools), `rustup target add x86_64-unknown-linux-musl`, and root for the
# empty Debian. Two optimised builds: half an hour on two cores. To try it in a third of that: CARGO_PROFILE_RELEASE_OPT_LEVEL=0.
set -euo pipefail
cd "$(dirname "$0")/.."
out="$(realpath -m "${1:-target/release-files}")"
target="${CARGO_TARGET_DIR:-$PWD/target}"
triple=x86_64-unknown-linux-musl
version="$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)"
for program in cargo-deb python3 mmdebstrap musl-gcc; do
  command -v "$program" >/dev/null || { echo "release: needs $program; see the head of $0" >&2; exit 69; }
done
[ "$(id -u)" = 0 ] || { echo "release: run it as root: it makes an empty Debian and installs each file there" >&2; exit 77; }
rm -rf "$out"
mkdir -p "$out"

# The package links the libraries of Debian; the static binary and the image run wherever there is a Linux.
cargo build --locked --release
packaging/debian.sh "$target/release/attache" "$out"
cargo build --locked --release --target "$triple"
static="$out/attache-$version-x86_64-linux"
install -m 0755 "$target/$triple/release/attache" "$static"
scratch="$(mktemp -d)"
trap 'rm -rf --one-file-system "$scratch"' EXIT
chmod 755 "$scratch"
packaging/image.sh "$static" "$scratch/image"
tar -C "$scratch/image" --sort=name --owner=0 --group=0 --numeric-owner -czf "$out/attache-$version-image-root.tar.gz" .
(cd "$out" && sha256sum -- * >SHA256SUMS)

# In a network that has this process alone.
alone() { unshare --net -- bash -c 'ip link set lo up && exec "$@"' - "$@"; }

# Each as somebody gets it: behind its checksum, on a Debian that has nothing of ours.
(cd "$out" && sha256sum --check --quiet SHA256SUMS)
PACKAGE="$(echo "$out"/attache_*.deb)" bash tests/peers/package.sh
mmdebstrap --quiet --variant=minbase --include=ca-certificates "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$scratch/debian"
install -m 0755 "$static" "$scratch/debian/usr/local/bin/attache"
alone chroot --userspec=1000:1000 "$scratch/debian" /usr/local/bin/attache --workspace /tmp/house demo | tail -1
echo "ok: the static binary, in a Debian with nothing but certificate authorities, without network"
mkdir -p "$scratch/root/etc/ssl/certs"
tar -C "$scratch/root" -xzf "$out/attache-$version-image-root.tar.gz"
mv "$scratch/root/ca-certificates.crt" "$scratch/root/etc/ssl/certs/" # as packaging/Containerfile does
chown -R 10001:10001 "$scratch/root/tmp" "$scratch/root/workspace"
alone chroot --userspec=10001:10001 "$scratch/root" /attache --workspace /tmp/house demo | tail -1
echo "ok: what the image holds, without a shell and without root"
ls -l "$out"
