"""A peer of the bridge in Python, written from protocol.md alone: it shares no line with the daemon or with
`simbridge send` and `watch`, so where they agree, three readers of one page agree.

    Session    one conversation: Hello, Welcome, channels, messages in order, parts put together
    Sensor     one channel: advertise, window, acknowledgements, go back n, resume within its epoch
    Consumer   one subscription: what came, what did not and why, credit; can stop reading
    Ledger     the books of one (subscription, channel); raises where a frame is unaccounted for
    RawSocket  the bytes themselves, for peers that break the rules

All on asyncio. Nothing is read unless somebody asks: a peer that does not call receive() does not read.
"""

import asyncio
import base64
import collections
import contextlib
import hashlib
import os
import random
import socket
import struct
import time

import bridge_pb2 as pb
import lines
from lines import address_of

SUBPROTOCOL = "simbridge.v1"
PATIENCE = 3  # every deadline is so many times longer than an idle machine needs: it is for failures only
CONNECT_TIMEOUT_S = 10 * PATIENCE
PART_OVERHEAD = 128  # bytes of a FramePart beside its data, at most


class ProtocolError(AssertionError):
    """The bridge did something that protocol.md does not allow."""


class Refused(Exception):
    """A Reject that answers what was asked."""

    def __init__(self, reject):
        super().__init__(f"{pb.RejectCode.Name(reject.code)}: {reject.detail}")
        self.reject = reject


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def payload_of(frame):
    kind = frame.WhichOneof("payload")
    return getattr(frame, kind).data if kind else b""


async def stop_task(task):
    """Cancels it until it is done: Python 3.11's wait_for() may swallow one request."""
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.2)


def new_epoch():
    return time.time_ns()


# ---- one conversation


