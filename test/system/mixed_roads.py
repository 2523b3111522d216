#!/usr/bin/env python3
"""Three sensors and nine consumers mixed over WebSocket, the flat WebSocket and gRPC; every book balances, and the
points are the same by every road.

    mixed_roads.py [--seconds N]      exit code 0: balanced; 1: not; 77: no recordings

`simbridge send` streams the Velodyne by WebSocket and the Ouster by gRPC, a Python sensor the Hesai by the flat road.
On each road three consumers see all of them: as sent, thinned to 0.2 m, and a region. The expected points of 0.2 m
are those published in EXPECTED.json; those of a region are counted out here, from the files.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import harness
import numpy as np
from bridge_client import Consumer, Sensor, payload_of, sha256
from harness import MiB
from lines import NUMPY
from programs import Send, kill_all

import bridge_pb2 as pb

RATE_HZ = 5
NOTHING_TO_SEND = 77
ROADS = ("ws", "flat", "grpc")
LEAF = "0.2"
REGION = ((-10.0, -5.0, -1.0), (20.0, 15.0, 2.5))
SENSORS = {   # channel -> the road that it comes by, its files
    "velodyne/points": ("ws", ["velodyne/vlp16_scan0.pcd", "velodyne/vlp16_scan1.pcd", "velodyne/vlp16_scan2.pcd"]),
    "ouster/points": ("grpc", ["ouster/os1_128_dense_frame0.pcd", "ouster/os1_128_dense_frame1.pcd",
                               "ouster/os1_128_dense_frame2.pcd"]),
    "hesai/points": ("flat", ["hesai/xt32_1673400678101968885.pcd"]),
}
QUALITIES = {
    "as-sent": pb.Quality(),
    "0.2 m": pb.Quality(leaf=0.2, output=pb.OUTPUT_XYZ),
    "region": pb.Quality(output=pb.OUTPUT_XYZ, region=pb.Box(
        min=pb.Vector3(x=REGION[0][0], y=REGION[0][1], z=REGION[0][2]),
        max=pb.Vector3(x=REGION[1][0], y=REGION[1][1], z=REGION[1][2]))),
}


class Recording:
    """A binary PCD file, read by numpy: what each consumer must get of it."""

    def __init__(self, path, by_flat_road):
        text = path.read_bytes()
        header = dict(line.split(" ", 1) for line in text[:2000].decode("latin-1").split("\nDATA")[0].split("\n")
                      if line and not line.startswith("#"))
        kinds = {"I": {1: 1, 2: 3, 4: 5}, "U": {1: 2, 2: 4, 4: 6}, "F": {4: 7, 8: 8}}
        names = header["FIELDS"].split()
        sizes = [int(word) for word in header["SIZE"].split()]
        types = [kinds[kind][size] for kind, size in zip(header["TYPE"].split(), sizes)]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.data = harness.pcd_data(path)
        step = int(offsets[-1])
        points = len(self.data) // step
        self.cloud = pb.PointCloud(width=points, height=1, point_step=step, row_step=points * step, data=self.data)
        for name, type_, offset in zip(names, types, offsets):
            self.cloud.fields.add(name=name, type=type_, offset=int(offset), count=1)
        record = np.dtype({"names": names, "formats": [NUMPY[type_] for type_ in types],
                           "offsets": [int(offset) for offset in offsets[:-1]], "itemsize": step})
        rows = np.frombuffer(self.data, record)
        xyz = np.stack([rows["x"], rows["y"], rows["z"]], axis=1)
        valid = xyz[np.isfinite(xyz).all(axis=1) & (xyz != 0).any(axis=1)]
        inside = valid[((valid >= REGION[0]) & (valid <= REGION[1])).all(axis=1)]
        published = json.loads((harness.TEST_DATA / "pointclouds" / "EXPECTED.json").read_text(encoding="utf-8"))
        name = str(path.relative_to(harness.TEST_DATA / "pointclouds"))
        self.valid = sha256(valid.tobytes())
        self.digests = {
            # What a flat sensor sent is stored block by block; harness.Recordings of others pass as they are.
            "as-sent": None if by_flat_road else sha256(self.data),
            "0.2 m": next(one["voxel_centroid"][LEAF]["sha256"] for one in published if one["file"] == name),
            "region": sha256(inside.tobytes()),
        }


class MixedRoads:
    def __init__(self, bridge, folder, seconds):
        self.bridge = bridge
        self.folder = folder
        self.seconds = seconds
        self.recordings = {
            channel: [Recording(path, road == "flat") for path in harness.recordings(*names)]
            for channel, (road, names) in SENSORS.items()}
        self.consumers = {}
        self.children = {}
        self.flat_sensor = Sensor(bridge.by("flat"), "hesai/points")
        self.last = {}
        self.wrong = []

    def check(self, holds, sentence):
        if not holds:
            self.wrong.append(sentence)
        return "yes" if holds else "NO"

    async def stream(self):
        for road in ROADS:
            for name, quality in QUALITIES.items():
                consumer = Consumer(self.bridge.by(road), "*/points", name=f"{name} by {road}", quality=quality,
                                    history=pb.HISTORY_ALL_KEPT, queue_frames=4 * RATE_HZ)
                if road == "flat" and name == "as-sent":   # the flat form has all valid points, in one block
                    consumer.digest = lambda frame: sha256(frame.cloud.data[:12 * frame.cloud.width])
                elif name == "as-sent":
                    consumer.digest = lambda frame: (   # what came by the flat road is blocks already
                        "flat" if frame.cloud.layout == pb.LAYOUT_SOA else sha256(payload_of(frame)))
                self.consumers[road, name] = await consumer.connect()
        for channel, (road, names) in SENSORS.items():
            if road != "flat":
                self.children[channel] = Send(self.bridge.by(road), channel, harness.recordings(*names), rate=RATE_HZ,
                                              state=self.folder / channel.replace("/", "_"))
        await self.flat_sensor.connect()
        print(f"three sensors at {RATE_HZ} Hz and nine consumers over {', '.join(ROADS)}, for {self.seconds} s", flush=True)
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            recordings = self.recordings["hesai/points"]
            cloud = recordings[(self.flat_sensor.next_sequence - 1) % len(recordings)].cloud
            await self.flat_sensor.publish(frame=pb.Frame(cloud=cloud, stamp_ns=time.time_ns()))
            await asyncio.sleep(1 / RATE_HZ)
        for channel, sensor in self.children.items():
            code = await asyncio.to_thread(sensor.finish)
            self.check(code == 0, f"the sensor of {channel} ended with {code}: {sensor.words()[-300:]}")
            self.last[channel] = sensor.last_sequence(channel)
        await self.flat_sensor.flush()
        self.last["hesai/points"] = self.flat_sensor.next_sequence - 1
        for channel, last in self.last.items():
            for consumer in self.consumers.values():
                await consumer.until_sequence(channel, last, 30)
        await harness.at_rest(self.bridge)

    def expected(self, road, quality, channel, sequence):
        recordings = self.recordings[channel]
        recording = recordings[(sequence - 1) % len(recordings)]
        if quality != "as-sent":
            return recording.digests[quality]
        return recording.valid if road == "flat" else recording.digests["as-sent"] or "flat"

    def settle(self):
        print("\nchannel              came by   numbers   received = published + duplicate + rejected   balanced")
        for row in self.bridge.api("channels"):
            last = self.last[row["name"]]
            holds = (row["received"] == row["published"] + row["duplicate"] + row["rejected"] and
                     row["published"] == last and row["rejected"] == 0)
            print(f"{row['name']:<20} {SENSORS[row['name']][0]:<7} {last:>9} {row['received']:>10}   {row['published']:>9} "
                  f"{row['duplicate']:>11} {row['rejected']:>10}   {self.check(holds, f'{row} with {last} numbers')}")
        print("\nconsumer            channel             numbers =   frames +     lost   why lost               points  balanced")
        for (road, quality), consumer in self.consumers.items():
            for channel, last in self.last.items():
                ledger = consumer.ledgers[channel]
                same = all(digest == self.expected(road, quality, channel, sequence)
                           for (_, sequence), digest in ledger.digests.items())
                whole = (ledger.covers(ledger.epoch, 1, last) and ledger.frames + ledger.lost == last and
                         ledger.lost == sum(ledger.gaps.values()))
                why = " ".join(f"{reason} {count}" for reason, count in ledger.gaps.items() if count)
                print(f"{consumer.name:<19} {channel:<18} {last:>8}   {ledger.frames:>8}   {ledger.lost:>8}   {why:<22} "
                      f"{self.check(same, f'{consumer.name}, {channel}: other points'):<7} "
                      f"{self.check(whole and ledger.frames > 0, f'{consumer.name}, {channel}: {vars(ledger)}'[:300])}")
        metrics = self.bridge.metrics()
        total = {what: int(harness.sum_of(metrics, f"simbridge_session_{what}_frames_total"))
                 for what in ("received", "published", "duplicate", "rejected", "promised", "delivered", "skipped", "gap")}
        print(f"\nall: {total['received']} received = {total['published']} published + {total['duplicate']} duplicate + "
              f"{total['rejected']} rejected")
        print(f"all: {total['promised']} promised = {total['delivered']} delivered + {total['skipped']} skipped + "
              f"{total['gap']} lost")
        came = sum(ledger.frames for one in self.consumers.values() for ledger in one.ledgers.values())
        self.check(total["received"] == total["published"] + total["duplicate"] + total["rejected"], "totals of channels")
        self.check(total["promised"] == total["delivered"] + total["skipped"] + total["gap"], "totals of consumers")
        self.check(total["delivered"] == came, f"{total['delivered']} delivered, {came} came")

    async def part(self):
        await self.flat_sensor.goodbye()
        for consumer in self.consumers.values():
            counters = await consumer.unsubscribe()
            books = consumer.session_books
            self.check((counters.delivered, counters.lost) == (books["frames"], books["lost"]),
                       f"{consumer.name}: {counters}, {dict(books)}")
            await consumer.close()
        harness.assert_nobody_left(self.bridge)
        code = self.bridge.stop()
        self.check(code == 0, f"the bridge ended with {code}")

    async def play(self):
        try:
            await self.stream()
            self.settle()
            await self.part()
        finally:
            kill_all(self.children.values())


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=20)
    seconds = arguments.parse_args().seconds
    if any(harness.recordings(*names) is None for _, names in SENSORS.values()):
        return NOTHING_TO_SEND
    with tempfile.TemporaryDirectory() as folder, harness.Bridge({"frame.budget_bytes": 512 * MiB}) as bridge:
        demo = MixedRoads(bridge, Path(folder), seconds)
        harness.run(demo.play(), seconds + 120)
        if demo.wrong:
            print("\nNOT balanced:")
            for sentence in demo.wrong:
                print(f"  - {sentence}")
            return 1
    print("\nBalanced to the frame on every road, and the points are the same by all of them.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
