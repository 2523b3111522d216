#!/usr/bin/env python3
"""Peers and operators at their worst: the bridge stays up, memory and descriptors come back, figures add up."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import harness
import pytest
from bridge_client import Consumer, RawSocket, Refused, Sensor, Session, client_frame, new_epoch
from harness import Bridge, MiB, assert_at_rest, assert_nobody_left, at_rest, until, wait_until
from programs import Send, Watch
from scenarios import Others, play_stalled_consumer

import bridge_pb2 as pb


def refused_handshakes(bridge, cause):
    return bridge.metric(f'simbridge_transport_websocket_handshakes_refused_total{{cause="{cause}"}}')


def closed_sessions(bridge, cause):
    return bridge.metric(f'simbridge_session_closed_total{{cause="{cause}"}}')


def test_slow_handshakes_are_ended_in_time_and_keep_nobody_out():
    """Slow loris: a request that comes a byte at a time."""
    async def play(bridge):
        before = bridge.descriptors()
        slow = [await RawSocket.open(bridge.websocket) for _ in range(300)]
        request = RawSocket.request()

        async def drip(raw, first):
            raw.send(request[:first])
            for at in range(first, len(request)):
                raw.send(request[at:at + 1])
                await asyncio.sleep(0.2)

        async with harness.background(*(drip(raw, index % 20) for index, raw in enumerate(slow))):
            async with Others(bridge) as others:
                await until(lambda: refused_handshakes(bridge, "timeout") >= len(slow), 20, "all slow ones are ended")
                await others.see_frames(10)
        for raw in slow:
            raw.close()
        await until(lambda: bridge.descriptors() <= before, 10, "descriptors come back")

    with Bridge({"websocket.handshake_timeout_ms": "3s"}) as bridge:
        harness.run(play(bridge))
        assert_at_rest(bridge)
        assert_nobody_left(bridge)


def test_a_peer_that_never_says_hello_is_closed_with_1008():
    async def play(bridge):
        silent = [await RawSocket.open(bridge.websocket) for _ in range(50)]
        for raw in silent:
            assert (await raw.upgrade())[0] == 101
        async with Others(bridge):
            for raw in silent:
                code, reason = await raw.read_close()
                assert code == 1008 and "Hello" in reason, (code, reason)
        await until(lambda: closed_sessions(bridge, "hello_timeout") == len(silent), 10, "each is counted")

    with Bridge({"session.hello_timeout_ms": "3s"}) as bridge:
        harness.run(play(bridge))
        assert_nobody_left(bridge)


def test_ten_thousand_peers_come_and_go_and_leave_nothing_behind():
    harness.seed()
    hello = client_frame(pb.ClientMessage(hello=pb.Hello(name="visitor")).SerializeToString())

    async def visit(bridge):
        kind = random.randrange(4)
        raw = await RawSocket.open(bridge.websocket)
        if kind == 1:    # goes in the middle of its request
            raw.send(RawSocket.request()[:random.randrange(150)])
        elif kind >= 2:  # a session, as far as its Welcome
            raw.send(RawSocket.request() + hello)
            status, _ = await raw.read_response()
            assert status == 101
            await raw.read_frame()
        if kind == 2:
            raw.send(client_frame(b"\x03\xe8", opcode=8))
            await raw.read_close()
        if kind == 3 or random.random() < 0.5:
            raw.reset()
        else:
            raw.close()

    async def crowd(bridge, visits):
        left = iter(range(visits))

        async def visitor():
            for _ in left:
                await visit(bridge)
        await asyncio.gather(*(visitor() for _ in range(50)))

    with Bridge() as bridge:
        descriptors = bridge.descriptors()
        harness.run(crowd(bridge, 1000))  # allocators and pools have their size then
        assert_nobody_left(bridge)
        before = bridge.rss()
        harness.run(crowd(bridge, 9000))
        assert_nobody_left(bridge)
        wait_until(lambda: bridge.descriptors() <= descriptors, 10, "descriptors come back")
        assert bridge.metric("simbridge_transport_websocket_accepted_total") == 10_000
        growth = bridge.rss() - before
        harness.figure("growth over 9000 peers", growth // 1024, "KiB")
        if not harness.SANITIZED:
            assert growth < 8 * MiB, growth
        harness.run(use(bridge))


async def use(bridge):
    """It still does what it is for."""
    async with Others(bridge) as others:
        await others.see_frames(5)


def test_a_consumer_that_stops_reading_costs_the_others_nothing():
    with Bridge({"frame.budget_bytes": 128 * MiB}) as bridge:
        harness.run(play_stalled_consumer(bridge, 5))
        assert_nobody_left(bridge)


# ---- garbage


def test_random_bytes_instead_of_a_request_are_refused_and_the_rest_goes_on():
    harness.seed()

    async def play(bridge):
        async with Others(bridge) as others:
            for round_ in range(200):
                raw = await RawSocket.open(bridge.websocket)
                raw.send(random.randbytes(random.randrange(1, 20_000)))
                if round_ % 2:
                    raw.send(b"\r\n\r\n")
                    await raw.read_end()  # an answer, or the end, but never silence
                raw.reset()
            await others.see_frames(5)

    with Bridge() as bridge:
        harness.run(play(bridge))
        assert_at_rest(bridge)
        assert_nobody_left(bridge)


def test_random_bytes_on_an_open_session_end_that_session_only():
    harness.seed()

    async def play(bridge):
        async with Others(bridge) as others:
            for _ in range(100):
                raw = await RawSocket.session(bridge.websocket)
                raw.send(random.randbytes(random.randrange(10, 5_000)))
                raw.send(client_frame(b"", opcode=8))
                await raw.read_close()
                raw.close()
            await others.see_frames(5)

    with Bridge() as bridge:
        harness.run(play(bridge))
        assert_at_rest(bridge)
        assert_nobody_left(bridge)


def test_sixteen_messages_in_a_row_that_do_not_parse_end_the_session_with_1007():
    async def play(bridge):
        session = await Session.open(bridge.url)
        for _ in range(15):
            await session.send_bytes(b"\xff\xff\xff")
            reject = await session.wait_for("reject")
            assert reject.code == pb.REJECT_MALFORMED
        await session.send(ping=pb.Ping(cookie=7))   # one that parses: the row begins anew
        assert (await session.wait_for("pong")).cookie == 7
        for _ in range(16):
            await session.send_bytes(b"\xff\xff\xff")
        code, _ = await session.wait_closed()
        assert code == 1007

    with Bridge() as bridge:
        harness.run(play(bridge))
        assert closed_sessions(bridge, "malformed") == 1
        assert_nobody_left(bridge)


def good_cloud(number):
    fields = [pb.Field(name=name, offset=4 * at, type=pb.TYPE_FLOAT32, count=1) for at, name in enumerate("xyz")]
    cloud = pb.PointCloud(height=1, width=200, fields=fields, point_step=12, row_step=2400, data=random.randbytes(2400))
    return pb.Frame(channel=1, sequence=number, stamp_ns=number, frame_id="lidar", cloud=cloud)


def test_a_producer_that_sends_garbage_is_told_and_every_frame_is_counted():
    """Frames that are almost right: bytes turned, cut off, put in, each in a message of its own."""
    harness.seed()

    async def play(bridge):
        consumer = await Consumer(bridge.url, "garbage/points", history=pb.HISTORY_ALL_KEPT, queue_frames=4000).connect()
        sent = 0
        number = 0
        async with Others(bridge):
            for life in range(1, 9):
                session = await Session.open(bridge.url, name="garbage", peer_key=b"g" * 16)
                await session.send(advertise=pb.Advertise(channel=1, name="garbage/points", epoch=77))
                number = (await session.wait_for("advertised")).last_sequence
                for _ in range(150):
                    number += 1
                    data = bytearray(pb.ClientMessage(frame=good_cloud(number)).SerializeToString())
                    if random.random() < 0.8:
                        for _ in range(random.randrange(1, 4)):
                            at = random.randrange(min(len(data), 120))   # the header, and a little of the data
                            how = random.randrange(3)
                            if how == 0:
                                data[at] = random.randrange(256)
                            elif how == 1:
                                del data[at]
                            else:
                                data.insert(at, random.randrange(256))
                    if random.random() < 0.05:
                        data = data[:random.randrange(len(data))]
                    sent += 1
                    try:
                        await session.send_bytes(bytes(data))
                    except Exception:  # pylint: disable=broad-except
                        break   # closed for 16 in a row, or a control message that ends it
                else:
                    # Whatever it became, it is an answer to it that the session still gives one.
                    try:
                        await session.send(ping=pb.Ping(cookie=life))
                        await session.wait_for("pong", where=lambda pong, life=life: pong.cookie == life)
                    except Exception:  # pylint: disable=broad-except
                        pass
                session.abort()
        await at_rest(bridge)
        channel = next(row for row in bridge.api("channels") if row["name"] == "garbage/points")
        assert 0 < channel["published"] and 0 < channel["received"] <= sent, channel
        print("garbage:", {key: value for key, value in bridge.metrics().items()
                           if key.startswith("simbridge_session_rejected") and value})
        await consumer.until(lambda: consumer.ledgers["garbage/points"].frames + consumer.ledgers["garbage/points"].lost
                             == channel["published"], 20, "every published frame or its Gap")
        await consumer.close()

    with Bridge() as bridge:
        harness.run(play(bridge))
        assert_nobody_left(bridge)


# ---- kill -9


def test_a_producer_killed_in_the_middle_of_a_frame_loses_nothing_that_was_whole():
    async def play(bridge):
        epoch = new_epoch()
        consumer = await Consumer(bridge.url, "half/points", history=pb.HISTORY_ALL_KEPT, queue_frames=100).connect()
        peer = harness.spawn([sys.executable, "-B", Path(__file__).with_name("mid_frame_peer.py"), bridge.websocket,
                              "half/points", epoch], stdout=subprocess.PIPE)
        async with Others(bridge):
            line = await asyncio.to_thread(peer.stdout.readline)
            assert line == b"half\n", line
            await consumer.until_sequence("half/points", 3)
            await until(lambda: bridge.metric("simbridge_frame_ingest_bytes") > 0, 10, "the half frame's memory is held")
            peer.kill()
            peer.wait()
            peer.stdout.close()
            await until(lambda: bridge.metric("simbridge_frame_ingest_bytes") == 0, 10, "its memory comes back")
        channel = next(row for row in bridge.api("channels") if row["name"] == "half/points")
        assert (channel["received"], channel["published"]) == (3, 3), channel

        again = Sensor(bridge.url, "half/points", epoch=epoch)
        again.next_sequence = 4      # as a producer that kept its state
        await again.connect()
        assert again.acknowledged == 3
        await again.publish(bytes(8_000_000))
        await again.flush()
        await consumer.until_sequence("half/points", 4)
        assert consumer.ledgers["half/points"].covers(epoch, 1, 4)
        await at_rest(bridge)
        await consumer.close()
        await again.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))
        assert_nobody_left(bridge)


def test_a_consumer_killed_in_the_middle_of_a_frame_gives_its_memory_back():
    async def play(bridge):
        sensor = await Sensor(bridge.url, "big/points").connect()
        watch = Watch(bridge.url, "big/points", "victim")
        async with Others(bridge):
            await until(lambda: len(bridge.api("subscriptions")) == 2, 15, "it has subscribed")
            await sensor.publish(bytes(20_000_000))
            await until(lambda: watch.reached("big/points", 1), 20, "its first frame")
            watch.process.send_signal(signal.SIGSTOP)   # does not read: the next frame stands half written
            await sensor.publish(bytes(20_000_000))
            await until(lambda: bridge.metric("simbridge_frame_lent_bytes") >= 20_000_000, 20, "a frame is lent to it")
            watch.kill()
            await until(lambda: bridge.metric("simbridge_frame_lent_bytes") == 0, 15, "the frame comes back")
        await at_rest(bridge)
        await sensor.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))
        assert_nobody_left(bridge)


def test_real_senders_killed_again_and_again_lose_and_double_nothing(tmp_path):
    """kill -9 at a random moment, ten times; the state file may be any age."""
    harness.seed()
    files = harness.recordings("velodyne/vlp16_scan0.pcd", "velodyne/vlp16_scan1.pcd")
    if files is None:
        pytest.skip("no recordings")
    with Bridge() as bridge:
        watch = Watch(bridge.url, "killed/points", "witness", options=["--queue-frames", 1000])
        wait_until(lambda: bridge.api("subscriptions") or bridge.api("sessions"), 15, "the witness")
        for _ in range(10):
            sensor = Send(bridge.url, "killed/points", files, rate=200, state=tmp_path / "state")
            time.sleep(random.uniform(0.05, 0.4))   # the moment is the point
            sensor.kill()
        sensor = Send(bridge.url, "killed/points", files, rate=200, state=tmp_path / "state", count=50)
        assert sensor.finish(ask=False) == 0, sensor.words()
        last = sensor.last_sequence("killed/points")
        wait_until(lambda: watch.reached("killed/points", last), 20, "the last frame")
        assert_at_rest(bridge)
        channel, = bridge.api("channels")
        assert channel["published"] == last and channel["rejected"] == 0, (channel, last)
        ledger = watch.ledgers["killed/points"]
        assert ledger.covers(ledger.epoch, 1, last) and not ledger.explained, vars(ledger)
        harness.figure("frames sent by killed senders and their heir", last)
        harness.figure("duplicates that were recognised", channel["duplicate"])
        assert watch.finish() == 0


# ---- signals to the bridge


async def wait_drained(session):
    """Drain has come; then the close."""
    await session.wait_for("drain", 20)
    return await session.wait_closed(30)


def test_sigterm_tells_everybody_closes_with_1001_and_ends_with_0():
    async def play(bridge):
        sensors = [await Sensor(bridge.url, f"s{number}/points").connect() for number in range(4)]
        consumers = [await Consumer(bridge.url, "*/points", history=pb.HISTORY_ALL_KEPT, queue_frames=1000).connect()
                     for _ in range(4)]
        idle = await Session.open(bridge.url)
        for sensor in sensors:
            for _ in range(20):
                await sensor.publish(bytes(50_000))
        stopping = asyncio.create_task(asyncio.to_thread(bridge.stop))
        assert (await wait_drained(idle))[0] == 1001
        assert idle.drain.retry_after_ms > 0
        for consumer in consumers:
            await consumer.until(lambda c=consumer: c.closed, 30, "the close")
            assert consumer.closed[0] == 1001, consumer.closed
        for sensor in sensors:
            await until(lambda s=sensor: s._lost is not None, 30, "the sensor's close")
            # What was acknowledged was delivered to each consumer, or told as lost.
            for consumer in consumers:
                ledger = consumer.ledgers[sensor.channel]
                assert ledger.covers(sensor.epoch, 1, ledger.last()) and ledger.last() >= sensor.acknowledged
                assert set(ledger.gaps) <= {"SHUTDOWN", "QUEUE"}, ledger.gaps
        assert await stopping == 0
        for sensor in sensors:
            await sensor.break_off()
        for consumer in consumers:
            await consumer.break_off()

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_while_it_drains_new_peers_get_503_with_retry_after():
    async def play(bridge):
        stalled = await Consumer(bridge.url, "big/points", receive_buffer=64 * 1024).connect()
        sensor = await Sensor(bridge.url, "big/points").connect()
        stalled.stall()
        for _ in range(4):
            await sensor.publish(bytes(8_000_000))
        bridge.process.send_signal(signal.SIGTERM)
        await until(lambda: not bridge.ready(), 10, "readiness is off")
        late = await RawSocket.open(bridge.websocket)
        status, headers = await late.upgrade()
        assert status == 503 and int(headers["retry-after"]) >= 1, (status, headers)
        late.close()
        assert bridge.get("/readyz")[1].strip() == "draining"
        assert bridge.get("/healthz")[0] == 200
        stalled.go_on()
        await stalled.until(lambda: stalled.closed, 30, "the close")
        assert stalled.closed[0] == 1001
        await sensor.break_off()

    with Bridge({"drain.deadline_ms": "40s"}) as bridge:
        harness.run(play(bridge))
        bridge.ended = True   # a second SIGTERM would be another test
        assert bridge.process.wait(90) == 0


def test_a_second_sigterm_ends_it_at_once_with_1():
    async def play(bridge):
        stalled = await Consumer(bridge.url, "big/points", receive_buffer=64 * 1024).connect()
        sensor = await Sensor(bridge.url, "big/points").connect()
        stalled.stall()
        for _ in range(4):
            await sensor.publish(bytes(8_000_000))
        bridge.process.send_signal(signal.SIGTERM)
        await until(lambda: not bridge.ready(), 10, "it drains")
        bridge.ended = True
        bridge.process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(bridge.process.wait, 30)   # far below the drain's deadline
        assert code == 1, code
        await stalled.break_off()
        await sensor.break_off()

    with Bridge({"drain.deadline_ms": "10min"}) as bridge:
        harness.run(play(bridge))


def test_sigterm_during_the_start_ends_it_whenever_it_comes():
    harness.seed()
    for _ in range(25):
        process = harness.spawn(Bridge().command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(random.uniform(0, 0.06))   # the moment is the point
        process.send_signal(signal.SIGTERM)
        try:
            _, words = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise AssertionError("it went on") from None
        # Before main() the signal ends the process as it ends any; from then on it drains.
        assert process.returncode in (0, -signal.SIGTERM), (process.returncode, words.decode()[-500:])


def test_stopped_for_five_seconds_it_goes_on_with_every_session():
    """Longer than its own patience with silent peers (three ping intervals): when it wakes all of them look
    silent, and their bytes wait in the sockets."""
    async def play(bridge):
        async with Others(bridge) as others:
            sessions = {row["id"] for row in bridge.api("sessions")}
            bridge.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(5)   # that it lasts is the point
            bridge.process.send_signal(signal.SIGCONT)
            await others.see_frames(20, 40)
            assert {row["id"] for row in bridge.api("sessions")} == sessions
        await at_rest(bridge)

    with Bridge({"session.ping_interval_ms": "1500ms"}) as bridge:
        harness.run(play(bridge))
        assert_nobody_left(bridge)


# ---- nothing left to take


def test_with_a_full_descriptor_table_who_is_in_stays_in_and_later_others_come():
    async def play(bridge):
        async with Others(bridge) as others:
            crowd = []
            for _ in range(120):
                try:
                    crowd.append(await RawSocket.open(bridge.websocket))
                except OSError:
                    break
            await others.see_frames(20)
            wait_until(lambda: bridge.descriptors() >= 64, 10, "the table is full")
            busy = bridge.cpu_seconds()
            began = time.monotonic()
            await others.see_frames(50)
            harness.figure("CPU with a full table", round((bridge.cpu_seconds() - busy) / (time.monotonic() - began), 3))
            for raw in crowd:
                raw.reset()
            # The admin server needs a descriptor too.
            await until(lambda: reachable(bridge), 15, "the admin server answers")
            assert bridge.metric('simbridge_transport_accept_errors_total{cause="descriptors"}') > 0
            await until(lambda: bridge.metric("simbridge_transport_websocket_connections") == 2, 15, "the crowd is gone")
            newcomer = await Session.open(bridge.url, name="newcomer")
            await newcomer.close()
        await at_rest(bridge)

    with Bridge(nofile=64) as bridge:
        harness.run(play(bridge))
        assert_nobody_left(bridge)


def reachable(bridge):
    try:
        return bridge.get("/healthz", timeout=2)[0] == 200
    except OSError:
        return False


def test_beyond_max_sessions_and_the_accept_rate_peers_get_503_and_may_come_later():
    async def play(bridge):
        inside = [await Session.open(bridge.url) for _ in range(3)]
        late = await RawSocket.open(bridge.websocket)
        status, headers = await late.upgrade()
        assert status == 503 and "retry-after" in headers, (status, headers)
        await inside[0].close()
        await until(lambda: bridge.metric("simbridge_session_open") == 2, 10, "one has left")
        again = await Session.open(bridge.url)
        for session in (*inside[1:], again):
            await session.close()

    with Bridge({"session.max_sessions": 3}) as bridge:
        harness.run(play(bridge))
        assert bridge.metric('simbridge_session_refused_total{cause="max_sessions"}') == 1

    async def rush(bridge):
        answers = []
        for _ in range(30):
            raw = await RawSocket.open(bridge.websocket)
            status, headers = await raw.upgrade()
            answers.append(status)
            assert status == 101 or int(headers["retry-after"]) >= 1
            raw.reset()
        assert 101 in answers and 503 in answers, answers

    with Bridge({"session.accept_rate": 1}) as bridge:
        harness.run(rush(bridge))
        assert bridge.metric('simbridge_session_refused_total{cause="accept_rate"}') > 0


def test_sixteen_reconnect_storms_at_once_lose_and_double_nothing():
    harness.seed()

    async def storm(sensor):
        for _ in range(20):
            await sensor.connect()
            for _ in range(random.randrange(12)):
                await sensor.publish(random.randbytes(random.randrange(1, 60_000)))
            if random.random() < 0.3:
                await sensor.flush()
            await sensor.break_off()
        await sensor.connect()
        await sensor.flush()

    async def play(bridge):
        sensors = [Sensor(bridge.url, f"storm{number}/points") for number in range(16)]
        witness = await Consumer(bridge.url, "storm*/points", history=pb.HISTORY_ALL_KEPT, queue_frames=1000).connect()
        async with Others(bridge):
            await asyncio.gather(*(storm(sensor) for sensor in sensors))
            for sensor in sensors:
                last = sensor.next_sequence - 1
                await witness.until_sequence(sensor.channel, last)
                ledger = witness.ledgers[sensor.channel]
                assert ledger.covers(sensor.epoch, 1, last) and not ledger.explained, vars(ledger)
                for (_, sequence), digest in ledger.digests.items():
                    assert digest == sensor.digests[sequence]
        await at_rest(bridge)
        channels = {row["name"]: row for row in bridge.api("channels")}
        for sensor in sensors:
            row = channels[sensor.channel]
            assert row["published"] == sensor.next_sequence - 1 and row["rejected"] == 0, row
            await sensor.goodbye()
        await witness.close()
        harness.figure("storms: frames", sum(s.next_sequence - 1 for s in sensors))
        harness.figure("storms: duplicates recognised", sum(channels[s.channel]["duplicate"] for s in sensors))

    with Bridge() as bridge:
        harness.run(play(bridge))
        assert_nobody_left(bridge)


def test_another_producer_cannot_take_a_name_that_is_held():
    async def play(bridge):
        holder = await Sensor(bridge.url, "held/points").connect()
        with pytest.raises(Refused) as refusal:
            await Sensor(bridge.url, "held/points").connect()
        assert refusal.value.reject.code == pb.REJECT_NAME_TAKEN
        await holder.publish(b"still mine")
        await holder.flush()
        await holder.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


if __name__ == "__main__":
    harness.main(__file__)