class Session:
    def __init__(self, socket_, welcome):
        self._socket = socket_
        self.welcome = welcome
        self.channels = {}       # id -> ChannelInfo, as last told
        self.epochs = {}         # id -> every epoch that was announced
        self.list_complete = False
        self.drain = None
        self._parts = None       # the transfer that is under way
        self._last_transfer = 0
        self._transfer_out = 0

    @classmethod
    async def open(cls, url, name="python", peer_key=b"", max_message_bytes=0, hello=True, receive_buffer=None):
        """receive_buffer: what waits unread on the peer's side at most, for one that shall be seen not to read."""
        opened = await lines.connect(url, receive_buffer)
        session = cls(opened, None)
        if hello:
            await session.send(hello=pb.Hello(
                name=name, agent="bridge_client.py", peer_key=peer_key, max_message_bytes=max_message_bytes))
            first = await session.receive(CONNECT_TIMEOUT_S)
            if first.WhichOneof("body") == "reject":
                raise Refused(first.reject)
            if first.WhichOneof("body") != "welcome":
                raise ProtocolError(f"the first answer is {first.WhichOneof('body')}, not welcome")
            session.welcome = first.welcome
        return session

    async def send(self, message=None, **body):
        await self._socket.send((message or pb.ClientMessage(**body)).SerializeToString())

    async def send_bytes(self, data):
        """As binary message, or as text where data is a str."""
        await self._socket.send_raw(data)

    async def send_frame(self, frame):
        """Whole, or in parts where it is larger than the bridge takes in one message."""
        whole = pb.ClientMessage(frame=frame).SerializeToString()
        limit = self.welcome.max_message_bytes
        if len(whole) <= limit or not self._socket.has_parts:
            await self._socket.send(whole)
            return
        encoded = frame.SerializeToString()
        data_at = len(encoded) - len(payload_of(frame))  # the canonical order has the data last
        chunk = limit - PART_OVERHEAD
        cuts = [0, *range(data_at, len(encoded), chunk), len(encoded)]
        self._transfer_out += 1
        for index, (first, end) in enumerate(zip(cuts, cuts[1:])):
            await self.send(part=pb.FramePart(
                transfer=self._transfer_out, index=index, count=len(cuts) - 1, total_bytes=len(encoded),
                channel=frame.channel, sequence=frame.sequence, data=encoded[first:end]))

    async def receive(self, timeout=10.0):
        """The next message; parts are put together and come as the frame that they carry."""
        deadline = time.monotonic() + timeout * PATIENCE
        while True:
            data = await asyncio.wait_for(self._socket.recv(), max(0.0, deadline - time.monotonic()))
            message = pb.ServerMessage.FromString(data)
            body = message.WhichOneof("body")
            if body == "channels":
                self._note_channels(message.channels)
            elif body == "drain":
                self.drain = message.drain
            elif body == "frame":
                self._check_announced(message.frame.channel, message.frame.epoch)
            elif body == "gap":
                # Gap{EPOCH} names the epoch that the consumer had, which this boot may never have seen.
                if message.gap.reason != pb.GAP_EPOCH:
                    self._check_announced(message.gap.channel, message.gap.epoch)
            elif body == "part":
                whole = self._add_part(message.part)
                if whole is None:
                    continue
                message = pb.ServerMessage(frame=whole)
                self._check_announced(whole.channel, whole.epoch)
            return message

    async def wait_for(self, body, timeout=10.0, where=lambda _: True):
        """The first message of that body; what comes before it is dropped."""
        deadline = time.monotonic() + timeout * PATIENCE
        while True:
            message = await self.receive(max(0.0, deadline - time.monotonic()) / PATIENCE)
            if message.WhichOneof("body") == body and where(getattr(message, body)):
                return getattr(message, body)

    async def ping_transport(self):
        """A sign of life of a peer that does not read."""
        await self._socket.ping()

    def local_port(self):
        return self._socket.local_port()

    async def wait_closed(self, timeout=10.0):
        """Close code and reason, once the bridge has closed; what still comes before is dropped."""
        deadline = time.monotonic() + timeout * PATIENCE
        try:
            while True:
                await asyncio.wait_for(self._socket.recv(), max(0.0, deadline - time.monotonic()))
        except lines.Closed as closed:
            return closed.code, closed.reason

    async def close(self):
        if not self._socket.has_close:
            with contextlib.suppress(lines.Closed):
                await self.send(goodbye=pb.Goodbye())
        await self._socket.close()

    def abort(self):
        """The connection breaks, as by a killed process."""
        self._socket.abort()

    def name_of(self, channel):
        return self.channels[channel].name

    def _note_channels(self, channels):
        for info in channels.channel:
            self.channels[info.id] = info
            self.epochs.setdefault(info.id, set()).add(info.epoch)
        for channel in channels.removed:
            self.channels.pop(channel, None)
        self.list_complete = self.list_complete or channels.complete

    def _check_announced(self, channel, epoch):
        if channel not in self.channels:
            raise ProtocolError(f"channel {channel} was not announced")
        if epoch not in self.epochs[channel]:
            raise ProtocolError(f"epoch {epoch} of {self.name_of(channel)} was not announced")

    def _add_part(self, part):
        if part.index == 0:
            if self._parts is not None:
                raise ProtocolError("a transfer begins within another")
            if part.transfer <= self._last_transfer:
                raise ProtocolError("transfer numbers rise")
            self._last_transfer = part.transfer
            self._parts = (part.transfer, part.count, part.total_bytes, [])
        if self._parts is None:
            raise ProtocolError(f"part {part.index} without part 0")
        transfer, count, total, pieces = self._parts
        if (part.transfer, part.count, part.total_bytes, part.index) != (transfer, count, total, len(pieces)):
            raise ProtocolError("a part that does not follow the one before it")
        pieces.append(part.data)
        if len(pieces) < count:
            return None
        self._parts = None
        encoded = b"".join(pieces)
        if len(encoded) != total:
            raise ProtocolError(f"parts have {len(encoded)} bytes, announced were {total}")
        frame = pb.Frame.FromString(encoded)
        if len(pieces[0]) > total - len(payload_of(frame)):
            raise ProtocolError("part 0 holds payload data")
        return frame


# ---- producing


