"""A peer of the flat road as anybody could write one: Python's websockets, json and numpy, and protocol.md §5. There
is no protobuf in it, and a test sees to that.

    flat()     the bytes of one flat message
    Flat       one that came: its header, and its blocks as numpy arrays that lie in the message
    FlatPeer   one conversation; control messages are dicts
"""

import asyncio
import json
import time

import numpy as np
import websockets

PATIENCE = 3  # every deadline is so many times longer than an idle machine needs: it is for failures only
SUBPROTOCOL = "simbridge.flat.v1"

HEADER = np.dtype([
    ("magic", "S4"), ("header_bytes", "<u2"), ("blocks", "<u2"), ("subscription", "<u4"), ("channel", "<u4"),
    ("sequence", "<u8"), ("epoch", "<u8"), ("stamp_ns", "<i8"), ("sent_ns", "<i8"), ("received_ns", "<i8"),
    ("forwarded_ns", "<i8"), ("points_in", "<u8"), ("skipped_frames", "<u8"), ("points", "<u4"), ("flags", "<u4"),
    ("height", "<u4"), ("zero", "<u4"), ("leaf", "<f8"), ("origin", "<f8", 3), ("pose", "<f8", 7), ("box", "<f4", (2, 3)),
])
BLOCK = np.dtype([
    ("name", "S16"), ("type", "u1"), ("components", "u1"), ("zero", "<u2"), ("offset", "<u4"), ("bytes", "<u8"),
])
assert HEADER.itemsize == 208 and BLOCK.itemsize == 32
TYPES = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 8: "<f8", 9: "<i8", 10: "<u8", 11: "?"}
NUMBERS = {np.dtype(name): number for number, name in TYPES.items()}
DEGRADED, KEEPS_ROWS, NOT_DENSE, BOX, POSE, ORIGIN = (1 << bit for bit in range(6))
CLOUD, DEPTH, OPAQUE = range(3)


