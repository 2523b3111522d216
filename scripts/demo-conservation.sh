#!/usr/bin/env bash
# Two sensors stream the Ouster and Velodyne recordings at 20 Hz to three consumers; one consumer stalls, a
# producer and a consumer are killed and come back. At the end the books of everybody balance to the frame and
# every payload is its file's, or the exit code is 1 and the lines say what is missing.
#   scripts/demo-conservation.sh [--seconds N]     N: 60, at least 5
# Recordings: ../shared, or where SIMBRIDGE_TEST_DATA says; without them it does nothing, exit code 77.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
  -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
scripts/install-deps.sh --test --quiet
scripts/build.sh release simbridge
export SIMBRIDGE_PROGRAM="$root/build/release/src/app/simbridge" SIMBRIDGE_SCRATCH="$root/build/release/test/system"
/usr/bin/python3 -B test/system/conservation.py "$@"
printf '\n'
exec /usr/bin/python3 -B test/system/mixed_roads.py "$@"
