#!/usr/bin/env python3
"""Time, sequence, loss (peers.md §5.4) and the promises about memory and control (§5.5) that a peer can see."""

import asyncio
import math
import os
import socket
import struct
import time

import harness
import pytest
from bridge_client import Consumer, Sensor, Session, new_epoch
from harness import Bridge, MiB, assert_nobody_left, at_rest, until, wait_until
from scenarios import Others, play_slow_consumer

import bridge_pb2 as pb


def cloud(points, step_format="<fffi", time_field="t", **more):
    """points: tuples of x, y, z and a per-point time."""
    fields = [pb.Field(name=name, offset=4 * at, type=pb.TYPE_FLOAT32, count=1) for at, name in enumerate("xyz")]
    fields.append(pb.Field(name=time_field, offset=12, type=pb.TYPE_INT32, count=1))
    data = b"".join(struct.pack(step_format, *point) for point in points)
    return pb.PointCloud(height=1, width=len(points), fields=fields, point_step=16, row_step=16 * len(points),
                         time_field=time_field, data=data, **more)


as_sent_only = pytest.mark.skipif(harness.ROAD == "flat", reason="clouds go out in the flat form: flat_test.py")


async def through(bridge, *frames):
    """The frames as a consumer gets them."""
    sensor = await Sensor(bridge.url, "lidar/points").connect()
    consumer = Consumer(bridge.url, "lidar/points", history=pb.HISTORY_ALL_KEPT, queue_frames=100)
    consumer.kept_frames = []
    await consumer.connect()
    for frame in frames:
        await sensor.publish(frame=frame)
    await consumer.until_sequence("lidar/points", len(frames))
    await at_rest(bridge)
    await consumer.close()
    await sensor.goodbye()
    assert len(consumer.kept_frames) == len(frames), consumer.ledgers["lidar/points"].gaps
    return consumer.kept_frames


@as_sent_only
def test_per_point_times_pass_as_they_are_also_unsorted_negative_or_implausible():
    """47, 48, 49: nothing sorts, clamps or repairs them; they are signed."""
    points = [(1, 2, 3, -5), (4, 5, 6, 1 << 30), (7, 8, 9, -(1 << 31)), (1, 1, 1, 0), (2, 2, 2, -1)]

    async def play(bridge):
        sent = pb.Frame(stamp_ns=1000, clock=pb.CLOCK_SOURCE_UNIX,
                        cloud=cloud(points, time_scale_num=-7, time_scale_den=3, time_absolute=True))
        got, = await through(bridge, sent)
        assert got.cloud == sent.cloud

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_stamps_pass_as_they_are_whatever_clock_they_are_of():
    """50, 51, 52: zero, since boot, negative, at both ends; the bridge's own time stands beside them."""
    stamps = [(0, pb.CLOCK_SOURCE_UNKNOWN), (654_000_000_000, pb.CLOCK_SOURCE_SENSOR_BOOT), (-5, pb.CLOCK_SOURCE_UNIX),
              (-(1 << 63), pb.CLOCK_SOURCE_SIMULATION), ((1 << 63) - 1, pb.CLOCK_SOURCE_TAI)]

    async def play(bridge):
        before = time.time_ns()
        frames = await through(bridge, *(
            pb.Frame(stamp_ns=stamp, clock=clock, sent_ns=-1, opaque=pb.Opaque(data=b"x")) for stamp, clock in stamps))
        for frame, (stamp, clock) in zip(frames, stamps):
            assert (frame.stamp_ns, frame.clock, frame.sent_ns) == (stamp, clock, -1)
            assert before <= frame.received_ns <= frame.forwarded_ns <= time.time_ns()

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_partial_scans_are_forwarded_with_the_points_they_have():
    """54: a Gap is for frames only; points_in says how many points came."""
    async def play(bridge):
        whole = [(x, 0, 1, x) for x in range(100)]
        frames = await through(bridge, *(pb.Frame(cloud=cloud(whole[:count])) for count in (100, 37, 1, 0, 100)))
        assert [frame.cloud.width for frame in frames] == [100, 37, 1, 0, 100]
        assert [frame.result.points_in for frame in frames] == [100, 37, 1, 0, 100]
        assert [frame.result.points_out for frame in frames] == [100, 37, 1, 0, 100]

    with Bridge() as bridge:
        harness.run(play(bridge))


