#!/usr/bin/env python3
"""RFC 6455 and protocol.md §1-2 over real sockets, byte for byte: peers.md §5.2, each test named after what it
shows. Raw sockets where the rule is about bytes; the tables of the codec itself are in test/transport."""

import asyncio
import struct
import time

import harness
import pytest
from bridge_client import Consumer, RawSocket, Sensor, Session, client_frame, payload_of
from harness import Bridge, MiB, assert_nobody_left, at_rest, until
from programs import Send

import bridge_pb2 as pb


@pytest.fixture(scope="module")
def bridge():
    """For tests that only look at one connection."""
    with Bridge() as running:
        yield running
        assert_nobody_left(running)


# ---- the HTTP upgrade


@pytest.mark.parametrize("request_, status", [
    ({}, 101),
    ({"subprotocols": ()}, 400),
    ({"subprotocols": ("chat",)}, 400),
    ({"subprotocols": ("chat", "simbridge.v1")}, 101),
    ({"path": "/v1/elsewhere"}, 404),
    ({"path": "/"}, 404),
])
def test_the_upgrade_is_answered_as_protocol_1_says(bridge, request_, status):
    async def play():
        raw = await RawSocket.open(bridge.url)
        answer, headers = await raw.upgrade(**request_)
        assert answer == status, headers
        if status == 101:
            assert headers["sec-websocket-protocol"] == "simbridge.v1"
        else:
            raw.send(b"")
            assert len(await raw.read_end()) > 10   # a sentence
        raw.reset()
    harness.run(play())


