#!/usr/bin/env bash
# Installs what simbridge is built from on a bare Debian 12, as root or by sudo.
#   scripts/install-deps.sh [--test] [--quiet]
# Without --test: what the daemon's build needs. With it: also what tests, lint, fuzzing and benchmarks need.
# Costs nothing when all is there: the package lists are fetched only if something is missing.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

with_tests=no quiet=no
for argument in "$@"; do
  case $argument in
    --test) with_tests=yes ;;
    --quiet) quiet=yes ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown argument '$argument'; known: --test, --quiet" ;;
  esac
done
tell() { [[ $quiet == yes ]] || say "$@"; }

packages=(
  ccache cmake g++ ninja-build pkg-config     # building
  libboost-dev                                # Asio and Beast, headers only
  libprotobuf-dev protobuf-compiler           # the protocol
  libgrpc++-dev protobuf-compiler-grpc        # gRPC; its CMake file asks for the compiler's plug-in too
  libspdlog-dev libfmt-dev                    # logs
  libcli11-dev libyaml-cpp-dev                # command line, configuration
  nlohmann-json3-dev                          # admin answers
  prometheus-cpp-dev                          # metrics; its CMake file asks for the next two
  libcurl4-openssl-dev zlib1g-dev
  catch2                                      # spdlog brings it anyway, and CMake looks for it
)
test_packages=(
  git                                         # lint asks it what has changed
  libbenchmark-dev nats-server                # benchmarks and their peer
  libpcl-dev                                  # PCL's VoxelGrid, beside ours in tests and benchmarks (1.2 GB)
  spin                                        # the model of the ring
  clang-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev   # lint, fuzzing
  python3 python3-grpcio python3-jsonschema python3-numpy python3-protobuf python3-pytest python3-websockets python3-yaml
  python3-venv                                # a place for what only PyPI has: test/requirements.txt
  nodejs node-ws                              # a peer of the flat road
)
[[ $with_tests == no ]] || packages+=("${test_packages[@]}")

command -v dpkg-query >/dev/null || die "this is not a Debian system; Debian 12 is what simbridge is built on"
. /etc/os-release
[[ ${ID:-}:${VERSION_ID:-} == debian:12 ]] ||
  say "install-deps.sh: made for Debian 12, this is ${PRETTY_NAME:-unknown}; trying all the same" >&2

declare -A there=()
while read -r status name; do
  [[ $status != installed ]] || there[$name]=1
done < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for name in "${packages[@]}"; do
  [[ -n ${there[$name]:-} ]] || missing+=("$name")
done

if ((${#missing[@]})); then
  tell "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "run this as root, or install sudo: ${missing[*]} are missing"
    as_root=(sudo)
  fi
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
      -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >>"$log" 2>&1
  }
  if ! { apt update && apt install --no-install-recommends "${missing[@]}"; }; then
    cat "$log" >&2
    die "apt-get could not install: ${missing[*]}"
  fi
fi

# What Debian does not have: pinned, in a folder of the build tree, never in the system's Python.
if [[ $with_tests == yes ]]; then
  tools=build/tools wanted=test/requirements.txt
  if ! cmp -s "$wanted" "$tools/requirements.txt"; then
    tell "Installing test tools from PyPI: $(grep -v '^#' "$wanted" | xargs)"
    rm -rf "$tools"
    mkdir -p build
    /usr/bin/python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --retries 3 -r "$wanted" ||
      die "PyPI did not give the tools of $wanted"
    cp "$wanted" "$tools/requirements.txt"
  fi
fi
tell "All dependencies are there."