class Sensor:
    """One channel of one producer. What is not acknowledged is kept, and sent again after a broken connection."""

    def __init__(self, url, channel, epoch=None, policy=pb.POLICY_UNSPECIFIED, latched=False, name=None):
        self.url = url
        self.channel = channel
        self.epoch = epoch or new_epoch()
        self.policy = policy
        self.latched = latched
        self.name = name or f"sensor {channel}"
        self.peer_key = os.urandom(16)
        self.session = None
        self.next_sequence = 1
        self.acknowledged = 0
        self.window = 0
        self._boot_id = 0
        self.sent = 0                             # frame messages, those sent again included
        self.rejects = []                         # final ones
        self.retries = 0                          # Rejects with retry
        self.digests = {}                         # sequence -> sha256, of every frame made
        self._kept = collections.OrderedDict()    # sequence -> frame, not acknowledged
        self._under_way = collections.OrderedDict()  # sequence -> bytes, sent in this session
        self._changed = asyncio.Condition()
        self._reader = None
        self._lost = None                         # why the session is gone

    async def connect(self):
        self.session = await Session.open(self.url, self.name, self.peer_key)
        await self.session.send(advertise=pb.Advertise(
            channel=1, name=self.channel, epoch=self.epoch, policy=self.policy, latched=self.latched))
        while True:
            message = await self.session.receive()
            body = message.WhichOneof("body")
            if body == "reject":
                await self.session.close()
                raise Refused(message.reject)
            if body == "advertised":
                break
        advertised = message.advertised
        if advertised.epoch != self.epoch or advertised.channel != 1:
            raise ProtocolError("Advertised answers another Advertise")
        if advertised.last_sequence >= self.next_sequence:
            raise ProtocolError(f"acknowledged {advertised.last_sequence}, sent {self.next_sequence - 1}")
        self.window = advertised.window_bytes
        self._lost = None
        self._under_way.clear()
        if self.session.welcome.boot_id != self._boot_id:
            self.acknowledged = 0   # it was a promise of another boot's memory
        self._boot_id = self.session.welcome.boot_id
        self._acknowledge(advertised.last_sequence)
        self._reader = asyncio.create_task(self._read(self.session))
        for frame in list(self._kept.values()):
            await self._send_when_open(frame)
        return self

    async def publish(self, data=None, frame=None, timeout=20.0):
        """The next frame: opaque bytes, or a Frame whose channel and sequence are set here. Its sequence."""
        frame = frame if frame is not None else pb.Frame(opaque=pb.Opaque(data=data))
        frame.channel = 1
        frame.sequence = self.next_sequence
        if not frame.sent_ns:
            frame.sent_ns = time.time_ns()
        self.next_sequence += 1
        self.digests[frame.sequence] = sha256(payload_of(frame))
        self._kept[frame.sequence] = frame
        await asyncio.wait_for(self._send_when_open(frame), timeout * PATIENCE)
        return frame.sequence

    def skip(self, numbers):
        """Numbers that never become frames: the producer's own gap."""
        self.next_sequence += numbers

    async def flush(self, timeout=20.0):
        """Until everything is acknowledged."""
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(lambda: not self._kept or self._lost), timeout * PATIENCE)
        if self._lost:
            raise self._lost

    async def goodbye(self):
        await self.session.send(goodbye=pb.Goodbye(reason="done"))
        await self.close()

    async def close(self):
        await self.session.close()
        await self._stop_reader()

    async def break_off(self):
        """As if the process were killed; connect() comes back."""
        self.session.abort()
        await self._stop_reader()

    async def _stop_reader(self):
        await stop_task(self._reader)
        self._reader = None

    def _room_for(self, data_bytes):
        unacknowledged = sum(self._under_way.values())
        return unacknowledged + data_bytes <= self.window or (unacknowledged == 0 and self.window > 0)

    async def _send_when_open(self, frame):
        size = len(payload_of(frame))
        async with self._changed:
            await self._changed.wait_for(lambda: self._lost or self._room_for(size))
            if self._lost:
                raise self._lost
            if frame.sequence not in self._kept:
                return  # acknowledged meanwhile
            self._under_way[frame.sequence] = size
        self.sent += 1
        await self.session.send_frame(frame)

    def _acknowledge(self, sequence):
        if sequence < self.acknowledged:
            raise ProtocolError(f"Ack goes back from {self.acknowledged} to {sequence}")
        self.acknowledged = sequence
        for numbers in (self._kept, self._under_way):
            while numbers and next(iter(numbers)) <= sequence:
                numbers.popitem(last=False)

    async def _read(self, session):
        try:
            while True:
                message = await session.receive(3600)
                body = message.WhichOneof("body")
                async with self._changed:
                    if body == "ack":
                        if message.ack.sequence >= self.next_sequence:
                            raise ProtocolError(f"Ack of {message.ack.sequence}, sent {self.next_sequence - 1}")
                        self._acknowledge(message.ack.sequence)
                        self.window = message.ack.window_bytes
                    elif body == "reject" and message.reject.retry:
                        self.retries += 1
                        self._under_way = collections.OrderedDict(
                            (number, size) for number, size in self._under_way.items()
                            if number < message.reject.sequence)
                        again = [f for number, f in self._kept.items() if number >= message.reject.sequence]
                        asyncio.create_task(self._send_again(again))
                    elif body == "reject":
                        self.rejects.append(message.reject)
                    self._changed.notify_all()
        except (lines.Closed, ProtocolError) as error:
            async with self._changed:
                self._lost = error
                self._changed.notify_all()

    async def _send_again(self, frames):
        for frame in frames:
            await self._send_when_open(frame)


