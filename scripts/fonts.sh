#!/usr/bin/env bash
# Get the fonts that nano-K2.5's screens are drawn with (apps/train/screens/fonts.py).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

missing=()
for font in fonts-dejavu-core fonts-dejavu-extra fonts-liberation; do
  dpkg-query -W -f '${Status}' "$font" 2>/dev/null | grep -q ' installed$' || missing+=("$font")
done
install_packages fonts "fonts are missing, so figures will differ" "${missing[@]}"
