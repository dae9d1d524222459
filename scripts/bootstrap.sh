#!/usr/bin/env bash
# Make .venv and install the package into it: scripts/bootstrap.sh all|assistant|dev|nano|runtime|runtime-dev|train
# Starts at once, without network, when nothing changed since the last time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

extra=${1:-all}
venv=.venv

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

find_python() {
  local name
  for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  die "no Python 3.11 or newer on PATH (python3 is $(python3 --version 2>&1 || true)). Install one, or name it: make PYTHON=/path/to/python3.11 demo"
}

can_make_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

install_python_venv() {  # Debian keeps ensurepip in a package of its own
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
  say "getting python3-venv: apt-get install -y python3-venv"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >/dev/null || true
  apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends python3-venv >/dev/null
}

make_with_virtualenv() {  # pip only fills a folder of ours; nothing is installed for the user or the system
  "$1" -m pip --version >/dev/null 2>&1 || return 1
  local tools
  tools=$(mktemp -d)
  say "getting virtualenv with pip, into a temporary folder"
  "$1" -m pip install --quiet --disable-pip-version-check --target "$tools" virtualenv \
    && PYTHONPATH=$tools "$1" -m virtualenv --quiet "$venv"
  local status=$?
  rm -rf "$tools"
  return $status
}

make_venv() {
  local python
  python=$(find_python)
  say "making $venv with $python ($("$python" --version 2>&1))"
  rm -rf "$venv"
  if can_make_venv "$python" || { install_python_venv && can_make_venv "$python"; }; then
    "$python" -m venv "$venv"
  elif ! make_with_virtualenv "$python"; then
    rm -rf "$venv"
    die "$python cannot make a virtual environment: it has neither ensurepip nor pip.
       On Debian or Ubuntu type:  sudo apt-get install -y python3-venv
       and run make again."
  fi
}

fingerprint() {
  { pwd; "$venv/bin/python" -c 'import sys; print(sys.version)'; cat pyproject.toml; } | cksum
}

install_package() {
  local size=300
  case $extra in nano | runtime | train) size=600 ;; runtime-dev) size=900 ;; esac  # torch for CPUs; with CUDA it is several GB
  say "installing cua-k25[$extra] into $venv (the first time this fetches some $size MB)"
  "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --editable ".[$extra]" \
    | grep --line-buffered -E '^(Collecting|  Downloading|Installing|Successfully|ERROR)' >&2 \
    || die "pip could not install the package: see its message above"
}

other_triton=3.6.0  # the kernels are compiled for two versions: the newest, which is in the environment, and this one

install_other_triton() {  # only compiles, so that it needs nothing beside it; PYTHONPATH puts it in front
  local target="$venv/triton-$other_triton"
  [ "$(uname -s)" = Linux ] && [ ! -e "$target/triton/__init__.py" ] || return 0
  say "installing triton $other_triton into $target (the first time this fetches some 190 MB)"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
    --target "$target" "triton==$other_triton" >&2 || die "pip could not install triton: see its message above"
}

# pyautogui for the tests' guest; alone, since its python3-xlib would replace python-xlib, and its mouseinfo needs tkinter
install_guest_programs() {
  say "installing pyautogui into $venv/guest, for programs on the tests' desktops"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --upgrade \
    --target "$venv/guest" pyautogui pymsgbox pytweening pyscreeze pyperclip >&2 \
    || say "pip could not install pyautogui: the tests that need it skip"
}

if ! "$venv/bin/python" -c '' 2>/dev/null || [ ! -x "$venv/bin/pip" ]; then
  make_venv
fi
stamp="$venv/.installed-$extra"
now=$(fingerprint)
if [ "$(cat "$stamp" 2>/dev/null)" != "$now" ]; then
  other=
  if [ "$extra" = runtime-dev ]; then
    install_other_triton & other=$!
    trap wait EXIT  # nothing is left running when the package cannot be installed
  fi
  install_package
  if [ -n "$other" ]; then wait "$other"; fi
  if [ "$extra" = dev ]; then install_guest_programs; fi
  printf '%s\n' "$now" >"$stamp"
  if [ "$extra" = dev ]; then printf '%s\n' "$now" | tee "$venv/.installed-all" >"$venv/.installed-assistant"; fi  # dev holds both
fi
