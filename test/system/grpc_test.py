#!/usr/bin/env python3
"""What only the gRPC road has (protocol.md §1, §2), by the official client in Python. The conversation itself is
played on this road by frames_test.py and cases_test.py."""

import asyncio
import os
import signal

import grpc
import harness
import lines
import pytest
from bridge_client import Consumer, Sensor, Session
from harness import Bridge, MiB, until

import bridge_pb2 as pb
import health_pb2
import reflection_pb2

CONNECT = "/simbridge.v1.Bridge/Connect"


@pytest.fixture(scope="module")
def bridge():
    with Bridge() as running:
        yield running
        harness.assert_nobody_left(running)


def channel_to(bridge, **options):
    options = {"grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1,
               "grpc.use_local_subchannel_pool": 1, **options}
    return grpc.aio.insecure_channel("%s:%d" % lines.address_of(bridge.grpc), options=list(options.items()))


async def call_once(bridge, method, request, answer):
    async with channel_to(bridge) as channel:
        data = await channel.unary_unary(method)(request.SerializeToString())
        return answer.FromString(data)


async def status_of(call):
    """Of a call of which nothing more is wanted."""
    while True:
        try:
            if await call.read() is grpc.aio.EOF:
                break
        except grpc.aio.AioRpcError:
            break
    return await call.code(), await call.details()


def hello(name="python"):
    return pb.ClientMessage(hello=pb.Hello(name=name)).SerializeToString()


def open_sessions(bridge):
    return bridge.metric("simbridge_session_open")


# ---- beside Connect


def test_get_info_says_what_the_bridge_is_and_what_it_has(bridge):
    async def play():
        sensor = await Sensor(bridge.grpc, "info/points").connect()
        await sensor.publish(b"x")
        await sensor.flush()
        info = await call_once(bridge, "/simbridge.v1.Bridge/GetInfo", pb.GetInfoRequest(), pb.GetInfoResponse)
        assert info.welcome.boot_id == sensor.session.welcome.boot_id and info.welcome.session == 0
        assert info.sessions == 1 and info.started_ns > 0
        assert info.limits.frame_budget_bytes > 0 and info.limits.io_threads > 0
        assert [(one.name, one.last_sequence, one.live) for one in info.channel] == [("info/points", 1, True)]
        await sensor.goodbye()

    harness.run(play())


def test_health_is_served_for_the_bridge_and_its_service_and_unknown_names_are_told(bridge):
    async def play():
        check = "/grpc.health.v1.Health/Check"
        for service in ("", "simbridge.v1.Bridge"):
            answer = await call_once(
                bridge, check, health_pb2.HealthCheckRequest(service=service), health_pb2.HealthCheckResponse)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING, service
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await call_once(bridge, check, health_pb2.HealthCheckRequest(service="other"),
                            health_pb2.HealthCheckResponse)
        assert told.value.code() == grpc.StatusCode.NOT_FOUND

    harness.run(play())


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_lists_the_services(bridge, version):
    async def play():
        async with channel_to(bridge) as channel:
            call = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")()
            await call.write(reflection_pb2.ServerReflectionRequest(list_services="*").SerializeToString())
            answer = reflection_pb2.ServerReflectionResponse.FromString(await call.read())
            names = {one.name for one in answer.list_services_response.service}
            assert {"simbridge.v1.Bridge", "grpc.health.v1.Health"} <= names, names
            await call.done_writing()
            assert (await status_of(call))[0] == grpc.StatusCode.OK

    harness.run(play())


# ---- limits


def test_a_message_above_the_session_limit_ends_the_call_and_names_limit_size_and_knob():
    async def play(bridge):
        session = await Session.open(bridge.grpc)
        await session.send_bytes(bytes(2 * MiB))
        code, reason = await session.wait_closed()
        assert code == 1009 and "session.max_message_bytes" in reason and str(2 * MiB) in reason, reason
        assert str(MiB) in reason

    with Bridge({"session.max_message_bytes": MiB}) as bridge:
        harness.run(play(bridge))


def test_a_message_far_above_the_default_limit_is_refused_by_its_header(bridge):
    async def play():
        async with channel_to(bridge) as channel:
            call = channel.stream_stream(CONNECT)()
            await call.write(hello())
            try:
                await call.write(bytes(70 * MiB))
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                pass
            code, details = await status_of(call)
            assert code == grpc.StatusCode.RESOURCE_EXHAUSTED, (code, details)
            assert str(64 * MiB) in details, details

    harness.run(play())


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(bridge):
    async def play():
        before = bridge.rss()
        async with channel_to(bridge) as channel:
            call = channel.stream_stream(CONNECT)(compression=grpc.Compression.Gzip)
            try:
                await call.write(bytes(256 * MiB))   # a quarter of a MiB on the wire
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                pass
            code, details = await status_of(call)
        assert code == grpc.StatusCode.UNIMPLEMENTED and "gzip" in details, (code, details)
        if not harness.SANITIZED:
            assert bridge.rss() - before < 200 * MiB

    harness.run(play())


# ---- how calls end


