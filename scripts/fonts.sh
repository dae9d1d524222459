#!/usr/bin/env bash
# Get the fonts that nano-K2.5's screens are drawn with; other fonts of the machine are drawn with, too.
set -euo pipefail

fonts=(fonts-dejavu-core fonts-dejavu-extra fonts-liberation)
missing=()
for font in "${fonts[@]}"; do dpkg-query -W -f '${Status}' "$font" 2>/dev/null | grep -q ' installed$' || missing+=("$font"); done
[ ${#missing[@]} -gt 0 ] || exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  printf '==> getting fonts: %s\n' "${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >/dev/null || true
  apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  printf 'note: fonts are missing, so figures will differ a little: apt-get install %s\n' "${missing[*]}" >&2
fi
