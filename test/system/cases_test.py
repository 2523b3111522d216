#!/usr/bin/env python3
"""Every message of the protocol's cases, by every road that can carry it, with a consumer on every road.

A message for the protobuf roads is sent over WebSocket and over gRPC, a flat one over the flat road, each on a fresh
session. Consumers of OUTPUT_XYZ on all three must have the same points, which are those of cases.json.
"""

import asyncio
import json
import struct
import sys

import harness
from bridge_client import Session, payload_of
from harness import Bridge

import bridge_pb2 as pb

CASES = harness.TEST_DATA / "protocol" / "cases"
ROADS = ("ws", "flat", "grpc")
NOT_YET = {"depth-ok"}   # depth images as clouds are a later quality: docs/decimation.md


def all_cases():
    if not CASES.exists():
        print(f"*** no protocol cases at {CASES}: set SIMBRIDGE_TEST_DATA; nothing is checked ***")
        sys.exit(77)
    return json.loads((CASES / "cases.json").read_text(encoding="utf-8"))


class Viewer:
    """What came of each channel: points, or the reason of a Gap."""

    def __init__(self, road):
        self.road = road
        self.session = None
        self.came = {}

    async def connect(self, bridge):
        self.session = await Session.open(bridge.by(self.road), name=f"viewer {self.road}")
        await self.session.send(subscribe=pb.Subscribe(
            id=1, channel="case/**", history=pb.HISTORY_ALL_KEPT, queue_frames=1000,
            quality=pb.Quality(output=pb.OUTPUT_XYZ)))

    async def read(self):
        while True:
            message = await self.session.receive(3600)
            if message.WhichOneof("body") == "frame":
                frame = message.frame
                name = self.session.name_of(frame.channel)
                assert name not in self.came, f"{self.road}: {name} came twice"
                if frame.WhichOneof("payload") != "cloud":
                    self.came[name] = payload_of(frame)
                else:
                    numbers = struct.unpack(f"<{len(frame.cloud.data) // 4}f", frame.cloud.data)
                    self.came[name] = [list(numbers[at:at + 3]) for at in range(0, len(numbers), 3)]
            elif message.WhichOneof("body") == "gap" and message.gap.frames:
                name = self.session.name_of(message.gap.channel)
                self.came[name] = pb.GapReason.Name(message.gap.reason)


async def send_case(bridge, road, case):
    """The verdict: a reject's code, or None."""
    session = await Session.open(bridge.by(road), name=case["name"])
    await session.send(advertise=pb.Advertise(channel=1, name=f"case/{road}/{case['name']}", epoch=7))
    await session.wait_for("advertised")
    await session.send_bytes((CASES / case["file"]).read_bytes())
    try:
        while True:
            message = await session.receive(10)
            if message.WhichOneof("body") == "reject":
                return pb.RejectCode.Name(message.reject.code)
            if message.WhichOneof("body") == "ack":
                return None
    finally:
        await session.close()


def roads_of(case):
    return ("flat",) if ".flat." in case["file"] else ("ws", "grpc")


def test_every_case_has_its_verdict_and_its_points_on_every_road():
    cases = all_cases()

    async def play(bridge):
        viewers = [Viewer(road) for road in ROADS]
        for viewer in viewers:
            await viewer.connect(bridge)
        wrong = []
        expected = {}
        async with harness.background(*(viewer.read() for viewer in viewers)):
            for case in cases:
                for road in roads_of(case):
                    verdict = await send_case(bridge, road, case)
                    if verdict != case["reject"]:
                        wrong.append(f"{road} {case['name']}: {verdict}, {case['reject']} is due")
                    if case["accept"] and case["name"] not in NOT_YET:
                        expected[f"case/{road}/{case['name']}"] = case["xyz"]
            for viewer in viewers:
                await harness.until(lambda one=viewer: expected.keys() <= one.came.keys(), 20,
                                    f"all {len(expected)} channels at {viewer.road}")
        for viewer in viewers:
            for name, points in expected.items():
                came = viewer.came[name]
                if isinstance(came, bytes):   # an opaque frame has no points
                    came = []
                if came != points:
                    wrong.append(f"{name} at {viewer.road}: {came}, {points} is due")
        assert not wrong, "\n".join(wrong)
        print(f"{len(cases)} cases, {len(expected)} accepted channels at {len(viewers)} viewers")
        for viewer in viewers:
            await viewer.session.close()

    with Bridge() as bridge:
        harness.run(play(bridge), 200)
        harness.assert_at_rest(bridge)


if __name__ == "__main__":
    harness.main(__file__)