# ---- consuming


class Ledger:
    """What one subscription was told of one channel, in order. Every number between the first and the last is
    a frame that came or lies in exactly one Gap; the first that is not raises."""

    def __init__(self, name, skips=False):
        self.name = name
        self.skips = skips          # max_hz was asked: numbers may be missing without a word
        self.frames = 0
        self.lost = 0
        self.gaps = collections.Counter()        # reason -> frames lost
        self.explained = collections.Counter()   # reason -> numbers that never were promised frames
        self.digests = {}                        # (epoch, sequence) -> sha256
        self.first = {}                          # epoch -> first number told of
        self.epoch = 0
        self.next = None                         # the number that is due in this epoch

    def add_frame(self, epoch, sequence, digest):
        self._turn_to(epoch)
        if self.next is not None and (sequence < self.next or (sequence > self.next and not self.skips)):
            raise ProtocolError(f"{self.name}: frame {sequence} came, {self.next} was due")
        self.first.setdefault(epoch, sequence)
        self.next = sequence + 1
        self.frames += 1
        self.digests[epoch, sequence] = digest

    def add_gap(self, epoch, first, last, reason, frames):
        if reason == "EPOCH":
            if (first, last, frames) != (0, 0, 0):
                raise ProtocolError(f"{self.name}: Gap EPOCH with numbers")
            return
        self._turn_to(epoch)
        if first > last or frames > last - first + 1:
            raise ProtocolError(f"{self.name}: Gap {reason} {first}..{last} of {frames} frames")
        if self.next is not None and (first < self.next or (first > self.next and not self.skips)):
            raise ProtocolError(f"{self.name}: Gap {reason} begins at {first}, {self.next} was due")
        if reason in ("SOURCE", "EPOCH", "REJECTED", "RESTART"):
            if frames:
                raise ProtocolError(f"{self.name}: Gap {reason} counts {frames} frames")
            self.explained[reason] += last - first + 1
        else:
            self.gaps[reason] += frames
            self.lost += frames
        self.first.setdefault(epoch, first)
        self.next = last + 1

    def _turn_to(self, epoch):
        if epoch != self.epoch:
            if epoch in self.first:
                raise ProtocolError(f"{self.name}: epoch {epoch} comes again")
            self.epoch = epoch
            self.next = None

    def last(self):
        return self.next - 1 if self.next is not None else 0

    def covers(self, epoch, first, last):
        return self.epoch == epoch and self.first.get(epoch) == first and self.last() == last


