#!/usr/bin/env bash
# Makes the Debian package of a binary that is built: packaging/debian.sh [BINARY] [OUT] [OPTION OF cargo-deb ...]
# BINARY: default target/release/attache. OUT: a folder, default target/debian. Needs cargo-deb (`cargo install cargo-deb`).
set -euo pipefail
cd "$(dirname "$0")/.."
binary="$(realpath "${1:-target/release/attache}")"
out="${2:-target/debian}"
options=("${@:3}")
made=target/package
rm -rf "$made"
mkdir -p "$made/completions" "$out"
"$binary" man "$made/man"
"$binary" completions bash >"$made/completions/attache.bash"
"$binary" completions zsh >"$made/completions/_attache"
"$binary" completions fish >"$made/completions/attache.fish"
python3 packaging/inventory.py "$(rustc -vV | sed -n 's/^host: //p')" "$made"
# cargo-deb takes the binary from where a release build leaves it; this place is its own, so that no other build is replaced.
export CARGO_TARGET_DIR="$PWD/$made/build"
mkdir -p "$CARGO_TARGET_DIR/release"
cp "$binary" "$CARGO_TARGET_DIR/release/attache"
cargo deb --no-build --no-strip --no-dbgsym --locked --offline --output "$out" "${options[@]}"
