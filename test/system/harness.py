"""What the system tests share: the daemon as a process, its figures, child processes that never outlive us,
recordings, and the balance of all books.

    SIMBRIDGE_PROGRAM     the program `simbridge` (ctest sets it)
    SIMBRIDGE_SCRATCH     a folder of the build for generated files (ctest sets it)
    SIMBRIDGE_SANITIZER   not empty: a sanitizer is linked in, memory figures mean nothing
    SIMBRIDGE_TEST_ROAD   ws, flat or grpc: what peers come by
    SIMBRIDGE_TEST_DATA   recordings; default ../shared beside the repository
"""

import asyncio
import collections
import contextlib
import ctypes
import http.client
import json
import logging
import os
import random
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRATCH = Path(os.environ.get("SIMBRIDGE_SCRATCH", ROOT / "build" / "system_tests"))
SANITIZED = bool(os.environ.get("SIMBRIDGE_SANITIZER"))
TEST_DATA = Path(os.environ.get("SIMBRIDGE_TEST_DATA", ROOT.parent / "shared"))
MiB = 1 << 20
ROAD = os.environ.get("SIMBRIDGE_TEST_ROAD", "ws")   # that peers come by, where a test does not choose
PATIENCE = 3   # every deadline is so many times longer than an idle machine needs: it is for failures only
logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # peers that vanish are the point here


def program():
    path = os.environ.get("SIMBRIDGE_PROGRAM", str(ROOT / "build" / "dev" / "src" / "app" / "simbridge"))
    if not os.access(path, os.X_OK):
        sys.exit(f"there is no program {path}; build it, or name another in SIMBRIDGE_PROGRAM")
    return path


SCHEMAS = ("simbridge/v1/bridge.proto", "grpc/health/v1/health.proto", "grpc/reflection/v1alpha/reflection.proto")


def load_protocol():
    """bridge_pb2, health_pb2, reflection_pb2, made from the schemas by protoc; several tests may do so at once."""
    for name in SCHEMAS:
        schema = ROOT / "proto" / name
        made = SCRATCH / f"{schema.stem}_pb2.py"
        if made.exists() and made.stat().st_mtime >= schema.stat().st_mtime:
            continue
        SCRATCH.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
            subprocess.run(["protoc", f"-I{schema.parent}", f"--python_out={folder}", schema.name], check=True)
            os.replace(Path(folder) / made.name, made)
    sys.path.insert(0, str(SCRATCH))


load_protocol()


def seed():
    """Printed, so that a failure can be repeated with SIMBRIDGE_TEST_SEED."""
    value = int(os.environ.get("SIMBRIDGE_TEST_SEED", 0)) or random.SystemRandom().getrandbits(32)
    print(f"SIMBRIDGE_TEST_SEED={value}")
    random.seed(value)
    return value


def figure(name, value, unit=""):
    """A line that scripts/verify.sh keeps."""
    print(f"figure: {name} = {value} {unit}".rstrip(), flush=True)


# ---- processes


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def spawn(command, nofile=None, cpus=None, **options):
    """A child that the kernel kills when we are gone, however that comes."""
    parent = os.getpid()

    def in_child():
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # we were gone before the call
        if nofile:
            resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))
        if cpus:
            os.sched_setaffinity(0, cpus)

    return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, preexec_fn=in_child, **options)