def test_permessage_deflate_is_not_negotiated(bridge):
    async def play():
        raw = await RawSocket.open(bridge.url)
        status, headers = await raw.upgrade(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits")
        assert status == 101 and "sec-websocket-extensions" not in headers, headers
        raw.reset()
    harness.run(play())


# ---- close codes


def close_with(code):
    return client_frame(struct.pack("!H", code), opcode=8)


@pytest.mark.parametrize("sent, code", [
    # Text where binary is due, judged on its header: whether it is UTF-8 matters only where text is allowed
    # (test/transport: 1007).
    (client_frame(b"good text", opcode=1), 1003),
    (client_frame(b"\xff\xfe text", opcode=1), 1003),
    (client_frame(b"unmasked", masked=False), 1002),
    (client_frame(b"reserved bit", rsv=4), 1002),
    (client_frame(b"reserved opcode", opcode=3), 1002),
    (client_frame(b"reserved control opcode", opcode=0xB), 1002),
    (client_frame(b"goes on without a start", opcode=0), 1002),
    (client_frame(b"", opcode=9, fin=False), 1002),           # a ping in fragments
    (client_frame(bytes(126), opcode=9), 1002),               # a ping too long
    (client_frame(b"\x03", opcode=8), 1002),                  # half a close code
    (client_frame(b"\x03\xe8\xff", opcode=8), 1007),          # a reason that is no UTF-8
    (close_with(1005), 1002),
    (close_with(1006), 1002),
    (close_with(999), 1002),
    (close_with(2999), 1002),
    (close_with(1000), 1000),
    (close_with(3000), 3000),
    (client_frame(b"", opcode=8), 1005),                      # no code: none comes back
], ids=lambda value: value if isinstance(value, int) else value[:14].hex())
def test_each_violation_has_its_close_code(bridge, sent, code):
    async def play():
        raw = await RawSocket.session(bridge.url)
        raw.send(sent)
        got, _ = await raw.read_close()
        assert got == code
        raw.close()
    harness.run(play())


def test_anything_but_hello_first_is_a_reject_and_1002(bridge):
    async def play():
        session = await Session.open(bridge.url, hello=False)
        await session.send(ping=pb.Ping(cookie=1))
        reject = (await session.receive()).reject
        assert reject.code == pb.REJECT_MALFORMED
        assert (await session.wait_closed())[0] == 1002
    harness.run(play())


def test_a_message_over_the_limit_is_judged_on_its_header(bridge):
    """24: 1009 before a byte of it is there, with limit and size in the reason."""
    async def play():
        before = bridge.rss()
        session = await Session.open(bridge.url)
        limit = session.welcome.max_message_bytes
        await session.close()
        raw = await RawSocket.session(bridge.url)
        size = limit + 1
        raw.send(client_frame(b"", announced=size))   # the header alone
        code, reason = await raw.read_close()
        assert code == 1009 and str(limit) in reason and str(size) in reason, (code, reason)
        if not harness.SANITIZED:
            assert bridge.rss() - before < 8 * MiB
        raw.close()
    harness.run(play())


def test_fragments_count_together_against_the_limit():
    """24: the sum over fragments."""
    async def play(bridge):
        raw = await RawSocket.session(bridge.url)
        piece = bytes(30_000)
        raw.send(client_frame(piece, fin=False) + client_frame(piece, opcode=0, fin=False))
        raw.send(client_frame(b"", opcode=0, announced=30_000))
        code, reason = await raw.read_close()
        assert code == 1009 and "65536" in reason, (code, reason)
        raw.close()

    with Bridge({"session.max_message_bytes": "64KiB"}) as bridge:
        harness.run(play(bridge))


def test_a_sender_that_is_told_too_large_does_not_try_the_same_frame_for_ever():
    """33: Reject{TOO_LARGE} with the reason; `simbridge send` ends with 4."""
    with Bridge({"frame.budget_bytes": 8 * MiB}) as bridge:
        sender = Send(bridge.url, "huge/state", options=["--telemetry", 4 * MiB], rate=100, count=1)
        assert sender.finish(timeout=30, ask=False) == 4, sender.words()
        channel, = bridge.api("channels")
        assert (channel["received"], channel["rejected"]) == (1, 1), channel
        assert sender.summary["rejected"] == 1
        assert "TOO_LARGE" in sender.words()


# ---- slow, silent and vanished peers


async def big_frame_on_the_way(bridge, data_bytes, **session):
    """A raw consumer to whom a large frame is being written."""
    sensor = await Sensor(bridge.url, "big/points").connect()
    raw = await RawSocket.session(bridge.url, receive_buffer=32 * 1024, **session)
    raw.send(client_frame(pb.ClientMessage(subscribe=pb.Subscribe(id=1, channel="big/points")).SerializeToString()))
    await until(lambda: bridge.api("subscriptions"), 10, "the subscription")
    await sensor.publish(bytes(data_bytes))
    await until(lambda: bridge.metric("simbridge_frame_lent_bytes") > 0, 10, "the frame is being written")
    return sensor, raw


def test_large_frames_leave_in_fragments_and_a_pong_comes_in_between():
    """26, 30: the pong does not wait for the frame, nor is it dropped."""
    async def play(bridge):
        size = 16_000_000
        sensor, raw = await big_frame_on_the_way(bridge, size)
        raw.send(client_frame(b"are you there", opcode=9))
        await until(lambda: bridge.metric('simbridge_transport_websocket_pings_total{direction="in"}') == 1, 10, "the ping")
        before_pong = after_pong = 0
        largest = 0
        ponged = message_done = False
        while not (ponged and message_done):
            fin, opcode, payload = await raw.read_frame(20)
            if opcode == 10:
                assert payload == b"are you there"
                ponged = True
            elif opcode in (0, 2):
                if before_pong + after_pong + len(payload) > 300_000:   # control messages are small
                    largest = max(largest, len(payload))
                before_pong += 0 if ponged else len(payload)
                after_pong += len(payload) if ponged else 0
                message_done = message_done or (opcode == 0 and fin)
        assert before_pong + after_pong >= size
        assert after_pong > size / 4, f"the pong came after {before_pong} bytes"
        assert largest <= 256 * 1024
        harness.figure("bytes of a 16 MB frame before the pong", before_pong)
        raw.reset()
        await sensor.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_a_pong_message_overtakes_the_frames_that_wait():
    """30, protocol.md §2.4: Ping is answered ahead of waiting frames."""
    async def play(bridge):
        consumer = await Session.open(bridge.url, receive_buffer=32 * 1024)
        sensor = await Sensor(bridge.url, "state").connect()
        await consumer.send(subscribe=pb.Subscribe(id=1, channel="state", queue_frames=1000, history=pb.HISTORY_ALL_KEPT))
        await until(lambda: bridge.api("subscriptions"), 10, "the subscription")
        for _ in range(400):
            await sensor.publish(bytes(60_000))   # 24 MB: more than all buffers between
        arrived = bridge.metric('simbridge_transport_websocket_messages_total{direction="in"}')
        await consumer.send(ping=pb.Ping(cookie=5))
        await until(lambda: bridge.metric('simbridge_transport_websocket_messages_total{direction="in"}') == arrived + 1,
                    10, "the ping")
        before = 0
        while (message := await consumer.receive()).WhichOneof("body") != "pong":
            before += message.WhichOneof("body") == "frame"
        assert message.pong.cookie == 5
        assert before < 300, f"{before} of 400 frames came first"
        harness.figure("60 kB frames of 400 before the pong", before)
        consumer.abort()
        await sensor.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_a_slow_reader_of_a_large_frame_is_alive_while_it_answers():
    """26, 27: longer than three ping intervals for one frame."""
    async def play(bridge):
        sensor, raw = await big_frame_on_the_way(bridge, 8_000_000)
        began = time.monotonic()
        got = 0
        while got < 8_000_000:
            _, opcode, payload = await raw.read_frame(20)
            if opcode == 9:
                raw.send(client_frame(payload, opcode=10))
            elif opcode in (0, 2):
                got += len(payload)
                await asyncio.sleep(0.12)   # a slow line
            else:
                raise AssertionError(f"opcode {opcode}: {payload!r} after {got} bytes")
        assert time.monotonic() - began > 3.2, "not slower than three intervals"
        assert len(bridge.api("sessions")) == 2
        raw.reset()
        await sensor.goodbye()

    with Bridge({"session.ping_interval_ms": "1s"}) as bridge:
        harness.run(play(bridge))


def test_a_peer_that_does_not_answer_pings_is_ended_and_its_memory_freed():
    """35: as after the loss of a node, without FIN or RST."""
    async def play(bridge):
        sensor, raw = await big_frame_on_the_way(bridge, 16_000_000)
        await until(lambda: bridge.metric('simbridge_session_closed_total{cause="dead"}') == 1, 15, "it is given up")
        await until(lambda: bridge.metric("simbridge_frame_lent_bytes") == 0, 10, "its frame comes back")
        assert [row["name"] for row in bridge.api("sessions")] == [sensor.name]
        raw.reset()
        await at_rest(bridge)
        await sensor.goodbye()

    with Bridge({"session.ping_interval_ms": "1s"}) as bridge:
        harness.run(play(bridge))


def test_a_silent_peer_is_pinged_well_within_what_proxies_wait():
    """34: by default every 10 s, below the 60 s of proxies; here every second."""
    async def play(bridge):
        raw = await RawSocket.session(bridge.url)
        pings = 0
        while pings < 3:
            _, opcode, payload = await raw.read_frame()
            if opcode == 9:
                pings += 1
                raw.send(client_frame(payload, opcode=10))
        raw.reset()

    with Bridge({"session.ping_interval_ms": "1s"}) as bridge:
        harness.run(play(bridge))

    async def default(bridge):
        session = await Session.open(bridge.url)
        assert session.welcome.ping_interval_ms <= 20_000
        await session.close()

    with Bridge() as bridge:
        harness.run(default(bridge))


def test_a_close_does_not_wait_for_a_peer_that_does_not_read():
    """28: the closing handshake has a deadline, then RST; 31: nothing is sent after the close."""
    async def play(bridge):
        sensor, raw = await big_frame_on_the_way(bridge, 16_000_000)
        raw.send(client_frame(b"text", opcode=1))   # ends the session with 1003, amid the frame
        await until(lambda: bridge.metric("simbridge_transport_websocket_connections") == 1, 20, "the connection is gone")
        await until(lambda: bridge.metric("simbridge_frame_lent_bytes") == 0, 10, "its frame comes back")
        raw.reset()
        await at_rest(bridge)
        await sensor.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_no_partial_message_follows_and_nothing_comes_after_the_close():
    """31: whoever reads to the end finds whole frames, then the close, then the end."""
    async def play(bridge):
        sensor, raw = await big_frame_on_the_way(bridge, 3_000_000)
        raw.send(client_frame(b"text", opcode=1))
        messages, open_message = 0, False
        while True:
            fin, opcode, payload = await raw.read_frame(20)
            if opcode == 8:
                assert struct.unpack("!H", payload[:2])[0] == 1003
                break
            if opcode in (0, 2):
                open_message = not fin
                messages += fin
        del open_message  # a message may be cut by the close (RFC 6455 §5.4), but never goes on after it
        assert await raw.read_end() == b""
        raw.close()
        await sensor.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_after_a_pause_of_the_line_old_frames_are_a_gap_and_not_delivered():
    """37: newest wins, max_age_ms, small buffers in the kernel."""
    async def play(bridge):
        consumer = Consumer(bridge.url, "state", receive_buffer=32 * 1024, max_age_ms=500, queue_frames=1000,
                            history=pb.HISTORY_ALL_KEPT)
        consumer.kept_frames = []
        sensor = await Sensor(bridge.url, "state").connect()
        await consumer.connect()
        await sensor.publish(bytes(50_000))
        await consumer.until_sequence("state", 1)
        consumer.stall()
        end = time.monotonic() + 2.5
        while time.monotonic() < end or sensor.next_sequence < 200:
            await sensor.publish(bytes(50_000))
            await asyncio.sleep(0.01)
        await sensor.flush()
        last = sensor.next_sequence - 1
        consumer.ages_s.clear()
        consumer.go_on()
        await consumer.until_sequence("state", last)
        ledger = consumer.ledgers["state"]
        assert ledger.covers(sensor.epoch, 1, last) and ledger.gaps["AGE"] > 0, vars(ledger)
        # None left the bridge at more than max_age_ms, but for the moment between look and stamp.
        assert all(frame.forwarded_ns - frame.received_ns < 2_000_000_000 for frame in consumer.kept_frames)
        # What the kernels' buffers held when it stopped cannot be called back: it is little.
        harness.figure("old frames of 50 kB that came after the pause", sum(age > 1.0 for age in consumer.ages_s))
        await at_rest(bridge)
        await consumer.close()
        await sensor.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))
        assert_nobody_left(bridge)


