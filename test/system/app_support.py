"""The real process from outside: starts the bridge on free ports, speaks to it, ends it. Nothing sleeps to wait:
every wait polls for its event and has a deadline."""

import http.client
import importlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 30.0  # seconds; for what takes milliseconds on a machine that is not busy

PROGRAM = os.environ.get("SIMBRIDGE_PROGRAM") or (sys.argv.pop(1) if len(sys.argv) > 1 and os.path.exists(sys.argv[1]) else None)
if PROGRAM is None:
    sys.exit("usage: test.py PATH/TO/simbridge [unittest arguments]")


def until(condition, what, patience=PATIENCE):
    """The first true value of condition()."""
    deadline = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience} s in vain: {what}")
        time.sleep(0.005)


def clean_environment(**more):
    """Ours without knobs that the caller's shell may carry."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SIMBRIDGE_")}
    return {**kept, **more}


def run(*arguments, environment=None, timeout=PATIENCE):
    """A command to its end: (exit code, stdout, stderr)."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=timeout,
                          env=environment or clean_environment())
    return done.returncode, done.stdout, done.stderr


class Bridge:
    """`simbridge serve` on free ports. Use as a context: at the end it is stopped, and has to have come to no harm."""

    def __init__(self, *sets, config=None, arguments=(), environment=None, wait=True, **popen):
        command = [PROGRAM, "serve", "--set", "websocket.port=0", "--set", "grpc.port=0", "--set", "admin.port=0"]
        if config is not None:
            command += ["--config", str(config)]
        for each in sets:
            command += ["--set", each]
        self.log_file = tempfile.TemporaryFile()
        popen.setdefault("stderr", self.log_file)
        self.process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True,
                                        env=environment or clean_environment(), **popen)
        self.websocket = self.grpc = self.admin = None
        if wait:
            self.wait_for_start()

    def wait_for_start(self):
        # The three lines are the promise to scripts; readline returns at once when the process has gone.
        lines = [self.process.stdout.readline() for _ in range(3)]
        found = [re.fullmatch(pattern, line.strip()) for pattern, line in zip(
            (r"websocket listening on (ws://\S+/v1/connect)", r"grpc listening on (grpc://\S+)",
             r"admin listening on (http://\S+)"), lines)]
        if not all(found):
            self.process.kill()
            raise AssertionError(f"the bridge did not start: {lines} {self.log()}")
        self.websocket, self.grpc, self.admin = (match.group(1) for match in found)

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        self.log_file.seek(0)
        return self.log_file.read().decode()

    def get(self, path, method="GET"):
        """(status, body)"""
        address = urllib.parse.urlsplit(self.admin)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def api(self, name):
        status, body = self.get(f"/api/v1/{name}")
        assert status == 200, (status, body)
        return json.loads(body)

    def metric(self, series):
        for line in self.get("/metrics")[1].splitlines():
            name, _, value = line.rpartition(" ")
            if name == series:
                return float(value)
        raise AssertionError(f"no series {series}")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, patience=PATIENCE):
        return self.process.wait(patience)

    def stop(self):
        """SIGTERM, and the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if self.process.poll() is None:
                code = self.stop()
                if kind is None and code != 0:
                    raise AssertionError(f"exit code {code}: {self.log()}")
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            if kind is not None:
                sys.stderr.write(f"the bridge's log:\n{self.log()}\n")
            self.log_file.close()


_messages = None


def messages():
    """bridge.proto as Python, made from the tree's own file."""
    global _messages
    if _messages is None:
        folder = tempfile.mkdtemp(prefix="simbridge_proto_")
        subprocess.run(["protoc", f"-I{ROOT}/proto", f"--python_out={folder}", "simbridge/v1/bridge.proto"], check=True)
        sys.path.insert(0, folder)
        _messages = importlib.import_module("simbridge.v1.bridge_pb2")
        sys.path.pop(0)
        for each in sorted(pathlib.Path(folder).rglob("*"), reverse=True):
            each.unlink() if each.is_file() else each.rmdir()
        os.rmdir(folder)
    return _messages


class Peer:
    """A session of an independent client: Debian's python3-websockets and protobuf."""

    def __init__(self, socket):
        self.socket = socket
        self.kept = []

    @classmethod
    async def connect(cls, url, name="peer", peer_key=b""):
        import websockets

        socket = await websockets.connect(url, subprotocols=["simbridge.v1"], max_size=None, ping_interval=None,
                                          compression=None, close_timeout=PATIENCE)
        peer = cls(socket)
        await peer.send(hello=dict(name=name, agent="app_support/1", peer_key=peer_key))
        await peer.wait_for("welcome")
        return peer

    async def send(self, **body):
        await self.socket.send(messages().ClientMessage(**body).SerializeToString())

    async def receive(self):
        import asyncio

        message = messages().ServerMessage()
        message.ParseFromString(await asyncio.wait_for(self.socket.recv(), PATIENCE))
        return message

    async def wait_for(self, body, when=lambda message: True):
        """The next message of this kind; others are kept in order for whoever asks later."""
        for index, message in enumerate(self.kept):
            if message.WhichOneof("body") == body and when(getattr(message, body)):
                return getattr(self.kept.pop(index), body)
        while True:
            message = await self.receive()
            if message.WhichOneof("body") == body and when(getattr(message, body)):
                return getattr(message, body)
            self.kept.append(message)

    async def advertise(self, name, channel=1, epoch=7, **more):
        await self.send(advertise=dict(channel=channel, name=name, epoch=epoch, **more))
        return await self.wait_for("advertised", lambda advertised: advertised.channel == channel)

    async def publish(self, sequence, data, channel=1, epoch=7):
        await self.send(frame=dict(channel=channel, sequence=sequence, epoch=epoch, opaque=dict(data=data)))

    async def close(self):
        await self.socket.close()