def end_process(process, timeout=10.0):
    """Politely, then not; returns the exit code."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def wait_until(condition, timeout=10.0, what="it"):
    timeout *= PATIENCE
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what}: not within {timeout} s")
        time.sleep(0.02)


async def until(condition, timeout=10.0, what="it"):
    """As wait_until, while everything else of this process goes on."""
    timeout *= PATIENCE
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what}: not within {timeout} s")
        await asyncio.sleep(0.02)


# ---- the daemon


class Bridge:
    """with Bridge({"knob": value}) as bridge: the process, up and ready; at the end it must drain with code 0."""

    def __init__(self, knobs=None, nofile=None, cpus=None):
        # Tests come and go faster than peers do; those about the rate set it themselves.
        self._knobs = {"websocket.port": 0, "grpc.port": 0, "admin.port": 0, "session.accept_rate": 1000000,
                       "frame.warm_reserve_bytes": 0, **(knobs or {})}
        self._limits = {"nofile": nofile, "cpus": cpus}
        self.process = None
        self.url = self.websocket = self.grpc = self.admin = ""
        self.ended = False   # the test has seen to its end

    def command(self):
        sets = [word for key, value in self._knobs.items() for word in ("--set", f"{key}={value}")]
        return [program(), "serve", *sets]

    def __enter__(self):
        self._log = tempfile.TemporaryFile()
        # bufsize 0: a line that Python had read ahead would not wake the selector.
        self.process = spawn(self.command(), stdout=subprocess.PIPE, stderr=self._log, bufsize=0, **self._limits)
        try:
            self.websocket = self._read_address("websocket listening on ")
            self.grpc = self._read_address("grpc listening on ")
            self.admin = self._read_address("admin listening on ")
            self.url = self.by(ROAD)
        except AssertionError:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the bridge did not start:\n{self.log()}") from None
        return self

    def by(self, road):
        """The address for lines.connect()."""
        return {"ws": self.websocket, "flat": self.websocket.replace("ws:", "ws+flat:"), "grpc": self.grpc}[road]

    def _read_address(self, before):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(60):
                raise AssertionError("no address within 60 s")
        line = self.process.stdout.readline().decode().strip()
        if not line.startswith(before):
            raise AssertionError(f"{line!r} is not {before!r}")
        return line.removeprefix(before)

    def __exit__(self, kind, error, trace):
        try:
            if not self.ended:
                code = self.stop()
                if kind is None:
                    assert code == 0, f"exit code {code}"
        except AssertionError:
            if kind is None:
                print(self.log(), file=sys.stderr)
                raise
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            if kind is not None:
                print("---- the bridge's log\n" + self.log()[-6000:], file=sys.stderr)
            self._log.close()

    def stop(self, number=signal.SIGTERM, timeout=90.0):
        """Asks it to go, and waits; its exit code."""
        self.ended = True
        assert self.process.poll() is None, f"the bridge had ended by itself, with {self.process.returncode}"
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        return self.process.wait(timeout)

    def log(self):
        self._log.flush()
        position = os.lseek(self._log.fileno(), 0, os.SEEK_CUR)
        text = os.pread(self._log.fileno(), 1 << 26, 0).decode(errors="replace")
        os.lseek(self._log.fileno(), position, os.SEEK_SET)
        return text

    # -- what it says of itself

    def get(self, path, timeout=30.0):
        """Status and body."""
        host, port = self.admin.removeprefix("http://").rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def api(self, page):
        status, body = self.get(f"/api/v1/{page}")
        assert status == 200, (page, status, body)
        return json.loads(body)

    def metrics(self):
        """name -> value, name{label="value"} -> value."""
        status, body = self.get("/metrics")
        assert status == 200, (status, body)
        lines = (line.rsplit(" ", 1) for line in body.splitlines() if line and not line.startswith("#"))
        return collections.defaultdict(float, ((name, float(value)) for name, value in lines))

    def metric(self, name):
        return self.metrics()[name]

    def ready(self):
        return self.get("/readyz")[0] == 200

    # -- what the kernel says of it

    def rss(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            words = file.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


# ---- the balance


def sum_of(metrics, name):
    return sum(value for key, value in metrics.items() if key == name or key.startswith(name + "{"))


def imbalances(bridge):
    """Every sentence about books that do not balance now; empty at rest."""
    found = []
    for channel in bridge.api("channels"):
        if channel["received"] != channel["published"] + channel["duplicate"] + channel["rejected"]:
            found.append(f"channel: {channel}")
    for one in bridge.api("subscriptions"):
        if one["waiting"]:
            found.append(f"waiting: {one}")
        if one["promised"] != one["delivered"] + one["skipped"] + one["lost"] + one["waiting"]:
            found.append(f"subscription: {one}")
        if one["lost"] != sum(one["gaps"].values()):
            found.append(f"gaps: {one}")
    metrics = bridge.metrics()
    arrived = sum_of(metrics, "simbridge_session_received_frames_total")
    judged = sum(sum_of(metrics, f"simbridge_session_{what}_frames_total")
                 for what in ("published", "duplicate", "rejected"))
    if arrived != judged:
        found.append(f"metrics: received {arrived}, published + duplicate + rejected {judged}")
    promised = sum_of(metrics, "simbridge_session_promised_frames_total")
    told = sum(sum_of(metrics, f"simbridge_session_{what}_frames_total")
               for what in ("delivered", "skipped", "gap", "broken_off"))
    if promised != told:
        found.append(f"metrics: promised {promised}, delivered + skipped + gap + broken off {told}")
    if metrics["simbridge_frame_charged_bytes"] > metrics["simbridge_frame_budget_bytes"]:
        found.append("charged is above budget")
    return found


def assert_at_rest(bridge, timeout=15.0):
    """Comes to rest, and then every law of conservation holds and nothing is held for anybody."""
    deadline = time.monotonic() + timeout * PATIENCE
    while found := imbalances(bridge):
        assert time.monotonic() < deadline, "\n".join(found)
        time.sleep(0.05)
    for name in ("simbridge_frame_ingest_bytes", "simbridge_frame_lent_bytes", "simbridge_frame_pinned_bytes"):
        wait_until(lambda name=name: bridge.metric(name) == 0, timeout, f"{name} is 0")


async def at_rest(bridge, timeout=15.0):
    await asyncio.to_thread(assert_at_rest, bridge, timeout)


def assert_nobody_left(bridge, timeout=15.0):
    """Sessions and connections are gone from all figures, after the peers went."""
    wait_until(lambda: bridge.api("sessions") == [], timeout, "no session is listed")
    for name in ("simbridge_session_open", "simbridge_session_subscriptions", "simbridge_session_outbox_bytes",
                 "simbridge_transport_websocket_connections"):
        wait_until(lambda name=name: bridge.metric(name) == 0, timeout, f"{name} is 0")


# ---- recordings


def recordings(*names):
    """Paths of recordings; None where there are none, said loudly."""
    paths = [TEST_DATA / "pointclouds" / name for name in names]
    if all(path.exists() for path in paths):
        return paths
    print(f"*** no recordings at {TEST_DATA}: set SIMBRIDGE_TEST_DATA; nothing is checked ***")
    return None


def pcd_data(path):
    """The points of a binary PCD file as records, as `simbridge send` transmits them."""
    content = Path(path).read_bytes()
    header = {}
    at = 0
    while "DATA" not in header:
        end = content.index(b"\n", at)
        words = content[at:end].decode("ascii").split()
        at = end + 1
        if words and not words[0].startswith("#"):
            header[words[0]] = words[1:]
    assert header["DATA"] == ["binary"], f"{path}: only binary files are read here"
    step = sum(int(size) * int(count) for size, count in zip(header["SIZE"], header["COUNT"]))
    length = int(header["WIDTH"][0]) * int(header["HEIGHT"][0]) * step
    assert len(content) >= at + length, f"{path} is cut off"
    return content[at:at + length]


# ---- running


def run(coroutine, timeout=100.0):
    """A test's body, bounded."""
    async def bounded():
        return await asyncio.wait_for(coroutine, timeout * PATIENCE)
    return asyncio.run(bounded())


@contextlib.asynccontextmanager
async def background(*coroutines):
    """Runs beside the body; what fails there fails the test."""
    tasks = [asyncio.create_task(one) for one in coroutines]
    try:
        yield tasks
    finally:
        for task in tasks:
            while not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=0.2)   # wait_for() of Python 3.11 may swallow one
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, asyncio.CancelledError):
            raise result


def main(file):
    """Runs the tests of one file, as ctest does."""
    import pytest
    sys.exit(pytest.main([file, "-q", "-p", "no:cacheprovider", "-p", "no:logging", "--tb=short", "-rs", *sys.argv[1:]]))