# ---- parts


def test_frames_above_the_peers_limit_travel_in_parts_both_ways_and_arrive_the_same():
    async def play(bridge):
        consumer = Consumer(bridge.url, "parts", max_message_bytes=40_000, queue_frames=100)
        consumer.kept_frames = []
        sensor = await Sensor(bridge.url, "parts").connect()
        await consumer.connect()
        await until(lambda: bridge.api("subscriptions"), 10, "the subscription")
        data = bytes(range(256)) * 2000   # 512 000 bytes; the bridge takes 65 536 in one message
        await sensor.publish(data)
        await sensor.publish(b"small")
        await consumer.until_sequence("parts", 2)
        assert [payload_of(frame) for frame in consumer.kept_frames] == [data, b"small"]
        await consumer.close()
        await sensor.goodbye()

    with Bridge({"session.max_message_bytes": "64KiB"}) as bridge:
        harness.run(play(bridge))


def test_a_transfer_with_a_hole_is_rejected_and_the_session_goes_on(bridge):
    async def play():
        session = await Session.open(bridge.url)
        await session.send(advertise=pb.Advertise(channel=1, name="holes", epoch=3))
        await session.wait_for("advertised")
        encoded = pb.Frame(channel=1, sequence=1, opaque=pb.Opaque(data=bytes(1000))).SerializeToString()
        head = len(encoded) - 1000
        pieces = [encoded[:head], encoded[head:head + 500], encoded[head + 500:]]
        for index in (0, 2):   # 1 is missing
            await session.send(part=pb.FramePart(transfer=1, index=index, count=3, total_bytes=len(encoded),
                                                 channel=1, sequence=1, data=pieces[index]))
        reject = await session.wait_for("reject")
        assert reject.code == pb.REJECT_PART
        for index in range(3):
            await session.send(part=pb.FramePart(transfer=2, index=index, count=3, total_bytes=len(encoded),
                                                 channel=1, sequence=1, data=pieces[index]))
        assert (await session.wait_for("ack")).sequence == 1
        await session.close()
    harness.run(play())


if __name__ == "__main__":
    harness.main(__file__)
