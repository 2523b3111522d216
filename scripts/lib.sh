# shellcheck shell=bash
# What the scripts share. Sourced, never run: cd to the root, Debian's tools first, caches, small helpers.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# Another Python, CMake or compiler that the machine happens to have must not change what we build.
export PATH="/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH"
export LC_ALL=C.UTF-8
# A clone in another folder finds the same cache entries: paths below the root count relative.
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1

say() { printf '%s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Parallel compilations: one a core, and no more than memory allows (the heaviest source takes 1.5 GiB).
jobs_here() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(($(awk '/MemAvailable/ {print int($2 / 1024)}' /proc/meminfo) / 1500))
  ((by_memory >= 1)) || by_memory=1
  echo "${SIMBRIDGE_JOBS:-$((cores < by_memory ? cores : by_memory))}"
}
