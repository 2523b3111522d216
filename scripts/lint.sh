#!/usr/bin/env bash
# Format, Clang's warnings with its thread-safety analysis, and clang-tidy, over the files changed since the
# last commit that is over a day old (in a younger history: over all).
#   scripts/lint.sh [--all] [--fix] [--budget SECONDS] [FILE…]
# --fix formats in place. --budget ends it in time: what was not reached is named, and clean results are kept
# by content, so the next run goes on from there.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

all=no fix=no budget=3000 files=()
while (($#)); do
  case $1 in
    --all) all=yes ;;
    --fix) fix=yes ;;
    --budget) budget=$2; shift ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) die "unknown argument '$1'; known: --all, --fix, --budget SECONDS" ;;
    *) files+=("$1") ;;
  esac
  shift
done
started=$SECONDS

if ((${#files[@]} == 0)); then
  base=
  [[ $all == yes ]] || base=$(git rev-list -1 --before='1 day ago' HEAD 2>/dev/null || true)
  # Against the working tree, so that it also judges what is not committed yet.
  mapfile -t files < <(
    {
      git diff --name-only --diff-filter=d "${base:-$(git hash-object -t tree /dev/null)}"
      git ls-files --others --exclude-standard
    } | sort -u
  )
fi
sources=() units=()
for file in "${files[@]}"; do
  case $file in
    src/*.h | src/*.cpp | include/*.h | test/*.h | test/*.cpp | bench/*.h | bench/*.cpp | kernels/*.h) ;;
    *) continue ;;
  esac
  [[ -f $file ]] || continue
  sources+=("$file")
  [[ $file != *.cpp ]] || units+=("$file")
done
say "lint: ${#sources[@]} files, ${#units[@]} of them compiled"
((${#sources[@]})) || exit 0
failed=()

if [[ $fix == yes ]]; then
  clang-format-19 -i "${sources[@]}"
else
  clang-format-19 --dry-run --Werror "${sources[@]}" || failed+=(format)
fi

if ((${#units[@]})); then
  scripts/build.sh lint simbridge_proto >/dev/null   # the compile commands, and the generated headers
  left=$((budget - (SECONDS - started)))
  /usr/bin/python3 -B scripts/lint_tidy.py --build build/lint --jobs "$(jobs_here)" --budget "$((left > 0 ? left : 0))" \
    "${units[@]}" || failed+=(clang)
fi
((${#failed[@]} == 0)) || die "failed: ${failed[*]}"
say "lint: clean, $((SECONDS - started)) s"
