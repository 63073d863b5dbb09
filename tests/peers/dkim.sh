#!/usr/bin/env bash
# Our DKIM signatures before OpenDKIM: an answer signed with an Ed25519 and an RSA key that OpenSSL made, and the records
# that `attache outbox dkim` prints. The controls: a changed subject, a changed body and an added sender must not pass.
#
# ATTACHE: the binary; default target/debug/attache. Says SKIPPED where opendkim, openssl or python3 is missing.
set -euo pipefail
cd "$(dirname "$0")"
attache="${ATTACHE:-$PWD/../../target/debug/attache}"
[ -x "$attache" ] || { echo "dkim: no binary at $attache; run \`cargo build\` or set ATTACHE" >&2; exit 1; }
PATH="$PATH:/usr/sbin"
for program in opendkim openssl python3; do
  command -v "$program" >/dev/null || { echo "SKIPPED: dkim.sh needs $program, which is not installed"; exit 0; }
done
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
house="$scratch/house"
engine() { "$attache" --workspace "$house" "$@"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

python3 -c 'import guest_house, sys; guest_house.write(sys.argv[1])' "$house"
(umask 077 && openssl genpkey -algorithm ed25519 -out "$house/ed.pem" && openssl genrsa -out "$house/rsa.pem" 2048) 2>/dev/null
python3 - "$house/configs/gateway.json" <<'PY'
import json, sys
settings = json.load(open(sys.argv[1]))
keys = [{"domain": "guesthouse.example", "selector": name, "key": f"{name}.pem"} for name in ("ed", "rsa")]
settings["outbound"]["dkim"] = keys
json.dump(settings, open(sys.argv[1], "w"), indent=2)
PY
engine config check >/dev/null || fail "the configuration is good"
printf '%s\n' "From: Anna <anna@traveller.example>" "To: concierge@guesthouse.example" "Subject: Grüße  aus   Köln" \
  "Message-ID: <dkim-1@traveller.example>" "" "When is breakfast?" > "$scratch/letter.eml"
engine ingest "$scratch/letter.eml" >/dev/null
engine drain >/dev/null
answers=("$house"/data/outbox/*.eml)
[ "${#answers[@]}" = 1 ] && [ -f "${answers[0]}" ] || fail "one answer lies in the outbox"

engine outbox dkim --json | python3 -c '
import json, sys
for record in json.load(sys.stdin):
    print(record["name"], record["text"])' > "$scratch/keys"
printf '%s\n' "Mode v" "Syslog no" "UserID $(id -un)" "TestPublicKeys $scratch/keys" > "$scratch/opendkim.conf"

# Prints how many signatures pass and how many do not.
verdict() {
  local said
  said="$(opendkim -x "$scratch/opendkim.conf" -v -v -t "$1" 2>&1)" || fail "opendkim reads $1: $said"
  echo "$(grep -c 'dkim=pass' <<<"$said" || true) $(grep -c 'dkim=fail' <<<"$said" || true)"
}
[ "$(verdict "${answers[0]}")" = "2 0" ] || fail "both signatures pass, not: $(verdict "${answers[0]}")"

sed 's/^Subject: /Subject: Fwd: /' "${answers[0]}" > "$scratch/subject.eml"
{ cat "${answers[0]}"; printf 'PS\r\n'; } > "$scratch/body.eml"
sed '0,/^Date: /s/^Date: /From: mallory@evil.example\r\nDate: /' "${answers[0]}" > "$scratch/sender.eml"
for forged in subject body sender; do
  cmp -s "$scratch/$forged.eml" "${answers[0]}" && fail "the control \`$forged\` changes nothing"
  case "$(verdict "$scratch/$forged.eml")" in
    0\ *) ;;
    *) fail "a changed $forged passes: $(verdict "$scratch/$forged.eml")" ;;
  esac
done
echo "ok: OpenDKIM accepts our Ed25519 and RSA signatures, and none of three forgeries"
