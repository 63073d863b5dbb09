#!/usr/bin/env bash
# The real OpenCode (`npm install opencode-ai@1.18.33`) as the agent of a persona, with a model of ours behind it: it starts,
# finds our tools by MCP, mails by `send_email` in the run of a responsibility, and nothing of it is left.
#
# ATTACHE: the binary; default target/debug/attache. OPENCODE: the program; default `opencode` on PATH, else npm's in
# AGENTS_CACHE (default a folder in TMPDIR), else SKIPPED.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "opencode: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
opencode="${OPENCODE:-$(command -v opencode || true)}"
cache="${AGENTS_CACHE:-${TMPDIR:-/tmp}/attache-agents-$(id -u)}/opencode"
if [ -z "$opencode" ] && command -v npm >/dev/null; then
  opencode="$cache/node_modules/.bin/opencode"
  mkdir -p "$cache"
  [ -x "$opencode" ] || timeout 90 npm install --silent --no-audit --no-fund --prefix "$cache" opencode-ai@1.18.33 >/dev/null 2>&1 || true
  [ -x "$opencode" ] || opencode=""
fi
[ -n "$opencode" ] || { echo "SKIPPED: opencode.sh needs opencode, which is not installed"; exit 0; }
command -v python3 >/dev/null || { echo "SKIPPED: opencode.sh needs python3, which is not installed"; exit 0; }
scratch="$(mktemp -d)"
stub=""
trap '[ -z "$stub" ] || kill "$stub" 2>/dev/null; rm -rf "$scratch"' EXIT
house="$scratch/house"
engine() { "$attache" --workspace "$house" "$@"; }
fail() { echo "FAILED: $*" >&2; cat "$scratch/model.log" >&2; exit 1; }

python3 opencode_stub.py >"$scratch/port" 2>"$scratch/model.log" &
stub=$!
for _ in $(seq 50); do [ -s "$scratch/port" ] && break; sleep 0.1; done
export HOME="$scratch/home" XDG_CONFIG_HOME="$scratch/home/.config" XDG_DATA_HOME="$scratch/home/.data"
export XDG_STATE_HOME="$scratch/home/.state" XDG_CACHE_HOME="$scratch/home/.cache"
mkdir -p "$XDG_CONFIG_HOME/opencode" "$XDG_DATA_HOME" "$XDG_STATE_HOME" "$XDG_CACHE_HOME"
cat >"$XDG_CONFIG_HOME/opencode/opencode.json" <<JSON
{ "provider": { "acme": { "npm": "@ai-sdk/openai-compatible", "name": "Acme",
  "options": { "baseURL": "http://127.0.0.1:$(cat "$scratch/port")/v1", "apiKey": "x" },
  "models": { "m1": { "name": "m1", "tool_call": true } } } } }
JSON
python3 -c 'import guest_house, sys; guest_house.write(sys.argv[1])' "$house"
python3 - "$house/configs" "$opencode" <<'PY'
import json, sys
folder, program = sys.argv[1:]
settings = json.load(open(f"{folder}/inference.json"))
settings |= {"provider": "opencode", "model": "acme/m1"}
settings.setdefault("providers", {})["opencode"] = {"binary": program}
json.dump(settings, open(f"{folder}/inference.json", "w"), indent=2)
json.dump({"access": {"allow": ["*"]}}, open(f"{folder}/security.json", "w"))
PY
# A letter that nobody proved gets no tool that writes, a responsibility does.
printf '%s\n' "---" "name: Breakfast" 'schedule: "0 9 * * *"' "deliver_to: store" "---" "Tell Marta when breakfast is." \
  >"$house/personas/concierge/responsibilities/breakfast.md"
engine schedule run Breakfast >/dev/null || fail "the responsibility is run"
engine drain >"$scratch/drain.log" 2>&1 || { cat "$scratch/drain.log" >&2; engine runs list >&2; fail "the run succeeds"; }
engine --json replay show --last >"$scratch/run.json" 2>/dev/null || true
grep -rq "says the agent" "$house"/data/outbox || fail "the agent's mail went out by our gate"
[ "$(ls "$house"/data/outbox/*.eml | wc -l)" = 1 ] || fail "one mail, not two"
! pgrep -f "$opencode serve" >/dev/null || fail "something of the agent is left"
echo "opencode: $("$opencode" --version) mailed by our send_email"