class Consumer:
    def __init__(self, url, pattern, name="consumer", max_message_bytes=0, receive_buffer=None, **subscribe):
        """subscribe: the members of Subscribe beside id and channel (history, credit, reliable, …)."""
        self.url = url
        self.pattern = pattern
        self.name = name
        self.max_message_bytes = max_message_bytes
        self.receive_buffer = receive_buffer
        self.subscribe = subscribe
        self.answer_credit = True
        self.ledgers = {}             # channel name -> Ledger, over all sessions of this consumer
        self.session = None
        self.session_books = None     # (frames, lost) since the session began
        self.state = None             # the newest SubscriptionState
        self.ended = None             # the one with `ended`
        self.statuses = []
        self.rejects = []
        self.ages_s = []              # of each frame: now - received_ns
        self.kept_frames = None       # a list: whole frames are kept there
        self.digest = lambda frame: sha256(payload_of(frame))   # what the ledger keeps of a frame
        self.closed = None            # (code, reason) once the bridge has closed
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._changed = asyncio.Condition()
        self._reader = None
        self._life = None             # signs of life while it does not read
        self.failure = None

    async def connect(self, resume=False):
        """resume: goes on after the last numbers it had (HISTORY_FROM)."""
        self.session = await Session.open(
            self.url, self.name, max_message_bytes=self.max_message_bytes, receive_buffer=self.receive_buffer)
        wanted = pb.Subscribe(id=1, channel=self.pattern, **self.subscribe)
        if resume and self.ledgers:
            wanted.history = pb.HISTORY_FROM
            for name, ledger in self.ledgers.items():
                getattr(wanted, "from").add(channel=name, epoch=ledger.epoch, sequence=ledger.last())
        self.session_books = collections.Counter()
        self.ended = self.closed = self.failure = None
        self._may_read.set()
        await self.session.send(subscribe=wanted)
        self._reader = asyncio.create_task(self._read(self.session))
        return self

    def stall(self):
        """Stops reading; signs of life go on, as from a program that is busy and not gone."""
        self._may_read.clear()
        self._life = asyncio.create_task(self._show_life(self.session))

    def go_on(self):
        self._may_read.set()
        if self._life:
            self._life.cancel()
            self._life = None

    async def until(self, condition, timeout=20.0, what="what was waited for"):
        def reached():
            return condition() or self.failure or self.closed
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(reached), timeout * PATIENCE)
            except asyncio.TimeoutError:
                raise AssertionError(f"{self.name}: no {what} within {timeout * PATIENCE} s") from None
        if self.failure:
            raise self.failure
        if not condition():
            raise AssertionError(f"{self.name}: closed with {self.closed} before {what}")

    async def until_sequence(self, channel, sequence, timeout=20.0):
        await self.until(lambda: channel in self.ledgers and self.ledgers[channel].last() >= sequence,
                         timeout, f"number {sequence} of {channel}")

    async def unsubscribe(self, timeout=10.0):
        """The final counters."""
        await self.session.send(unsubscribe=pb.Unsubscribe(id=1))
        await self.until(lambda: self.ended, timeout, "last SubscriptionState")
        return self.ended.counters

    async def close(self):
        self.go_on()
        await self.session.close()
        await self._stop_reader()

    async def break_off(self):
        self.session.abort()
        self.go_on()
        await self._stop_reader()

    async def _stop_reader(self):
        await stop_task(self._reader)
        self._reader = None

    def ledger(self, channel):
        name = self.session.name_of(channel)
        skips = bool(self.subscribe.get("quality") and self.subscribe["quality"].max_hz)
        return self.ledgers.setdefault(name, Ledger(f"{self.name}, {name}", skips))

    async def _show_life(self, session):
        while True:
            await session.ping_transport()
            await asyncio.sleep(2)

    async def _read(self, session):
        try:
            while True:
                await self._may_read.wait()
                message = await session.receive(3600)
                async with self._changed:
                    self._take(session, message)
                    self._changed.notify_all()
                if message.WhichOneof("body") == "frame" and self.subscribe.get("credit") and self.answer_credit:
                    await session.send(credit=pb.Credit(subscription=1, channel=message.frame.channel, frames=1))
        except lines.Closed as closed:
            async with self._changed:
                self.closed = (closed.code, closed.reason)
                self._changed.notify_all()
        except Exception as error:  # pylint: disable=broad-except
            async with self._changed:
                self.failure = error
                self._changed.notify_all()

    def _take(self, session, message):
        body = message.WhichOneof("body")
        if self.ended is not None and body in ("frame", "gap"):
            raise ProtocolError(f"{body} after the last SubscriptionState")
        if body == "frame":
            frame = message.frame
            if frame.subscription != 1:
                raise ProtocolError(f"frame of subscription {frame.subscription}")
            self.ledger(frame.channel).add_frame(frame.epoch, frame.sequence, self.digest(frame))
            self.ages_s.append((time.time_ns() - frame.received_ns) / 1e9)
            self.session_books["frames"] += 1
            if self.kept_frames is not None:
                self.kept_frames.append(frame)
        elif body == "gap":
            gap = message.gap
            reason = pb.GapReason.Name(gap.reason).removeprefix("GAP_")
            self.ledger(gap.channel).add_gap(gap.epoch, gap.first, gap.last, reason, gap.frames)
            self.session_books["lost"] += gap.frames
        elif body == "subscription_state":
            self.state = message.subscription_state
            if self.state.ended:
                self.ended = self.state
        elif body == "status":
            self.statuses.append(message.status)
        elif body == "reject":
            self.rejects.append(message.reject)


