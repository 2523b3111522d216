#!/usr/bin/env python3
"""The flat road (protocol.md §5) as its users see it: a sensor and a consumer that know websockets, json and numpy,
and a program of Node with ws and typed arrays. Neither knows protobuf."""

import json
import os
import subprocess
import sys
from pathlib import Path

import flat_peer
import harness
import numpy as np
import pytest
import websockets
from flat_peer import BOX, DEPTH, KEEPS_ROWS, NOT_DENSE, OPAQUE, ORIGIN, POSE, FlatPeer, flat
from harness import Bridge, assert_nobody_left, at_rest

CASES = harness.ROOT / "test" / "protocol" / "cases"


@pytest.fixture(scope="module")
def bridge():
    with Bridge() as running:
        yield running
        assert_nobody_left(running)


def scan(points, seed=1):
    """A cloud without points that a filter would drop."""
    random = np.random.default_rng(seed)
    return {"xyz": random.uniform(-3, 3, (points, 3)).astype("<f4"),
            "intensity": random.uniform(0, 255, points).astype("<f4"),
            "ring": (np.arange(points) % 64).astype("<u2"),
            "range": random.uniform(0, 100, points),
            "normal": random.uniform(-1, 1, (points, 3)).astype("<f4")}


def centroids(blocks, leaf):
    """decimation.md §2 on arrays: what a leaf leaves of a scan()."""
    scaled = np.floor(blocks["xyz"].astype(np.float64) * (1.0 / leaf * 65536.0)).astype(np.int64)
    cells, first, inverse = np.unique(scaled >> 16, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    n = np.bincount(inverse)
    sums = np.zeros((len(cells), 3), np.int64)
    np.add.at(sums, inverse, scaled & 0xFFFF)
    value = cells * n[:, None] * (1 << 17) + 2 * sums + n[:, None]
    xyz = (value.astype(np.float64) * (1.0 / (n[:, None] * float(1 << 17))) * leaf).astype("<f4")
    means = np.zeros(len(cells), np.int64)
    np.add.at(means, inverse, np.rint(blocks["intensity"].astype(np.float64) * 65536).astype(np.int64))
    intensity = (means.astype(np.float64) * (1.0 / (n * 65536.0))).astype("<f4")
    order = np.argsort(first)   # of a cell's first point
    return {"xyz": xyz[order], "intensity": intensity[order],
            **{name: blocks[name][first[order]] for name in ("ring", "range", "normal")}}


def assert_blocks(frame, expected):
    assert list(frame.blocks) == list(expected)
    for name, array in expected.items():
        assert frame[name].dtype == array.dtype and frame[name].tobytes() == array.tobytes(), name


async def pair(bridge, name, **subscription):
    """A sensor that has advertised, and a consumer of its channel."""
    sensor, consumer = await FlatPeer.open(bridge.websocket), await FlatPeer.open(bridge.websocket)
    advertised = await sensor.advertise(name)
    await consumer.subscribe(name, **subscription)
    return sensor, consumer, advertised


# ---- the conversation


@pytest.mark.parametrize("offered, chosen", [
    (["simbridge.flat.v1"], "simbridge.flat.v1"),
    (["chat", "simbridge.flat.v1", "simbridge.v1"], "simbridge.flat.v1"),
    (["simbridge.v1", "simbridge.flat.v1"], "simbridge.v1"),
])
def test_of_several_subprotocols_the_first_that_is_known_is_chosen(bridge, offered, chosen):
    async def play():
        async with websockets.connect(bridge.websocket, subprotocols=offered) as socket:
            assert socket.subprotocol == chosen
            assert "sec-websocket-extensions" not in socket.response_headers
    harness.run(play())


def test_control_is_json_with_every_field_and_64_bit_numbers_as_strings(bridge):
    async def play():
        async with await FlatPeer.open(bridge.websocket, maxMessageBytes="70000", peerKey="AAECAwQFBgcICQoLDA0ODw==") as peer:
            welcome = peer.welcome
            assert set(welcome) == {"bridge", "version", "bootId", "session", "maxMessageBytes", "maxFrameBytes",
                                    "pingIntervalMs", "nowNs"}
            assert isinstance(welcome["bootId"], str) and int(welcome["nowNs"]) > 1_600_000_000_000_000_000
            assert isinstance(welcome["pingIntervalMs"], int) and int(welcome["session"]) > 0
            await peer.wait_for("channels", lambda said: said["complete"] is True)

            advertised = await peer.advertise("talk", epoch=2**63 + 1, policy="POLICY_DROP_OLDEST", schemaData="AQI=")
            assert advertised["epoch"] == str(2**63 + 1) and advertised["lastSequence"] == "0"
            channels = await peer.wait_for("channels", lambda said: said["channel"])
            info, = (one for one in channels["channel"] if one["name"] == "talk")
            assert info["id"] == advertised["id"] and info["live"] is True and info["schemaData"] == "AQI="
            assert info["policy"] == "POLICY_DROP_OLDEST" and info["frameId"] == "" and info["latched"] is False
            assert channels["removed"] == []

            state = await peer.subscribe("talk", quality={"maxHz": 2.5, "fields": ["ring"], "output": "OUTPUT_FLAT"},
                                         credit=5)
            assert state["channel"] == [advertised["id"]] and state["applied"]["fields"] == ["ring"]
            assert state["applied"]["maxHz"] == 2.5 and state["applied"]["output"] == "OUTPUT_FLAT"
            assert state["ended"] is False and state["counters"]["promised"] == "0"

            await peer.send(flat({"payload": np.zeros(3, np.uint8)}, OPAQUE, sequence=1))
            ack = await peer.acknowledged(1)
            assert set(ack) == {"channel", "sequence", "windowBytes"} and ack["channel"] == 1
            assert (await peer.frame()).channel == advertised["id"]
            await peer.tell(credit={"subscription": 1, "channel": advertised["id"], "frames": 1})

            await peer.tell(ping={"cookie": str(2**64 - 1), "sentNs": "-5"})
            pong = await peer.wait_for("pong")
            assert pong["cookie"] == str(2**64 - 1) and pong["sentNs"] == "-5"

            await peer.tell(unsubscribe={"id": 1})
            ended = await peer.wait_for("subscriptionState", lambda said: said["ended"])
            assert ended["counters"] == {"promised": "1", "delivered": "1", "skipped": "0", "lost": "0"}
            await peer.tell(unadvertise={"channel": 1})
            await peer.tell(goodbye={"reason": "done"})
            assert (await peer.wait_closed())[0] == 1000
    harness.run(play())


def test_names_of_the_schema_numbers_for_enums_and_no_hello_field_at_all_are_fine(bridge):
    async def play():
        async with await FlatPeer.open(bridge.websocket, hello=False) as peer:
            await peer.send('{"hello": {}}')
            await peer.wait_for("welcome")
            await peer.send('{"advertise": {"channel": 1, "name": "schema/names", "epoch": 7, "frame_id": "lidar", "policy": 1}}')
            assert (await peer.wait_for("advertised"))["epoch"] == "7"
            await peer.wait_for("channels", lambda said: any(one["frameId"] == "lidar" for one in said["channel"]))
    harness.run(play())


# ---- frames both ways


def test_a_cloud_of_a_numpy_program_comes_out_as_the_blocks_that_went_in(bridge):
    async def play():
        sensor, consumer, advertised = await pair(bridge, "flat/cloud")
        blocks = scan(5000)
        await sensor.send(flat(blocks, sequence=1, epoch=7, stamp_ns=-17, sent_ns=5, received_ns=99, forwarded_ns=99,
                               points_in=99, skipped_frames=99, leaf=9.0, subscription=99,
                               flags=ORIGIN | POSE | 2 << 16, origin=(1e6, 2e6, 3.0), pose=(1, 2, 3, 0, 0, 0, 1)))
        frame = await consumer.frame()
        assert_blocks(frame, blocks)
        assert (frame.channel, frame.sequence, frame.epoch) == (advertised["id"], 1, 7)
        assert (frame.stamp_ns, frame.sent_ns, frame.clock, frame.kind) == (-17, 5, 2, flat_peer.CLOUD)
        assert frame.forwarded_ns >= frame.received_ns > 1_600_000_000_000_000_000
        assert (frame.points, frame.points_in, frame.skipped_frames, frame.leaf) == (5000, 5000, 0, 0.0)
        assert frame.has(ORIGIN) and list(frame.origin) == [1e6, 2e6, 3.0]
        assert frame.has(POSE) and list(frame.pose) == [1, 2, 3, 0, 0, 0, 1]
        assert frame.height <= 1 and not frame.has(KEEPS_ROWS)
        if frame.has(BOX):
            assert (frame.box[0] == blocks["xyz"].min(0)).all() and (frame.box[1] == blocks["xyz"].max(0)).all()
        assert frame.meta["sequence"] == "1" and frame.meta["frameId"] == ""
        await sensor.acknowledged(1)
        for peer in (sensor, consumer):
            await peer.socket.close()
        await at_rest(bridge)
    harness.run(play())


def test_a_meta_says_frame_and_times_and_comes_when_it_changed_and_every_100th_frame(bridge):
    async def play():
        sensor, consumer, _ = await pair(bridge, "flat/meta")
        blocks = scan(10)
        blocks["t"] = np.arange(10, dtype="<u4")
        said = {"frameId": "lidar", "cloud": {"timeField": "t", "timeScaleNum": "1000"}}
        metas = {}
        for sequence in range(1, 206):
            if sequence == 103:
                said["frameId"] = "lidar_front"
            await sensor.send(flat(blocks, meta=said, sequence=sequence))
            frame = await consumer.frame()
            assert frame.sequence == sequence
            if frame.meta:
                metas[sequence] = frame.meta["frameId"]
        assert metas == {1: "lidar", 101: "lidar", 103: "lidar_front", 203: "lidar_front"}, metas
        # The time of a point is in nanoseconds, under the name that all sensors' times have.
        assert list(frame.blocks) == ["xyz", "intensity", "ring", "time", "range", "normal"]
        assert frame["time"].dtype == np.dtype("<i4") and list(frame["time"]) == [1000 * t for t in range(10)]
        for peer in (sensor, consumer):
            await peer.socket.close()
    harness.run(play())


def test_qualities_leave_what_was_asked_for(bridge):
    async def play():
        sensor, consumer, _ = await pair(bridge, "flat/quality")
        await consumer.subscribe("flat/quality", 2, quality={"output": "OUTPUT_XYZ"})
        await consumer.subscribe("flat/quality", 3, quality={"leaf": 0.2})
        await consumer.subscribe("flat/quality", 4, quality={"output": "OUTPUT_FLAT", "fields": ["ring", "normal"]})
        region = {"min": {"x": -1, "y": -1, "z": -3}, "max": {"x": 1, "y": 1, "z": 3}}
        await consumer.subscribe("flat/quality", 5, quality={"region": region, "output": "OUTPUT_XYZ"})
        blocks = scan(20000)
        await sensor.send(flat(blocks, meta={"frameId": "lidar"}, sequence=1))
        assert_blocks(await consumer.frame(1), blocks)
        assert_blocks(await consumer.frame(2), {"xyz": blocks["xyz"]})
        thinned = await consumer.frame(3)
        expected = centroids(blocks, 0.2)
        assert 1000 < len(expected["xyz"]) < 20000
        assert_blocks(thinned, expected)
        assert (thinned.points_in, thinned.leaf, thinned.points) == (20000, 0.2, len(expected["xyz"]))
        assert thinned.has(BOX) and (thinned.box[0] == expected["xyz"].min(0)).all()
        assert (thinned.box[1] == expected["xyz"].max(0)).all() and not thinned.has(NOT_DENSE)
        result = thinned.meta["result"]
        assert result["leaf"] == 0.2 and result["pointsIn"] == "20000" and thinned.meta["frameId"] == "lidar"
        assert int(result["pointsOut"]) == thinned.points and result["decimator"] == "cpu"
        assert_blocks(await consumer.frame(4), {name: blocks[name] for name in ("xyz", "ring", "normal")})
        inside = (np.abs(blocks["xyz"][:, :2]) <= 1).all(1)
        assert_blocks(await consumer.frame(5), {"xyz": blocks["xyz"][inside]})
        for peer in (sensor, consumer):
            await peer.socket.close()
        await at_rest(bridge)
    harness.run(play())


def test_rows_and_invalid_points_are_kept_where_that_is_asked_and_axes_may_stand_apart_as_doubles(bridge):
    async def play():
        sensor, consumer, _ = await pair(bridge, "flat/rows", quality={"keepInvalid": True})
        await consumer.subscribe("flat/rows", 2)
        axes = {axis: np.arange(6, dtype="<f8") * factor for axis, factor in (("z", 3), ("y", 2), ("x", 1.5))}
        axes["y"][3] = np.nan
        ring = np.arange(6, dtype="<u2")
        xyz = np.stack([axes[axis] for axis in "xyz"], 1).astype("<f4")
        await sensor.send(flat({"ring": ring, **axes}, height=2, sequence=1))   # dense, it says
        frame = await consumer.frame(1)
        assert frame.height == 2 and frame.has(KEEPS_ROWS) and frame.has(NOT_DENSE)
        assert_blocks(frame, {"xyz": xyz, "ring": ring})
        valid = [1, 2, 4, 5]   # neither zero nor without a number
        frame = await consumer.frame(2)
        assert frame.height <= 1 and not frame.has(KEEPS_ROWS) and not frame.has(NOT_DENSE)
        assert (frame.points, frame.points_in) == (4, 6)
        assert_blocks(frame, {"xyz": xyz[valid], "ring": ring[valid]})
        await sensor.send(flat({"xyz": np.zeros((0, 3), "<f4")}, sequence=2))
        for subscription in (1, 2):
            frame = await consumer.frame(subscription)
            assert (frame.points, frame.sequence, frame.kind) == (0, 2, flat_peer.CLOUD)
        for peer in (sensor, consumer):
            await peer.socket.close()
    harness.run(play())


def test_opaque_and_depth_frames_pass_as_they_are(bridge):
    async def play():
        sensor, consumer, _ = await pair(bridge, "flat/other")
        payload = np.frombuffer(b"any bytes \0\xff", np.uint8)
        millimetres = np.arange(12, dtype="<u2")
        metres = np.linspace(0, 5, 12, dtype="<f4")
        camera = {"frameId": "camera", "depth": {"fx": 500, "fy": 501.5, "cx": 2, "cy": "1"}}
        await sensor.send(flat({"payload": payload}, OPAQUE, sequence=1, stamp_ns=9))
        await sensor.send(flat({"payload": payload}, OPAQUE, meta={"frameId": "imu"}, sequence=2))
        await sensor.send(flat({"payload": payload[:0]}, OPAQUE, sequence=3))
        await sensor.send(flat({"depth": millimetres}, DEPTH, meta=camera, height=3, sequence=4))
        camera["depth"]["encoding"] = "32FC1"
        await sensor.send(flat({"depth": metres}, DEPTH, meta=camera, height=3, sequence=5))
        for sequence, expected in enumerate((payload, payload, payload[:0], millimetres, metres), 1):
            frame = await consumer.frame()
            assert frame.sequence == sequence
            assert frame.kind == (DEPTH if sequence > 3 else OPAQUE)
            assert_blocks(frame, {"depth" if sequence > 3 else "payload": expected})
            if sequence == 1:
                assert frame.stamp_ns == 9
            if sequence == 2:
                assert frame.meta["frameId"] == "imu"
            if sequence > 3:
                assert (frame.points, frame.height) == (12, 3)
                depth = frame.meta["depth"]
                assert [depth[name] for name in ("fx", "fy", "cx", "cy")] == [500, 501.5, 2, 1]
                assert depth["encoding"] == ("16UC1" if sequence == 4 else "32FC1")
                assert frame.meta["frameId"] == "camera"
        for peer in (sensor, consumer):
            await peer.socket.close()
    harness.run(play())


@pytest.mark.parametrize("fragments", [1, 7], ids=["whole", "fragments"])
def test_large_clouds_arrive_whole_with_what_their_meta_says(bridge, fragments):
    """As one WebSocket frame it is read into its place; in fragments its length is not known before."""
    async def play():
        name = f"flat/large{fragments}"
        sensor, consumer, _ = await pair(bridge, name)
        blocks = scan(200_000)
        message = flat(blocks, meta={"frameId": "lidar " + "é" * 100}, sequence=1)
        assert len(message) > 6_000_000
        step = len(message) // fragments + 1
        await sensor.send([message[at:at + step] for at in range(0, len(message), step)] if fragments > 1 else message)
        frame = await consumer.frame(timeout=30)
        assert_blocks(frame, blocks)
        assert frame.meta["frameId"] == "lidar " + "é" * 100
        # A #meta that comes behind so much data is judged all the same.
        bad = flat(blocks, meta={"frameId": 5}, sequence=2)
        await sensor.send([bad[at:at + step] for at in range(0, len(bad), step)] if fragments > 1 else bad)
        reject = await sensor.wait_for("reject", timeout=30)
        assert reject["code"] == "REJECT_MALFORMED" and "#meta" in reject["detail"]
        await sensor.send(flat(blocks, meta={"frameId": "f" * 257}, sequence=2))
        assert (await sensor.wait_for("reject", timeout=30))["code"] == "REJECT_LIMIT"
        await sensor.send(flat(blocks, sequence=3))
        assert (await consumer.frame(timeout=30)).sequence == 3
        for peer in (sensor, consumer):
            await peer.socket.close()
        await at_rest(bridge)
    harness.run(play())


def test_a_frame_above_the_peers_limit_is_a_gap_there_are_no_parts_here(bridge):
    async def play():
        sensor, consumer = await FlatPeer.open(bridge.websocket), await FlatPeer.open(bridge.websocket, maxMessageBytes=8192)
        await sensor.advertise("flat/limit")
        await consumer.subscribe("flat/limit")
        for sequence, points in enumerate((1000, 5), 1):
            await sensor.send(flat(scan(points), sequence=sequence))
        gap = await consumer.wait_for("gap")
        assert (gap["reason"], gap["first"], gap["last"], gap["frames"]) == ("GAP_TOO_LARGE", "1", "1", "1")
        assert (await consumer.frame()).sequence == 2
        for peer in (sensor, consumer):
            await peer.socket.close()
    harness.run(play())


def test_a_recording_of_the_real_sender_comes_as_flat_blocks(bridge):
    """`simbridge send` speaks protobuf and sends records: what its layout was is nobody's business here."""
    async def play():
        async with await FlatPeer.open(bridge.websocket) as consumer:
            await consumer.subscribe("flat/sender")
            command = [harness.program(), "send", "--to", bridge.websocket, "--channel", "flat/sender", "--simulate",
                       "lidar", "--count", 3, "--rings", 16, "--azimuths", 64, "--frame-id", "lidar"]
            sender = harness.spawn(command, stdout=subprocess.DEVNULL)
            for sequence in range(1, 4):
                frame = await consumer.frame()
                assert frame.kind == flat_peer.CLOUD and frame.points > 0 and frame["xyz"].shape[1] == 3
                assert frame.sequence == sequence and (sequence > 1 or frame.meta["frameId"] == "lidar")
            assert harness.end_process(sender) == 0
    harness.run(play())


# ---- what is refused


@pytest.mark.parametrize("text, code, detail", [
    ("", "MALFORMED", ""),
    ("hello", "MALFORMED", ""),
    ("[]", "MALFORMED", "object"),
    ('{"ping": {}', "MALFORMED", ""),
    ('{"ping": {"kookie": "1"}}', "MALFORMED", "kookie"),
    ('{"ping": {"cookie": "1", "cookie": "1"}}', "MALFORMED", "cookie"),
    ('{"ping": {}, "goodbye": {}}', "MALFORMED", "body"),
    ('{"ping": {"cookie": 9007199254740993}}', "MALFORMED", "2^53"),
    ('{"advertise": {"channel": 1, "name": "a", "policy": "POLICY_OF_TRUTH"}}', "MALFORMED", "POLICY_OF_TRUTH"),
    ('{"ping": ' + "[" * 50_000, "MALFORMED", ""),
    ("{}", "UNSUPPORTED", "body"),
    ('{"teleport": {}}', "UNSUPPORTED", "teleport"),
    ('{"subscribe": {"id": 1, "channel": "a", "quality": {"maxHz": "NaN"}}}', "QUALITY", "max_hz"),
    ('{"goodbye": {"reason": "' + "x" * 70_000 + '"}}', "LIMIT", ""),
], ids=lambda value: value[:24])
def test_a_text_that_is_refused_is_a_reject_and_the_session_lives(bridge, text, code, detail):
    async def play():
        async with await FlatPeer.open(bridge.websocket) as peer:
            await peer.send(text)
            reject = await peer.wait_for("reject")
            assert reject["code"] == f"REJECT_{code}" and detail in reject["detail"], reject
            assert 0 < len(reject["detail"].encode()) < 500 and reject["sequence"] == "0"
            await peer.tell(ping={"cookie": "5"})
            assert (await peer.wait_for("pong"))["cookie"] == "5"
    harness.run(play())


def test_sixteen_texts_in_a_row_that_do_not_parse_close_with_1007(bridge):
    async def play():
        peer = await FlatPeer.open(bridge.websocket)
        for _ in range(15):
            await peer.send("{")
        await peer.tell(ping={"cookie": "5"})   # one that parses between them
        await peer.wait_for("pong")
        for _ in range(16):
            await peer.send("{")
        assert (await peer.wait_closed())[0] == 1007
    harness.run(play())


@pytest.mark.parametrize("text", ['{"frame": {"channel": 1, "sequence": "1", "opaque": {"data": "AAAA"}}}',
                                  '{"part": {"transfer": "1"}}'])
def test_a_frame_or_part_as_text_closes_with_1003(bridge, text):
    async def play():
        peer = await FlatPeer.open(bridge.websocket)
        await peer.advertise("flat/text")
        await peer.send(text)
        assert (await peer.wait_closed())[0] == 1003
    harness.run(play())


@pytest.mark.parametrize("first", ['{"ping": {}}', "{", flat({"payload": np.zeros(1, np.uint8)}, OPAQUE)],
                         ids=["ping", "no JSON", "frame"])
def test_anything_but_hello_first_is_a_reject_and_1002(bridge, first):
    async def play():
        peer = await FlatPeer.open(bridge.websocket, hello=False)
        await peer.send(first)
        assert (await peer.wait_for("reject"))["code"] == "REJECT_MALFORMED"
        assert (await peer.wait_closed())[0] == 1002
    harness.run(play())


def broken(message, at, *values):
    """The message with other bytes at a place."""
    return message[:at] + bytes(values) + message[at + len(values):]


WHOLE = flat({"xyz": np.ones((4, 3), "<f4"), "ring": np.ones(4, "<u2")}, sequence=1)


FAULTY = {
    "nothing": (b"", "MALFORMED", ""),
    "another magic": (b"SBF2" + WHOLE[4:], "MALFORMED", "SBF1"),
    "short": (WHOLE[:100], "MALFORMED", "208"),
    "cut off": (WHOLE[:-1], "LAYOUT", "ring"),
    "odd header": (broken(WHOLE, 4, 0x14), "LAYOUT", "multiple of 8"),
    "unaligned": (broken(WHOLE, 208 + 32 + 20, 0x44), "LAYOUT", "ring"),
    "points": (broken(WHOLE, 80, 5), "LAYOUT", "5 points"),
    "rows": (broken(WHOLE, 88, 3), "LAYOUT", "height 3"),
    "a kind to come": (broken(WHOLE, 87, 9), "UNSUPPORTED", "payload"),
    "no coordinates": (broken(WHOLE, 208, ord("X")), "FIELD", "xyz"),
    "another channel": (broken(WHOLE, 12, 9), "UNKNOWN_CHANNEL", "9"),
    "sequence 0": (broken(WHOLE, 16, 0), "SEQUENCE", "sequence 0"),
    "another epoch": (broken(WHOLE, 24, 8), "SEQUENCE", "epoch 8"),
    "meta": (flat({"xyz": np.ones((4, 3), "<f4")}, meta={"frameIt": ""}, sequence=1), "MALFORMED", "#meta"),
    "no intrinsics": (flat({"depth": np.ones(4, "<u2")}, DEPTH, sequence=1), "FIELD", "fx"),
}


@pytest.mark.parametrize("what", FAULTY)
def test_a_flat_message_that_is_refused_is_a_reject_and_the_session_lives(bridge, what):
    message, code, detail = FAULTY[what]

    async def play():
        async with await FlatPeer.open(bridge.websocket) as peer:
            await peer.advertise(f"flat/faulty/{what}")
            await peer.send(message)
            reject = await peer.wait_for("reject")
            assert reject["code"] == f"REJECT_{code}" and detail in reject["detail"], reject
            if code in ("LAYOUT", "FIELD", "UNSUPPORTED"):
                assert (reject["channel"], reject["sequence"]) == (1, "1")
            await peer.send(flat({"xyz": np.ones((4, 3), "<f4")}, sequence=2))
            assert (await peer.acknowledged(2))["sequence"] == "2"
            await peer.tell(unadvertise={"channel": 1})
    harness.run(play())


def flat_cases():
    return [case for case in json.loads((CASES / "cases.json").read_text(encoding="utf-8"))
            if case["file"].endswith(".flat.bin")]


@pytest.mark.parametrize("case", flat_cases(), ids=lambda case: case["name"])
def test_the_protocols_cases_have_their_verdict_and_their_points(bridge, case):
    async def play():
        sensor, consumer, _ = await pair(bridge, f"case/{case['name']}", quality={"output": "OUTPUT_XYZ"})
        await sensor.send((CASES / case["file"]).read_bytes())
        if not case["accept"]:
            assert (await sensor.wait_for("reject"))["code"] == case["reject"]
        else:
            frame = await consumer.frame()
            if frame.kind == OPAQUE:
                assert frame["payload"].tobytes() == b"hello"
            else:
                assert frame["xyz"].tolist() == case["xyz"] and list(frame.blocks) == ["xyz"]
        for peer in (sensor, consumer):
            await peer.socket.close()
    harness.run(play())


# ---- others


def test_node_with_ws_and_typed_arrays(bridge):
    environment = {**os.environ, "NODE_PATH": "/usr/share/nodejs"}   # where Debian's node-ws lies
    script = Path(__file__).with_name("flat_test.mjs")
    done = subprocess.run(["node", script, bridge.websocket], env=environment, capture_output=True, text=True,
                          timeout=60 * harness.PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all of it holds\n"), done.stdout


def test_there_is_no_protobuf_in_any_of_this():
    assert not [name for name in sys.modules if name.startswith("google.protobuf") or name == "bridge_pb2"]


if __name__ == "__main__":
    harness.main(__file__)
