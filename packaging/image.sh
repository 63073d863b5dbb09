#!/usr/bin/env bash
# Gathers what the container image holds, for packaging/Containerfile: packaging/image.sh [BINARY] [OUT]
# BINARY: a static one, default target/x86_64-unknown-linux-musl/release/attache. OUT: default target/image.
set -euo pipefail
cd "$(dirname "$0")/.."
binary="${1:-target/x86_64-unknown-linux-musl/release/attache}"
out="${2:-target/image}"
rm -rf "$out"
# `data` is there so that a volume in its place belongs to the same user.
mkdir -p "$out/workspace/data" "$out/tmp"
install -m 0755 "$binary" "$out/attache"
install -m 0644 /etc/ssl/certs/ca-certificates.crt "$out/ca-certificates.crt"