@as_sent_only
def test_everything_a_producer_may_say_of_a_frame_arrives_byte_for_byte():
    async def play(bridge):
        sent = [
            pb.Frame(stamp_ns=1, frame_id="lidar", clock=pb.CLOCK_SOURCE_TAI,
                     pose=pb.Pose(position=pb.Vector3(x=1, y=-2, z=math.pi)), origin=pb.Vector3(x=5e6),
                     crc32c=None, cloud=cloud([(math.nan, math.inf, -0.0, 1)], is_dense=True)),
            pb.Frame(depth=pb.DepthImage(height=2, width=2, encoding="16UC1", row_step=4, fx=1, fy=1, data=bytes(8))),
            pb.Frame(opaque=pb.Opaque(data=bytes(range(256)))),
            pb.Frame(opaque=pb.Opaque()),
        ]
        for frame, got in zip(sent, await through(bridge, *sent)):
            own = pb.Frame()
            own.CopyFrom(got)
            own.channel = 1                # the bridge's number on its way out
            for field in ("subscription", "epoch", "received_ns", "forwarded_ns", "result"):
                own.ClearField(field)
            assert own.SerializeToString(deterministic=True) == frame.SerializeToString(deterministic=True)

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_by_default_a_consumer_trails_by_two_frames_and_then_gets_the_newest():
    """55: no constant latency from a deep queue; what was passed over is a Gap."""
    async def play(bridge):
        consumer = await Consumer(bridge.url, "lidar/points", receive_buffer=32 * 1024).connect()
        sensor = await Sensor(bridge.url, "lidar/points").connect()
        await until(lambda: bridge.api("subscriptions"), 10, "the subscription")
        await sensor.publish(bytes(1_000_000))
        await consumer.until_sequence("lidar/points", 1)
        consumer.stall()
        for _ in range(40):
            await sensor.publish(bytes(1_000_000))
        await sensor.flush()
        consumer.go_on()
        await consumer.until_sequence("lidar/points", 41)
        ledger = consumer.ledgers["lidar/points"]
        came = sorted(sequence for _, sequence in ledger.digests)
        assert ledger.gaps["QUEUE"] == ledger.lost > 0
        assert came[-3:] == [39, 40, 41], came   # the newest, and two behind it
        assert len(came) < 25, came              # the kernels' buffers held the others
        await consumer.close()
        await sensor.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_a_cloud_never_displaces_a_small_state_message():
    """Newest wins within a channel only."""
    async def play(bridge):
        consumer = await Consumer(bridge.url, "**", receive_buffer=32 * 1024).connect()
        clouds = await Sensor(bridge.url, "lidar/points").connect()
        state = await Sensor(bridge.url, "robot/state").connect()
        await until(lambda: len(bridge.api("subscriptions")) == 2, 10, "both subscriptions")
        consumer.stall()
        await state.publish(b"the only word")
        for _ in range(30):
            await clouds.publish(bytes(5_000_000))
        await clouds.flush()
        consumer.go_on()
        await consumer.until_sequence("lidar/points", 30)
        await consumer.until_sequence("robot/state", 1)
        assert consumer.ledgers["lidar/points"].lost > 0
        assert consumer.ledgers["robot/state"].frames == 1 and consumer.ledgers["robot/state"].lost == 0
        await at_rest(bridge)
        await consumer.close()
        await clouds.goodbye()
        await state.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


# ---- producers that skip, and live twice