# ---- bytes, for peers that break the rules


def client_frame(payload, opcode=2, fin=True, rsv=0, masked=True, announced=None):
    """The bytes of one WebSocket frame. announced: the length in its header, where it shall be another."""
    length = len(payload) if announced is None else announced
    head = bytearray([(0x80 if fin else 0) | rsv << 4 | opcode])
    mask_bit = 0x80 if masked else 0
    if length < 126:
        head.append(mask_bit | length)
    elif length < 1 << 16:
        head.append(mask_bit | 126)
        head += struct.pack("!H", length)
    else:
        head.append(mask_bit | 127)
        head += struct.pack("!Q", length)
    if not masked:
        return bytes(head) + payload
    key = random.randbytes(4)
    repeated = (key * (len(payload) // 4 + 1))[:len(payload)]
    hidden = (int.from_bytes(payload, "little") ^ int.from_bytes(repeated, "little")).to_bytes(len(payload), "little")
    return bytes(head) + key + hidden


class RawSocket:
    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, url, receive_buffer=None):
        host, port = address_of(url)
        plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.setblocking(False)
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(plain, (host, port)), CONNECT_TIMEOUT_S)
        # The StreamReader stops reading the socket at twice its limit: little hides in this process.
        reader, writer = await asyncio.open_connection(sock=plain, limit=16 * 1024)
        return cls(reader, writer)

    @classmethod
    async def session(cls, url, receive_buffer=None, **hello):
        """Upgraded, and Hello said; the answers are not read."""
        raw = await cls.open(url, receive_buffer)
        status, _ = await raw.upgrade()
        assert status == 101, status
        raw.send(client_frame(pb.ClientMessage(hello=pb.Hello(name="raw", **hello)).SerializeToString()))
        return raw

    @staticmethod
    def request(path="/v1/connect", subprotocols=(SUBPROTOCOL,), **extra):
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode(), "Sec-WebSocket-Version: 13"]
        if subprotocols:
            lines.append("Sec-WebSocket-Protocol: " + ", ".join(subprotocols))
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in extra.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def send(self, data):
        if not self.writer.is_closing():
            self.writer.write(data)

    async def flush(self, timeout=10.0):
        await asyncio.wait_for(self.writer.drain(), timeout * PATIENCE)

    async def upgrade(self, timeout=10.0, **request):
        self.send(self.request(**request))
        return await self.read_response(timeout)

    async def read_response(self, timeout=10.0):
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), timeout * PATIENCE)
        lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        return int(lines[0].split(" ")[1]), headers

    async def read_frame(self, timeout=10.0):
        """fin, opcode, payload of one WebSocket frame of the bridge."""
        return await asyncio.wait_for(self._read_frame(), timeout * PATIENCE)

    async def _read_frame(self):
        first, second = await self.reader.readexactly(2)
        if first & 0x70:
            raise ProtocolError("reserved bits are set")
        if second & 0x80:
            raise ProtocolError("a masked frame from the bridge")
        length = second
        if length == 126:
            (length,) = struct.unpack("!H", await self.reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
        return bool(first & 0x80), first & 0x0F, await self.reader.readexactly(length)

    async def read_close(self, timeout=10.0):
        """Close code and reason; pings are answered, what comes before is dropped. 1006: none came."""
        deadline = time.monotonic() + timeout * PATIENCE
        try:
            while True:
                _, opcode, payload = await self.read_frame(max(0.0, deadline - time.monotonic()) / PATIENCE)
                if opcode == 9:
                    self.send(client_frame(payload, opcode=10))
                if opcode == 8:
                    return struct.unpack("!H", payload[:2])[0] if payload else 1005, payload[2:].decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return 1006, ""

    async def read_end(self, timeout=10.0):
        """Until the bridge has closed the connection; the bytes that came before."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), timeout * PATIENCE)
        except ConnectionError:
            return b""

    def close(self):
        self.writer.close()

    def reset(self):
        """RST instead of FIN, as the kernel does for some who are killed."""
        plain = self.writer.get_extra_info("socket")
        if plain is not None:
            try:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass
        self.writer.transport.abort()
