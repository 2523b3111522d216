#!/usr/bin/env bash
# The long checks, run by hand before an issue is resolved; each ends within the hour.
#   scripts/verify.sh GROUP     GROUP: soak, fuzz-long, asan-all, tsan-repeat, bench, all
# Appends date, commit, command and figures to docs/verification.md.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cap=3600
page=docs/verification.md
scripts/install-deps.sh --test --quiet

soak() { # every test labelled soak, one at a time, as released
  cmake --preset release -DSIMBRIDGE_TESTS=ON >/dev/null   # the benchmarks turn them off there
  scripts/build.sh release soak_tests
  ctest --test-dir build/release -L soak --output-on-failure --no-tests=error --timeout 3000
}
fuzz_long() { # twenty minutes for every target, two at a time, as far as the hour goes
  local count
  scripts/build.sh fuzz fuzz_targets
  count=$(wc -l <build/fuzz/fuzz_targets.txt)
  scripts/fuzz-smoke.sh --seconds $((3000 * 2 / (count + count % 2) < 1200 ? 3000 * 2 / (count + count % 2) : 1200))
}
asan_all() { # every test, those of the whole process included, under the address sanitizer
  scripts/build.sh asan
  ctest --preset asan --parallel "$(jobs_here)" --timeout 600
}
tsan_repeat() { # the concurrency tests until one fails, at most ten times
  scripts/build.sh tsan concurrency_tests
  ctest --preset tsan --repeat until-fail:10 --timeout 900
}
bench() {
  scripts/bench.sh
}

one() {
  local group=$1 function=${1//-/_} log code=0 started=$SECONDS verdict
  log=$(mktemp)
  say "== $group (at most $((cap / 60)) minutes)"
  export -f "$function" jobs_here say die
  timeout --kill-after=30 "$cap" bash -euo pipefail -c "$function" >"$log" 2>&1 || code=$?
  case $code in
    0) verdict=passed ;;
    124 | 137) verdict="cut after $((cap / 60)) minutes" ;;
    *) verdict="failed ($code)" ;;
  esac
  {
    printf '\n## %s: %s\n\n' "$group" "$verdict"
    printf -- '- date: %s\n' "$(date -u +'%Y-%m-%d %H:%M UTC')"
    printf -- '- commit: %s%s\n' "$(git rev-parse --short HEAD)" "$(git diff --quiet HEAD -- . ":!$page" || echo ' and changes')"
    printf -- '- command: `scripts/verify.sh %s`, %s s\n' "$group" "$((SECONDS - started))"
    printf -- '- machine: %s cores, %s GiB, %s\n' "$(nproc)" \
      "$(awk '/MemTotal/ {print int($2 / 1048576 + 0.5)}' /proc/meminfo)" \
      "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
    printf '\n```\n'
    # Figures: ctest's lines, the fuzzers' lines, whatever a test printed as a figure.
    if [[ $group == bench ]]; then cat "$log"; else
    grep -aE '^ *[0-9]+/[0-9]+ Test|tests passed|Total Test time|runs, .*finding|^figure:|\|.*\||\*\*\*' "$log"
    fi | sed 's/ *$//' | tail -80 || true
    printf '```\n'
  } >>"$page"
  [[ $code == 0 ]] || tail -60 "$log"
  rm -f "$log"
  say "== $group: $verdict; written to $page"
  return "$code"
}

groups=(soak fuzz-long asan-all tsan-repeat bench)
case ${1:-} in
  all)
    result=0
    for group in "${groups[@]}"; do one "$group" || result=1; done
    exit $result
    ;;
  soak | fuzz-long | asan-all | tsan-repeat | bench) one "$1" ;;
  *)
    sed -n '2,4s/^# \{0,1\}//p' "$0"
    exit 1
    ;;
esac
