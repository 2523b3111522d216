#!/usr/bin/env bash
# Runs every fuzz target for a short while, two at a time, from its seed corpus; any finding fails.
#   scripts/fuzz-smoke.sh [--seconds N] [TARGET…]      default 30 s a target, all targets
# A finding's input stays in build/fuzz/findings/TARGET-…; `build/fuzz/fuzz/TARGET FILE` shows it again.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

seconds=30 wanted=()
while (($#)); do
  case $1 in
    --seconds) seconds=$2; shift ;;
    -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) die "unknown argument '$1'; known: --seconds N" ;;
    *) wanted+=("$1") ;;
  esac
  shift
done

scripts/build.sh fuzz fuzz_targets
mapfile -t known <build/fuzz/fuzz_targets.txt
((${#wanted[@]})) || wanted=("${known[@]}")
mkdir -p build/fuzz/findings build/fuzz/logs

# What a target learns is kept beside the build, so that a longer campaign goes on where the last one ended.
fuzz_one() {
  local target=$1 grown="build/fuzz/corpus/$1" seeds=()
  mkdir -p "$grown"
  [[ ! -d test/fuzz/corpus/$target ]] || seeds=("test/fuzz/corpus/$target")
  [[ ! -f test/fuzz/$target.dict ]] || seeds+=("-dict=test/fuzz/$target.dict")
  if build/fuzz/fuzz/"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$target-" "$grown" "${seeds[@]}" >"build/fuzz/logs/$target" 2>&1; then
    printf '%-28s %10s runs, %s s: no finding\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/logs/$target")" "$seconds"
  else
    tail -40 "build/fuzz/logs/$target"
    printf '%-28s FOUND SOMETHING, the input is in build/fuzz/findings/\n' "$target"
    return 1
  fi
}
export -f fuzz_one
export seconds
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
printf '%s\n' "${wanted[@]}" | xargs -P 2 -I{} bash -c 'fuzz_one {}' ||
  die "a fuzz target found something"