def test_a_peer_that_half_closes_goes_on_receiving(bridge):
    async def play():
        sensor = await Sensor(bridge.grpc, "half/points").connect()
        session = await Session.open(bridge.grpc)
        await session.send(subscribe=pb.Subscribe(id=1, channel="half/points"))
        await session.wait_for("subscription_state")
        await session._socket.call.done_writing()   # pylint: disable=protected-access
        for number in range(1, 4):
            await sensor.publish(b"%d" % number)
            frame = await session.wait_for("frame")
            assert (frame.sequence, frame.opaque.data) == (number, b"%d" % number)
        session.abort()
        await sensor.goodbye()

    harness.run(play())


def test_a_producer_that_half_closes_has_its_last_ack_and_ends_with_ok(bridge):
    async def play():
        sensor = await Session.open(bridge.grpc)
        await sensor.send(advertise=pb.Advertise(channel=1, name="ends/points", epoch=7))
        await sensor.wait_for("advertised")
        for number in range(1, 4):
            await sensor.send_frame(pb.Frame(channel=1, sequence=number, opaque=pb.Opaque(data=b"x")))
        await sensor._socket.call.done_writing()   # pylint: disable=protected-access
        while (await sensor.wait_for("ack")).sequence < 3:
            pass
        assert (await sensor.wait_closed())[0] == 1000

    harness.run(play())


def test_a_cancelled_call_is_gone_at_once_with_all_it_held(bridge):
    async def play():
        sensor = await Sensor(bridge.grpc, "cancelled/points").connect()
        consumer = await Consumer(bridge.grpc, "cancelled/points", receive_buffer=64 * 1024).connect()
        consumer.stall()
        for _ in range(10):
            await sensor.publish(os.urandom(4 * MiB))
        await until(lambda: open_sessions(bridge) == 2, 10, "two sessions")
        await consumer.break_off()
        await until(lambda: open_sessions(bridge) == 1, 10, "the cancelled one is gone")
        await sensor.flush()
        await sensor.goodbye()
        await harness.at_rest(bridge)

    harness.run(play())


def test_a_client_that_pings_every_five_seconds_is_tolerated(bridge):
    """Eleven seconds, with no frame in between: two pings, and no GOAWAY for them."""
    async def play():
        line = await lines.GrpcLine.connect(bridge.grpc, None, **{
            "grpc.keepalive_time_ms": 5000, "grpc.keepalive_timeout_ms": 5000,
            "grpc.keepalive_permit_without_calls": 1, "grpc.http2.max_pings_without_data": 0})
        await line.send(hello())
        await line.recv()
        await asyncio.sleep(11)
        await line.send(pb.ClientMessage(ping=pb.Ping(cookie=7)).SerializeToString())
        async with asyncio.timeout(10):
            while pb.ServerMessage.FromString(await line.recv()).WhichOneof("body") != "pong":
                pass
        await line.close()

    harness.run(play())


def test_a_peer_that_falls_silent_is_freed_by_keepalive():
    """A client that is stopped answers no ping: within 10 s + 20 s it is gone, and its name free."""
    async def play(bridge):
        watch = harness.spawn([harness.program(), "watch", "--from", bridge.grpc, "**"],
                              stdout=harness.subprocess.DEVNULL, stderr=harness.subprocess.DEVNULL)
        try:
            await until(lambda: open_sessions(bridge) == 1, 10, "it is there")
            watch.send_signal(signal.SIGSTOP)
            await until(lambda: open_sessions(bridge) == 0, 35 / harness.PATIENCE + 5, "the silent one is gone")
        finally:
            watch.kill()
            watch.wait()

    with Bridge() as bridge:
        harness.run(play(bridge))
        harness.assert_at_rest(bridge)


def test_a_drain_tells_everybody_turns_health_off_and_ends_with_unavailable():
    async def play(bridge):
        sensor = await Sensor(bridge.grpc, "drained/points").connect()
        await sensor.publish(b"last")
        await sensor.flush()
        idle = await Session.open(bridge.grpc)
        async with channel_to(bridge) as channel:
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(
                health_pb2.HealthCheckRequest().SerializeToString())
            answer = health_pb2.HealthCheckResponse
            assert answer.FromString(await watch.read()).status == answer.SERVING
            bridge.process.send_signal(signal.SIGTERM)
            assert answer.FromString(await watch.read()).status == answer.NOT_SERVING
            drain = await idle.wait_for("drain")
            assert drain.deadline_ms > 0
            code, _ = await idle.wait_closed()
            assert code == 1001
            watch.cancel()
        assert await asyncio.to_thread(bridge.process.wait, 60) == 0
        bridge.ended = True
        await sensor.break_off()

    with Bridge({"drain.deadline_ms": "5s"}) as bridge:
        harness.run(play(bridge))


def test_beyond_max_sessions_a_call_is_refused_with_the_limit_and_may_come_later():
    async def play(bridge):
        inside = [await Session.open(bridge.grpc) for _ in range(2)]
        late = await Session.open(bridge.grpc, hello=False)
        code, reason = await late.wait_closed()
        assert code == 1009 and "2" in reason, (code, reason)
        await inside.pop().close()
        await until(lambda: open_sessions(bridge) == 1, 10, "one has gone")
        await (await Session.open(bridge.grpc)).close()
        await inside.pop().close()

    with Bridge({"session.max_sessions": 2}) as bridge:
        harness.run(play(bridge))


if __name__ == "__main__":
    harness.main(__file__)
