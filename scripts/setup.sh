#!/usr/bin/env bash
# Run `cua setup` once: scripts/setup.sh [PROGRAM...]
# PROGRAMs are desktop programs that the tests drive; they are installed when root, else their tests skip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. scripts/apt.sh

stamp=.venv/.setup-done
if [ ! -e "$stamp" ]; then
  printf '==> cua setup\n' >&2
  .venv/bin/cua setup
  touch "$stamp"
fi
missing=()
for name in "$@"; do command -v "$name" >/dev/null || missing+=("$name"); done
install_packages "programs that the tests drive" "not installed, so their tests skip" "${missing[@]}"
