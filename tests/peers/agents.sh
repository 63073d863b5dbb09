#!/usr/bin/env bash
# The command-line agents that nobody here wrote, started by the engine: Claude Code, Codex and Pi, each installed from npm
# and answering a letter with the words of a stub on loopback (agents_stub.py); Claude Code and Codex a second one by our
# own `send_email`, which their model calls through our tool server. No key, no account, a HOME of its own.
#
# ATTACHE: the binary; default target/debug/attache. AGENTS_CACHE: where they are installed; default a folder in TMPDIR.
# Says SKIPPED, for each agent, where it cannot be had.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "agents: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: agents.sh needs python3, which is not installed"; exit 0; }
command -v npm >/dev/null || { echo "SKIPPED: agents.sh needs npm, which is not installed: no agent was driven"; exit 0; }

cache="${AGENTS_CACHE:-${TMPDIR:-/tmp}/attache-agents-$(id -u)}"
mkdir -p "$cache"
# The versions that were tried: a newer one is a change of ours, not of the day on which CI runs.
for entry in claude:@anthropic-ai/claude-code@2.1.197 codex:@openai/codex@0.169.0 pi:@earendil-works/pi-coding-agent@0.74.2; do
  agent="${entry%%:*}" package="${entry#*:}" program="$cache/${entry%%:*}/node_modules/.bin/${entry%%:*}"
  if [ ! -x "$program" ]; then
    timeout 60 npm install --silent --no-audit --no-fund --prefix "$cache/$agent" "$package" >/dev/null 2>&1 || true
  fi
  if [ ! -x "$program" ]; then
    echo "SKIPPED: $agent: npm does not bring $package here"
    continue
  fi
  timeout 60 python3 agents.py --attache "$attache" --agent "$agent" --program "$program"
done
