#!/usr/bin/env bash
# Another agent asks a persona: the client of the Model Context Protocol that its authors publish for Python lists the tools of
# `attache mcp serve`, asks, hears of progress, reads the run, and is refused what is not offered.
#
# ATTACHE: the binary; default target/debug/attache. MCP_CLIENT_CACHE: where the client is installed; default a folder in TMPDIR.
# Says SKIPPED where it cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "mcp_server: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: mcp_server.sh needs python3, which is not installed"; exit 0; }
cache="${MCP_CLIENT_CACHE:-${TMPDIR:-/tmp}/attache-mcp-client-$(id -u)}"
mkdir -p "$cache"
# The version that was tried; two scripts use the folder, perhaps at once.
{
  flock 8
  if ! PYTHONPATH="$cache/python" python3 -c 'import mcp' 2>/dev/null; then
    timeout 120 python3 -m pip install --quiet --target "$cache/python" 'mcp==2.3.0' >/dev/null 2>&1 || true
  fi
} 8>"$cache/lock"
PYTHONPATH="$cache/python" python3 -c 'import mcp' 2>/dev/null ||
  { echo "SKIPPED: mcp_server.sh: pip does not bring the client mcp here"; exit 0; }
PYTHONPATH="$cache/python" timeout 120 python3 mcp_server.py --attache "$attache"
