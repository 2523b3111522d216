#!/usr/bin/env bash
# Installs what is needed, builds the release, starts the daemon with a simulated lidar and shows the
# live stream as a table. Ctrl-C drains and leaves nothing behind.
#   scripts/run.sh [--for SECONDS] [FILE.pcd…]     with files: replays them, 10 a second, over and over
# Ports 8080 and 9090 (sensors and consumers: WebSocket, gRPC) and 8090 (admin), or the next free ones, on this machine only.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

from=$OLDPWD seconds=0 files=()
while (($#)); do
  case $1 in
    --for) seconds=${2:?--for wants seconds}; shift ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) die "unknown argument '$1'; known: --for SECONDS, FILE.pcd…" ;;
    *)
      file=$(cd "$from" && realpath -e -- "$1" 2>/dev/null) || die "there is no file '$1'"
      files+=("$file")
      ;;
  esac
  shift
done

scripts/install-deps.sh
scripts/build.sh release simbridge
program=build/release/src/app/simbridge

# The next port that nobody listens on; should another take it first, the daemon says so and we end.
free_port() {
  local port=$1
  while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
  echo "$port"
}
port=$(free_port 8080)
admin=$(free_port $((port < 8090 ? 8090 : port + 1)))
grpc=$(free_port $((admin < 9090 ? 9090 : admin + 1)))
url="ws://127.0.0.1:$port"
logs=$(mktemp -d)

# Each child is a session of its own, so Ctrl-C reaches only this script and it ends them in order; and each
# is ended by the kernel should this script be killed.
spawn() {
  local log=$1
  shift
  if [[ $log == - ]]; then
    setpriv --pdeathsig TERM setsid "$@" 2>"$logs/watch" </dev/null &
  else
    setpriv --pdeathsig TERM setsid "$@" >"$logs/$log" 2>&1 </dev/null &
  fi
}
alive() { kill -0 "$1" 2>/dev/null; }
# end PID SECONDS: ask, wait that long, insist.
end() {
  local pid=$1 tries=$(($2 * 10))
  [[ -n $pid ]] || return 0
  kill -TERM "$pid" 2>/dev/null || true
  while alive "$pid" && ((tries-- > 0)); do sleep 0.1; done
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}
daemon="" sender="" watcher="" stopped=no
finish() {
  local code=$?
  trap - EXIT
  trap '' INT TERM
  end "$sender" 5
  end "$daemon" 20   # drains: tells the watcher, closes, ends
  end "$watcher" 5
  if [[ $stopped == no && $code != 0 ]]; then
    tail -n 20 "$logs"/* >&2
  fi
  rm -rf "$logs"
  [[ $stopped == no ]] || say "Stopped; nothing is left running."
  exit "$code"
}
trap finish EXIT
trap 'stopped=yes; exit 0' INT TERM HUP

say "Bridge: $url, grpc://127.0.0.1:$grpc   admin: http://127.0.0.1:$admin   Ctrl-C ends all."
spawn serve "$program" serve --set "websocket.port=$port" --set "grpc.port=$grpc" --set "admin.port=$admin"
daemon=$!
if ((${#files[@]})); then
  spawn send "$program" send --to "$url" --connect-for 15 --channel replay/points --rate 10 --loop "${files[@]}"
else
  spawn send "$program" send --to "$url" --connect-for 15 --channel lidar_sim/points --simulate lidar
fi
sender=$!
spawn - "$program" watch --from "$url" --connect-for 15 '**'
watcher=$!

deadline=$((SECONDS + seconds))
while ((seconds == 0 || SECONDS < deadline)); do
  for child in "daemon $daemon" "sender $sender" "watcher $watcher"; do
    if ! alive "${child#* }"; then
      say "The ${child% *} ended by itself:" >&2
      exit 1
    fi
  done
  sleep 0.2 &
  wait $! || true   # a wait, so that a signal is handled at once
done
stopped=yes
exit 0
