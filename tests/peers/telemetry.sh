#!/usr/bin/env bash
# What the engine tells of itself is read by parsers that nobody here wrote: the numbers by the parser of Prometheus' client for
# Python, the spans by the published messages of OTLP, the names of their attributes by the published conventions.
#
# ATTACHE: the binary; default target/debug/attache. TELEMETRY_CACHE: where the parsers are installed; default a folder in TMPDIR.
# Says SKIPPED where pip cannot bring them.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "telemetry: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: telemetry.sh needs python3, which is not installed"; exit 0; }
cache="${TELEMETRY_CACHE:-${TMPDIR:-/tmp}/attache-telemetry-$(id -u)}"
export PYTHONPATH="$cache"
there() { python3 -c 'import google.protobuf, opentelemetry.proto, opentelemetry.semconv, prometheus_client' 2>/dev/null; }
# The versions that were tried.
there || timeout 120 python3 -m pip install --quiet --target "$cache" 'opentelemetry-proto==1.45.2' \
  'opentelemetry-semantic-conventions==0.66b2' 'prometheus_client==0.26.0' >/dev/null 2>&1 || true
there || { echo "SKIPPED: telemetry.sh: pip does not bring the parsers of OpenTelemetry and Prometheus here"; exit 0; }
timeout 120 python3 telemetry.py --attache "$attache"
