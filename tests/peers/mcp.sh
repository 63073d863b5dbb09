#!/usr/bin/env bash
# Two MCP servers that nobody here wrote: the reference server of npm (as a program, and at an address) and the one that tells
# the time, of PyPI. Their tools are approved, called by a letter, and what they said is in the answer; a run is executed again
# without them.
#
# ATTACHE: the binary; default target/debug/attache. MCP_CACHE: where the two are installed; default a folder in TMPDIR.
# Says SKIPPED where one of them cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "mcp: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
for program in python3 node npm; do
  command -v "$program" >/dev/null || { echo "SKIPPED: mcp.sh needs $program, which is not installed"; exit 0; }
done
cache="${MCP_CACHE:-${TMPDIR:-/tmp}/attache-mcp-$(id -u)}"
mkdir -p "$cache"
# The versions that were tried.
everything="$cache/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
[ -f "$everything" ] ||
  timeout 120 npm install --silent --no-audit --no-fund --prefix "$cache" @modelcontextprotocol/server-everything@2026.8.31 >/dev/null 2>&1 || true
[ -f "$everything" ] || { echo "SKIPPED: mcp.sh: npm does not bring @modelcontextprotocol/server-everything here"; exit 0; }
if ! PYTHONPATH="$cache/python" python3 -c 'import mcp_server_time' 2>/dev/null; then
  timeout 120 python3 -m pip install --quiet --target "$cache/python" mcp-server-time==2026.10.19 >/dev/null 2>&1 || true
fi
PYTHONPATH="$cache/python" python3 -c 'import mcp_server_time' 2>/dev/null ||
  { echo "SKIPPED: mcp.sh: pip does not bring mcp-server-time here"; exit 0; }
timeout 180 python3 mcp_servers.py --attache "$attache" --everything "$everything" --python "$cache/python"