def test_numbers_that_a_producer_skips_are_a_gap_of_the_source_and_no_loss():
    async def play(bridge):
        consumer = await Consumer(bridge.url, "lidar/points", history=pb.HISTORY_ALL_KEPT, queue_frames=100).connect()
        sensor = await Sensor(bridge.url, "lidar/points").connect()
        await sensor.publish(b"1")
        sensor.skip(6)
        await sensor.publish(b"8")
        await consumer.until_sequence("lidar/points", 8)
        ledger = consumer.ledgers["lidar/points"]
        assert ledger.covers(sensor.epoch, 1, 8)
        assert (ledger.frames, ledger.lost, dict(ledger.explained)) == (2, 0, {"SOURCE": 6})
        await at_rest(bridge)
        await consumer.close()
        await sensor.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_a_producer_that_starts_again_has_a_new_epoch_and_its_old_one_is_over():
    async def play(bridge):
        consumer = await Consumer(bridge.url, "lidar/points", history=pb.HISTORY_ALL_KEPT, queue_frames=100).connect()
        first = await Sensor(bridge.url, "lidar/points", epoch=5).connect()
        await first.publish(b"of the first life")
        await first.flush()
        await first.break_off()
        second = Sensor(bridge.url, "lidar/points", epoch=6)
        second.peer_key = first.peer_key
        await second.connect()
        assert second.acknowledged == 0
        await second.publish(b"of the second life")
        await consumer.until(lambda: consumer.ledgers["lidar/points"].epoch == 6, 10, "the second epoch")
        ledger = consumer.ledgers["lidar/points"]
        assert sorted(ledger.digests) == [(5, 1), (6, 1)]
        old = await Session.open(bridge.url, peer_key=first.peer_key)
        await old.send(advertise=pb.Advertise(channel=1, name="lidar/points", epoch=5))
        assert (await old.wait_for("reject")).code == pb.REJECT_EPOCH
        await old.close()
        await consumer.close()
        await second.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_killed_bridge_comes_back_and_everybody_goes_on():
    """kill -9 of the bridge: its memory is gone, and every number is still accounted for."""
    async def play():
        ports = {"websocket.port": free_port(), "grpc.port": free_port()}
        sensor = consumer = None
        lives = 3
        for life in range(lives):
            with Bridge(ports) as bridge:
                if life == 0:
                    sensor = Sensor(bridge.url, "lidar/points")
                    consumer = Consumer(bridge.url, "lidar/points", history=pb.HISTORY_ALL_KEPT, queue_frames=1000)
                await sensor.connect()
                await consumer.connect(resume=life > 0)
                for _ in range(10):
                    await sensor.publish(os.urandom(50_000))
                if life < lives - 1:
                    await consumer.until_sequence("lidar/points", sensor.next_sequence - 1)
                    await consumer.break_off()
                    for _ in range(7):   # acknowledged, and nobody has had them
                        await sensor.publish(os.urandom(50_000))
                    await sensor.flush()
                    bridge.ended = True
                    bridge.process.kill()
                    bridge.process.wait()
                    await sensor.break_off()
                else:
                    await sensor.flush()
                    last = sensor.next_sequence - 1
                    await consumer.until_sequence("lidar/points", last)
                    await at_rest(bridge)
                    await consumer.close()
                    await sensor.goodbye()
        ledger = consumer.ledgers["lidar/points"]
        assert ledger.covers(sensor.epoch, 1, last), vars(ledger)
        for (_, sequence), digest in ledger.digests.items():
            assert digest == sensor.digests[sequence]
        assert dict(ledger.explained) == {"RESTART": 2 * 7} and ledger.lost == 0, vars(ledger)

    harness.run(play())


# ---- memory and control


def test_memory_stays_flat_with_a_fast_producer_and_a_slow_consumer():
    """58, in short; ten minutes in soak_test.py."""
    budget = 96 * MiB
    with Bridge({"frame.budget_bytes": budget}) as bridge:
        harness.run(play_slow_consumer(bridge, 8, budget))
        assert_nobody_left(bridge)


def test_a_reliable_consumer_that_stops_loses_its_claim_and_not_its_session():
    """59, 70: it is told, whole frames are lost with their reason, ingest goes on, nothing is closed."""
    async def play(bridge):
        sensor = await Sensor(bridge.url, "reliable/points", policy=pb.POLICY_BACKPRESSURE).connect()
        consumer = await Consumer(bridge.url, "reliable/points", reliable=True, history=pb.HISTORY_ALL_KEPT,
                                  receive_buffer=32 * 1024).connect()
        await until(lambda: bridge.api("subscriptions"), 10, "the subscription")
        consumer.stall()
        async with Others(bridge) as others:
            for _ in range(30):   # twice the window
                await sensor.publish(bytes(1_000_000))
            await sensor.flush()
            await others.see_frames(5)
            consumer.go_on()
            await consumer.until_sequence("reliable/points", 30)
        assert bridge.metric("simbridge_session_reliable_ended_total") == 1
        assert [status.code for status in consumer.statuses] == ["reliable_ended"]
        ledger = consumer.ledgers["reliable/points"]
        assert ledger.covers(sensor.epoch, 1, 30)
        await at_rest(bridge)
        await consumer.close()
        await sensor.goodbye()

    with Bridge({"session.reliable_timeout_ms": "1s"}) as bridge:
        harness.run(play(bridge))


