#!/usr/bin/env bash
# Configures and builds one preset (default dev), quietly unless it fails or takes long.
#   scripts/build.sh [preset] [target…]
# SIMBRIDGE_JOBS sets the number of parallel compilations.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

preset=${1:-dev}
shift || true
[[ $preset != -* ]] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0; }
mkdir -p build
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset "$preset" >"$log" 2>&1 || {
  cat "$log" >&2
  die "cmake could not configure preset '$preset'; are the dependencies there (scripts/install-deps.sh)?"
}
targets=()
(($# == 0)) || targets=(--target "$@")
NINJA_STATUS='[%f/%t %es] ' cmake --build "build/$preset" --parallel "$(jobs_here)" "${targets[@]}"
