"""What a conversation runs over: one class a road, each with the same few calls, so that one suite plays on all.

    WebSocketLine   ws://host:port/v1/connect             messages as they are
    FlatLine        ws+flat://host:port/v1/connect        the same messages as JSON text and flat frames
    GrpcLine        grpc://host:port                      messages as they are, by the official grpcio

A line carries the bytes of ClientMessage and ServerMessage; FlatLine translates, which is the work of a test and
not of a peer: flat_test.py and flat_test.mjs are peers of that road without protobuf.
"""

import asyncio
import socket
import struct

import google.protobuf.json_format as json_format
import grpc
import numpy as np
import websockets

import bridge_pb2 as pb

CONNECT_TIMEOUT_S = 30


class Closed(Exception):
    """The bridge ended it. code: WebSocket's, on gRPC the one that protocol.md §2 has for the status."""

    def __init__(self, code, reason):
        super().__init__(f"closed with {code} {reason!r}")
        self.code = code
        self.reason = reason


def address_of(url):
    rest = url.split("://", 1)[1].split("/", 1)[0]
    host, port = rest.rsplit(":", 1)
    return host, int(port)


async def connect(url, receive_buffer=None):
    scheme = url.split("://", 1)[0]
    return await {"ws": WebSocketLine, "ws+flat": FlatLine, "grpc": GrpcLine}[scheme].connect(url, receive_buffer)


class WebSocketLine:
    SUBPROTOCOL = "simbridge.v1"
    has_close = True   # a handshake of its own says that it ends
    has_parts = True

    def __init__(self, opened):
        self._socket = opened

    @classmethod
    async def connect(cls, url, receive_buffer):
        """receive_buffer: bytes of SO_RCVBUF, for a peer whose kernel shall not hide that it does not read."""
        options = {}
        if receive_buffer:
            plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            plain.setblocking(False)
            await asyncio.wait_for(
                asyncio.get_running_loop().sock_connect(plain, address_of(url)), CONNECT_TIMEOUT_S)
            options["sock"] = plain
        return cls(await websockets.connect(
            url.replace("ws+flat:", "ws:"), subprotocols=[cls.SUBPROTOCOL], compression=None, max_size=None,
            max_queue=1, ping_interval=None, open_timeout=CONNECT_TIMEOUT_S, close_timeout=2, **options))

    async def send(self, data):
        await self.send_raw(data)

    async def send_raw(self, data):
        """What goes over the wire, text where it is a str."""
        try:
            await self._socket.send(data)
        except websockets.ConnectionClosed as closed:
            raise self._closed(closed) from None

    async def recv(self):
        data = await self.recv_raw()
        if isinstance(data, str):
            raise AssertionError("text on a session of simbridge.v1")
        return data

    async def recv_raw(self):
        try:
            return await self._socket.recv()
        except websockets.ConnectionClosed as closed:
            raise self._closed(closed) from None

    @staticmethod
    def _closed(closed):
        return Closed(closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else Closed(1006, "")

    async def ping(self):
        """Whose pong nobody waits for: a sign of life of a peer that does not read."""
        try:
            await self._socket.ping()
        except websockets.ConnectionClosed as closed:
            raise self._closed(closed) from None

    def local_port(self):
        return self._socket.local_address[1]

    async def close(self):
        await self._socket.close()

    def abort(self):
        """The connection breaks, as by a killed process."""
        if self._socket.transport is not None:
            self._socket.transport.abort()


# ---- flat


NUMPY = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 8: "<f8", 9: "<i8", 10: "<u8"}
HEADER = struct.Struct("<4sHHIIQQqqqqQQIIII d 3d 7d 6f")
BLOCK = struct.Struct("<16sBBHIQ")
assert HEADER.size == 208 and BLOCK.size == 32


def flat_message(frame, blocks, points, kind):
    """blocks: (name, type, components, bytes)."""
    header_bytes = HEADER.size + BLOCK.size * len(blocks)
    table, area, at = b"", b"", header_bytes
    for name, type_, components, data in blocks:
        table += BLOCK.pack(name.encode(), type_, components, 0, at + len(area), len(data))
        area += data + bytes(-len(data) % 8)
    origin, pose = frame.origin, frame.pose
    flags = kind << 24 | frame.clock << 16
    flags |= (16 if frame.HasField("pose") else 0) | (32 if frame.HasField("origin") else 0)
    return HEADER.pack(
        b"SBF1", header_bytes, len(blocks), 0, frame.channel, frame.sequence, frame.epoch, frame.stamp_ns,
        frame.sent_ns, 0, 0, 0, 0, points, flags, 0, 0, 0.0, origin.x, origin.y, origin.z,
        pose.position.x, pose.position.y, pose.position.z, pose.orientation.x, pose.orientation.y,
        pose.orientation.z, pose.orientation.w, *[0.0] * 6) + table + area


def flat_of(frame):
    """A Frame as a flat sensor would send it: clouds as one block a field, x, y and z as one."""
    if frame.WhichOneof("payload") != "cloud":
        return flat_message(frame, [("payload", 2, 1, frame.opaque.data)], 0, 2)
    cloud = frame.cloud
    points = cloud.width * cloud.height
    columns = {}
    for field in cloud.fields:
        kind = np.dtype({"names": ["v"], "formats": [NUMPY[field.type]], "offsets": [field.offset],
                         "itemsize": cloud.point_step})
        columns[field.name] = (field.type, np.frombuffer(cloud.data, kind, points)["v"])
    xyz = np.stack([columns.pop(axis)[1] for axis in "xyz"], axis=1)
    blocks = [("xyz", 7, 3, np.ascontiguousarray(xyz, "<f4").tobytes())]
    blocks += [(name, type_, 1, np.ascontiguousarray(column).tobytes())
               for name, (type_, column) in columns.items() if len(name) <= 16]
    return flat_message(frame, blocks, points, 0)


