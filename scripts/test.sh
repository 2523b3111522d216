#!/usr/bin/env bash
# Installs what the tests need, builds preset dev, runs every test but those labelled soak or gpu.
#   scripts/test.sh [ctest arguments…]     e.g. scripts/test.sh -R ring
# The last lines are ctest's own summary, the exit code is ctest's.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

scripts/install-deps.sh --test --quiet
scripts/build.sh dev
[[ -d ${SIMBRIDGE_TEST_DATA:-../shared} ]] ||
  say "*** no test data at ${SIMBRIDGE_TEST_DATA:-../shared}: tests that need it say so and check nothing ***"
ctest --preset dev --parallel "$(jobs_here)" "$@"
