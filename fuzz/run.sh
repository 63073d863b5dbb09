#!/usr/bin/env bash
# Fuzzes every target for SECONDS_EACH seconds (600 unless said otherwise), beginning with the fixtures of the tests and,
# when they are there, the real letters. Needs `cargo install cargo-fuzz` and a nightly toolchain; says so and stops
# when they are missing. A crash leaves its input below fuzz/artifacts and ends the script with an error.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${SECONDS_EACH:-600}"
corpora="${ATTACHE_CORPORA:-../shared/corpora}"
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=(smtp_dialogue mime_to_email address report)

if ! cargo fuzz --version >/dev/null 2>&1 || ! cargo +nightly --version >/dev/null 2>&1; then
  echo "SKIPPED: fuzzing needs cargo-fuzz and a nightly toolchain" >&2
  exit 0
fi

seed() { # target files...: copies small files under names of their own
  local into="fuzz/corpus/$1"
  shift
  mkdir -p "$into"
  local file
  for file in "$@"; do
    [ -f "$file" ] && [ "$(stat -c %s "$file")" -lt 65536 ] && cp "$file" "$into/$(echo "$file" | tr '/ ' '__')"
  done
  return 0
}
shopt -s globstar nullglob
for dialog in tests/fixtures/dialogs/**/*.smtp; do # the client's side of a dialog
  mkdir -p fuzz/corpus/smtp_dialogue
  sed -n 's/^C: \(.*\)$/\1\r/p' "$dialog" >"fuzz/corpus/smtp_dialogue/$(basename "$dialog")"
done
seed mime_to_email tests/fixtures/**/*.eml "$corpora"/parse-*/*.eml
seed report tests/fixtures/**/*.eml "$corpora"/bounces-sisimai/*.eml
mkdir -p fuzz/corpus/address
printf 'ada+tag@engine.test' >fuzz/corpus/address/tagged
printf '"a b"@[127.0.0.1]' >fuzz/corpus/address/quoted

# The crate forbids unsafe code, so the address sanitizer would only watch C libraries, at half the speed.
cargo +nightly fuzz build -s none
for target in "${targets[@]}"; do
  echo "== $target for $seconds s"
  cargo +nightly fuzz run -s none "$target" -- -max_total_time="$seconds" -rss_limit_mb=1024 -timeout=10 \
    -max_len=65536 -print_final_stats=1 2>&1 | grep -vE '^#[0-9]+\s+(NEW|REDUCE|pulse|RELOAD)'
done
