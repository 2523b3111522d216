#!/usr/bin/env bash
# bench.sh [ring|memory|ingest|fanout|latency|idle|decimation|grpc] [--json FILE] [--repetitions N] [--seconds S]
# Builds release and prints values beside their peers', medians of interleaved runs. Asserts nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/install-deps.sh --test >&2
cmake --preset release -DSIMBRIDGE_BENCH=ON -DSIMBRIDGE_TESTS=OFF >/dev/null
cmake --build build/release --target simbridge_bench >&2
echo "machine: $(nproc) CPUs, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), $(date -u +%F), commit $(git rev-parse --short HEAD)"
exec ./build/release/bench/simbridge_bench "$@"