def frame_of(data):
    """The Frame of a flat message: a cloud as SOA whose data is the block area, its fields' offsets counted there."""
    (magic, header_bytes, count, subscription, channel, sequence, epoch, stamp, sent, received, forwarded, points_in,
     skipped, points, flags, height, zero, leaf, *_) = HEADER.unpack_from(data)
    assert magic == b"SBF1" and zero == 0 and header_bytes % 8 == 0 and header_bytes >= 208 + 32 * count
    frame = pb.Frame(subscription=subscription, channel=channel, sequence=sequence, epoch=epoch, stamp_ns=stamp,
                     sent_ns=sent, received_ns=received, forwarded_ns=forwarded, clock=flags >> 16 & 15)
    frame.result.points_in, frame.result.points_out = points_in, points
    frame.result.skipped_frames, frame.result.leaf = skipped, leaf
    frame.result.degraded = bool(flags & 1)
    end = header_bytes
    for index in range(count):
        name, type_, components, _, offset, size = BLOCK.unpack_from(data, HEADER.size + index * BLOCK.size)
        name = name.rstrip(b"\0").decode()
        assert offset % 8 == 0 and end <= offset <= len(data) - size, (name, offset, size, len(data))
        if name == "#meta":
            meta = json_format.Parse(data[offset:offset + size], pb.Frame())
            assert index == count - 1 and (meta.channel, meta.sequence) == (channel, sequence), meta
            continue
        end = offset + size
        if flags >> 24 & 15 == 2:
            frame.opaque.data = data[offset:end]
        else:
            frame.cloud.fields.add(name=name, type=type_, count=components, offset=offset - header_bytes)
            frame.cloud.data = data[header_bytes:end]
            frame.cloud.layout = pb.LAYOUT_SOA
            frame.cloud.width, frame.cloud.height = points // max(height, 1), max(height, 1)
    return frame


class FlatLine(WebSocketLine):
    SUBPROTOCOL = "simbridge.flat.v1"
    has_parts = False

    async def send(self, data):
        message = pb.ClientMessage.FromString(data)
        if message.WhichOneof("body") == "frame":
            await self.send_raw(flat_of(message.frame))
        else:
            await self.send_raw(json_format.MessageToJson(message, indent=None))

    async def recv(self):
        data = await self.recv_raw()
        if isinstance(data, str):
            return json_format.Parse(data, pb.ServerMessage()).SerializeToString()
        return pb.ServerMessage(frame=frame_of(data)).SerializeToString()


# ---- gRPC


CODES = {grpc.StatusCode.OK: 1000, grpc.StatusCode.UNAVAILABLE: 1001, grpc.StatusCode.INVALID_ARGUMENT: 1007,
         grpc.StatusCode.ABORTED: 1008, grpc.StatusCode.DEADLINE_EXCEEDED: 1008,
         grpc.StatusCode.UNAUTHENTICATED: 1008, grpc.StatusCode.RESOURCE_EXHAUSTED: 1009}


class GrpcLine:
    has_close = False
    has_parts = True

    def __init__(self, channel, call):
        self.channel = channel
        self.call = call
        self._reading = None

    @classmethod
    async def connect(cls, url, receive_buffer, **options):
        options = {"grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1,
                   "grpc.use_local_subchannel_pool": 1, "grpc.enable_http_proxy": 0, **options}
        if receive_buffer:   # HTTP/2's own window, which else grows to megabytes
            options |= {"grpc.http2.bdp_probe": 0, "grpc.http2.lookahead_bytes": receive_buffer}
        channel = grpc.aio.insecure_channel("%s:%d" % address_of(url), options=list(options.items()))
        await asyncio.wait_for(channel.channel_ready(), CONNECT_TIMEOUT_S)
        return cls(channel, channel.stream_stream("/simbridge.v1.Bridge/Connect")())

    async def send(self, data):
        try:
            await self.call.write(data)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            raise await self._closed() from None

    send_raw = send

    async def recv(self):
        # A read that is cancelled would cancel the call: it goes on, for whoever asks next.
        self._reading = self._reading or asyncio.ensure_future(self.call.read())
        try:
            data = await asyncio.shield(self._reading)
        except grpc.aio.AioRpcError:
            raise await self._closed() from None
        except asyncio.CancelledError:
            if not self.call.cancelled():
                raise
            raise Closed(1006, "") from None
        self._reading = None
        if data is grpc.aio.EOF:
            raise await self._closed()
        return data

    async def _closed(self):
        return Closed(CODES.get(await self.call.code(), 1006), await self.call.details())

    async def ping(self):
        """gRPC answers the bridge's pings by itself."""

    async def close(self):
        try:
            await self.call.done_writing()
            async with asyncio.timeout(2):
                while True:   # the status stands behind what waits
                    await self.recv()
        except (Closed, TimeoutError, grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass
        await self.channel.close()

    def abort(self):
        self.call.cancel()
