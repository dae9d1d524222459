# Sourced by the scripts that install Debian's packages.

# install_packages WHAT OTHERWISE PACKAGE...: with apt-get as root; else it says "note: OTHERWISE: PACKAGE..." and goes on
install_packages() {
  local what=$1 otherwise=$2
  shift 2
  [ $# -gt 0 ] || return 0
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    printf '==> getting %s: %s\n' "$what" "$*" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null || true
    apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "$@" >/dev/null
  else
    printf 'note: %s: %s\n' "$otherwise" "$*" >&2
  fi
}