def test_a_reliable_consumer_gets_every_frame_and_the_producer_waits_by_its_window():
    async def play(bridge):
        sensor = await Sensor(bridge.url, "reliable/points", policy=pb.POLICY_BACKPRESSURE).connect()
        consumer = await Consumer(bridge.url, "reliable/points", reliable=True, history=pb.HISTORY_ALL_KEPT,
                                  receive_buffer=32 * 1024, credit=2).connect()
        await until(lambda: bridge.api("subscriptions"), 10, "the subscription")
        for _ in range(60):
            await sensor.publish(bytes(500_000))
        await sensor.flush()
        await consumer.until_sequence("reliable/points", 60)
        ledger = consumer.ledgers["reliable/points"]
        assert ledger.covers(sensor.epoch, 1, 60) and ledger.lost == 0, vars(ledger)
        await at_rest(bridge)
        await consumer.close()
        await sensor.goodbye()

    with Bridge({"session.window_bytes": "2MiB"}) as bridge:
        harness.run(play(bridge))


def test_after_the_load_memory_falls_back():
    """61: frames of channels that are gone go back to the kernel."""
    async def load(bridge):
        sensor = await Sensor(bridge.url, "load/points").connect()
        for _ in range(200):
            await sensor.publish(bytes(1_000_000))
        await sensor.flush()
        await sensor.goodbye()

    with Bridge({"frame.budget_bytes": 256 * MiB, "frame.idle_return_ms": "500ms", "channels.remove_after_s": "1s"}) as bridge:
        idle = bridge.rss()
        harness.run(load(bridge))
        high = bridge.rss()
        wait_until(lambda: bridge.metric("simbridge_frame_committed_bytes") < 16 * MiB, 15, "the arena is given back")
        harness.figure("resident: idle, loaded, after", [idle // MiB, high // MiB, bridge.rss() // MiB], "MiB")
        if not harness.SANITIZED:
            assert high > idle + 100 * MiB
            wait_until(lambda: bridge.rss() < idle + 32 * MiB, 15, "resident memory falls")


def test_threads_follow_the_cpus_that_the_process_may_use():
    """63: not those of the machine."""
    with Bridge(cpus={sorted(os.sched_getaffinity(0))[0]}) as bridge:
        assert bridge.api("limits")["threads"]["io"] == 1
        assert bridge.metric("simbridge_transport_io_threads") == 1


def test_with_nobody_left_a_drain_ends_early_with_0():
    """65: the deadline is the last word, not the usual one."""
    async def play(bridge):
        async with Others(bridge):
            pass

    with Bridge({"drain.deadline_ms": "10min"}) as bridge:
        harness.run(play(bridge))
        assert bridge.stop(timeout=90) == 0


def test_the_largest_frame_follows_from_the_memory_budget():
    """66: a huge message is an error of its sender, never the end of the process."""
    async def play(bridge):
        async with Others(bridge):
            sensor = await Sensor(bridge.url, "huge/points").connect()
            largest = sensor.session.welcome.max_frame_bytes
            assert largest == bridge.api("limits")["memory"]["max_frame_bytes"] <= 8 * MiB
            await sensor.publish(bytes(largest + 1))
            await sensor.flush()
            assert [reject.code for reject in sensor.rejects] == [pb.REJECT_TOO_LARGE]
            await sensor.publish(b"small")
            await sensor.flush()
            await sensor.goodbye()

    with Bridge({"frame.budget_bytes": 64 * MiB}) as bridge:
        harness.run(play(bridge))
        assert_nobody_left(bridge)


# ---- positions


def test_a_consumer_that_resumes_misses_nothing_that_is_kept():
    async def play(bridge):
        sensor = await Sensor(bridge.url, "lidar/points").connect()
        consumer = await Consumer(bridge.url, "lidar/points", history=pb.HISTORY_ALL_KEPT).connect()
        for _ in range(10):
            for _ in range(10):
                await sensor.publish(os.urandom(30_000))
            await sensor.flush()
            await consumer.break_off()
            await consumer.connect(resume=True)
        await consumer.until_sequence("lidar/points", 100)
        ledger = consumer.ledgers["lidar/points"]
        assert ledger.covers(sensor.epoch, ledger.first[sensor.epoch], 100)
        for (_, sequence), digest in ledger.digests.items():
            assert digest == sensor.digests[sequence]
        await at_rest(bridge)
        await consumer.close()
        await sensor.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_positions_that_are_gone_ahead_or_unknown_are_answered_as_written():
    async def gaps_from(bridge, epoch, sequence):
        session = await Session.open(bridge.url)
        subscribe = pb.Subscribe(id=1, channel="lidar/points", history=pb.HISTORY_FROM)
        getattr(subscribe, "from").add(channel="lidar/points", epoch=epoch, sequence=sequence)
        await session.send(subscribe=subscribe)
        gaps = []
        while True:
            message = await session.receive()
            if message.WhichOneof("body") == "gap":
                gap = message.gap
                gaps.append((pb.GapReason.Name(gap.reason), gap.first, gap.last, gap.frames))
            if message.WhichOneof("body") == "frame":
                session.abort()   # what still comes is of no interest
                return gaps, message.frame.sequence

    async def play(bridge):
        epoch = new_epoch()
        sensor = Sensor(bridge.url, "lidar/points", epoch=epoch)
        sensor.next_sequence = 5     # of a time before this boot
        await sensor.connect()
        for _ in range(36):          # 5 … 40, the ring keeps 10
            await sensor.publish(b"frame")
        await sensor.flush()
        kept = 31
        assert await gaps_from(bridge, epoch, 35) == ([], 36)
        assert await gaps_from(bridge, epoch, 20) == ([("GAP_EVICTED", 21, kept - 1, 10)], kept)
        gaps, first = await gaps_from(bridge, epoch, 2)
        assert first == kept and gaps[0] == ("GAP_RESTART", 3, 4, 0) and gaps[1] == ("GAP_EVICTED", 5, kept - 1, 26), gaps
        gaps, first = await gaps_from(bridge, epoch + 1, 3)
        assert first == kept and gaps == [("GAP_EPOCH", 0, 0, 0)], gaps

        ahead = asyncio.create_task(gaps_from(bridge, epoch, 42))
        await until(lambda: bridge.api("subscriptions"), 10, "the one who is ahead")
        for _ in range(3):           # 41, 42: had before; 43
            await sensor.publish(b"frame")
        assert (await asyncio.wait_for(ahead, 10)) == ([], 43)
        await at_rest(bridge)
        await sensor.goodbye()

    with Bridge({"frame.depth": 10}) as bridge:
        harness.run(play(bridge))


def test_max_hz_skips_and_the_skips_are_counted_apart():
    async def play(bridge):
        sensor = await Sensor(bridge.url, "lidar/points").connect()
        consumer = await Consumer(bridge.url, "lidar/points", quality=pb.Quality(max_hz=1), queue_frames=100).connect()
        await until(lambda: bridge.api("subscriptions"), 10, "the subscription")
        for _ in range(100):
            await sensor.publish(b"frame")
        await sensor.flush()
        await at_rest(bridge)
        counters = await consumer.unsubscribe()
        assert counters.promised == 100 and counters.skipped > 0, counters
        assert counters.promised == counters.delivered + counters.skipped + counters.lost
        assert counters.delivered == consumer.session_books["frames"]
        await consumer.close()
        await sensor.goodbye()

    with Bridge() as bridge:
        harness.run(play(bridge))


def test_a_latched_frame_comes_to_every_new_subscription():
    async def play(bridge):
        calibration = await Sensor(bridge.url, "lidar/calibration", latched=True).connect()
        await calibration.publish(b"matrix")
        await calibration.flush()
        await calibration.goodbye()
        for history in (pb.HISTORY_NONE, pb.HISTORY_LAST, pb.HISTORY_ALL_KEPT):
            consumer = await Consumer(bridge.url, "*/calibration", history=history, max_age_ms=1).connect()
            await consumer.until_sequence("lidar/calibration", 1)
            assert consumer.ledgers["lidar/calibration"].frames == 1
            await consumer.close()

    with Bridge() as bridge:
        harness.run(play(bridge))


if __name__ == "__main__":
    harness.main(__file__)