def flat(blocks, kind=CLOUD, meta=None, points=None, flags=0, **header):
    """One message. blocks: name -> array, of one row a point where it has several components. meta: a dict."""
    arrays = {name: np.ascontiguousarray(array) for name, array in blocks.items()}
    if points is None:
        points = 0 if kind == OPAQUE else len(next(iter(arrays.values())))
    if meta is not None:
        arrays["#meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    head, table = np.zeros(1, HEADER), np.zeros(len(arrays), BLOCK)
    at = HEADER.itemsize + table.nbytes
    area = b""
    for row, (name, array) in zip(table, arrays.items()):
        row["name"], row["type"], row["offset"], row["bytes"] = name.encode(), NUMBERS[array.dtype], at, array.nbytes
        row["components"] = array.shape[1] if array.ndim == 2 else 1
        area += array.tobytes() + bytes(-array.nbytes % 8)
        at += (array.nbytes + 7) // 8 * 8
    head["magic"], head["header_bytes"], head["blocks"] = b"SBF1", HEADER.itemsize + table.nbytes, len(arrays)
    head["points"], head["flags"], head["channel"] = points, flags | kind << 24, 1
    for name, value in header.items():
        head[name] = value
    return head.tobytes() + table.tobytes() + area


class Flat:
    """One message that came, held against the page."""

    def __init__(self, message):
        self.head = np.frombuffer(message, HEADER, 1)[0]
        count, self.header_bytes = int(self.head["blocks"]), int(self.head["header_bytes"])
        assert self.head["magic"] == b"SBF1" and self.header_bytes % 8 == 0 and self.header_bytes >= 208 + 32 * count
        assert self.head["zero"] == 0 and int(self.head["flags"]) & ~0x0F0F003F == 0, hex(self.head["flags"])
        self.kind = int(self.head["flags"]) >> 24 & 15
        self.clock = int(self.head["flags"]) >> 16 & 15
        self.meta = None
        self.blocks = {}
        end = self.header_bytes
        for index, row in enumerate(np.frombuffer(message, BLOCK, count, HEADER.itemsize)):
            name, offset, size = row["name"].decode(), int(row["offset"]), int(row["bytes"])
            assert row["zero"] == 0 and offset % 8 == 0 and offset >= end and offset + size <= len(message), row
            assert not any(message[end:offset]), "what lies between blocks is zero"
            end = offset + size
            if name == "#meta":
                assert index == count - 1, "#meta stands last"
                self.meta = json.loads(message[offset:end])
                continue
            kind, components = np.dtype(TYPES[int(row["type"])]), int(row["components"])
            array = np.frombuffer(message, kind, size // kind.itemsize, offset)
            if name != "payload":
                assert size == self.points * components * kind.itemsize, row
            assert components > 0
            self.blocks[name] = array.reshape(-1, components) if components > 1 else array
        assert end == len(message)
        if self.kind == CLOUD:
            assert next(iter(self.blocks)) == "xyz"

    def __getattr__(self, name):
        value = self.head[name]
        return value if value.ndim else value.item()

    def __getitem__(self, name):
        return self.blocks[name]

    def has(self, flag):
        return bool(int(self.head["flags"]) & flag)


class FlatPeer:
    def __init__(self, socket):
        self.socket = socket
        self.kept = []       # what came while somebody waited for something else, in order
        self.channels = {}   # id -> what Channels said of it
        self.welcome = None

    @classmethod
    async def open(cls, url, hello=True, subprotocols=(SUBPROTOCOL,), **said):
        peer = cls(await websockets.connect(url, subprotocols=list(subprotocols), compression=None, max_size=None,
                                            ping_interval=None, close_timeout=2))
        assert peer.socket.subprotocol == SUBPROTOCOL, peer.socket.subprotocol
        if hello:
            await peer.tell(hello={"name": "flat", "agent": "flat_peer.py", **said})
            peer.welcome = await peer.wait_for("welcome")
        return peer

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.socket.close()

    async def tell(self, **body):
        await self.socket.send(json.dumps(body))

    async def send(self, message):
        """Bytes as a binary message, a str as text, a list of either as one message in WebSocket fragments."""
        await self.socket.send(message)

    async def receive(self, timeout=10.0):
        """("frame", Flat), or the body's name and the body."""
        data = await asyncio.wait_for(self.socket.recv(), max(0.0, timeout) * PATIENCE)
        if isinstance(data, bytes):
            return "frame", Flat(data)
        message = json.loads(data)
        (body, said), = message.items()
        if body == "channels":
            self.channels |= {info["id"]: info for info in said["channel"]}
        return body, said

    async def wait_for(self, body, where=lambda _: True, timeout=10.0):
        """The next message of that body; others are kept for whoever asks later."""
        for index, (what, said) in enumerate(self.kept):
            if what == body and where(said):
                del self.kept[index]
                return said
        deadline = time.monotonic() + timeout * PATIENCE
        while True:
            what, said = await self.receive((deadline - time.monotonic()) / PATIENCE)
            if what == body and where(said):
                return said
            self.kept.append((what, said))

    async def wait_closed(self, timeout=10.0):
        """Close code and reason; what still comes before is kept."""
        try:
            while True:
                self.kept.append(await self.receive(timeout))
        except websockets.ConnectionClosed as closed:
            return closed.rcvd.code, closed.rcvd.reason

    # -- what sensors and consumers say

    async def advertise(self, name, epoch=7, **more):
        await self.tell(advertise={"channel": 1, "name": name, "epoch": str(epoch), **more})
        return await self.wait_for("advertised", lambda said: said["channel"] == 1)

    async def subscribe(self, pattern, id_=1, **more):
        await self.tell(subscribe={"id": id_, "channel": pattern, "history": "HISTORY_ALL_KEPT",
                                   "queueFrames": 10000, **more})
        return await self.wait_for("subscriptionState", lambda said: said["id"] == id_)

    async def acknowledged(self, sequence):
        return await self.wait_for("ack", lambda said: int(said["sequence"]) >= sequence)

    async def frame(self, subscription=1, timeout=10.0):
        return await self.wait_for("frame", lambda frame: frame.subscription == subscription, timeout)
