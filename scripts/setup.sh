#!/usr/bin/env bash
# Run `cua setup` once: scripts/setup.sh [PROGRAM...]
# PROGRAMs are desktop programs that the tests drive; they are installed when root, else their tests skip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

install_programs() {
  local missing=() name
  for name in "$@"; do command -v "$name" >/dev/null || missing+=("$name"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    printf '==> getting programs that the tests drive: %s\n' "${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null || true
    apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  else
    printf 'note: not installed, so their tests skip: %s\n' "${missing[*]}" >&2
  fi
}

stamp=.venv/.setup-done
if [ ! -e "$stamp" ]; then
  printf '==> cua setup\n' >&2
  .venv/bin/cua setup
  touch "$stamp"
fi
install_programs "$@"
