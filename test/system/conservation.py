#!/usr/bin/env python3
"""Two sensors, three consumers, a stall, a killed producer, a killed consumer; in the end every book balances.

    conservation.py [--seconds N]      exit code 0: balanced; 1: not; 77: no recordings

`simbridge send` streams the Ouster and the Velodyne recordings at 20 Hz. Consumers: `simbridge watch` twice
(viewer, recorder) and the Python client (analyst). The Ouster sensor is killed (-9) and comes back with its
--state file; the recorder is killed and comes back from the numbers it had printed; the analyst stops reading.
"""

import argparse
import asyncio
import collections
import sys
import tempfile
import time
from pathlib import Path

import harness
from bridge_client import Consumer, sha256
from harness import MiB
from programs import Send, Watch, kill_all

import bridge_pb2 as pb

RATE_HZ = 20
NOTHING_TO_SEND = 77
FILES = {
    "ouster/points": ["ouster/os1_128_dense_frame0.pcd", "ouster/os1_128_dense_frame1.pcd",
                      "ouster/os1_128_dense_frame2.pcd", "ouster/os1_32_organized_stride48.pcd"],
    "velodyne/points": ["velodyne/vlp16_scan0.pcd", "velodyne/vlp16_scan1.pcd", "velodyne/vlp16_scan2.pcd"],
}
KILLED_SENSOR = "ouster/points"


class Demo:
    def __init__(self, bridge, folder, seconds):
        self.bridge = bridge
        self.seconds = seconds
        self.started = time.monotonic()
        self.state = {channel: folder / (channel.replace("/", "_") + ".state") for channel in FILES}
        self.files = {channel: harness.recordings(*names) for channel, names in FILES.items()}
        self.expected = {channel: [sha256(harness.pcd_data(path)) for path in paths]
                         for channel, paths in self.files.items()}
        self.sensors = {}
        self.last = {}          # channel -> the number that its producer had acknowledged last
        self.analyst = Consumer(bridge.url, "*/points", name="analyst", history=pb.HISTORY_ALL_KEPT)
        self.children = []
        self.first_recorder = None
        self.wrong = []

    def say(self, text):
        print(f"{time.monotonic() - self.started:6.1f} s  {text}", flush=True)

    def check(self, holds, sentence):
        if not holds:
            self.wrong.append(sentence)
        return "yes" if holds else "NO"

    def start_sensor(self, channel):
        sensor = Send(self.bridge.url, channel, self.files[channel], rate=RATE_HZ, state=self.state[channel])
        self.children.append(sensor)
        self.sensors[channel] = sensor

    def start_watch(self, name, ledgers=None):
        # May trail by two seconds, so that a busy machine costs them little; the analyst keeps the default.
        watch = Watch(self.bridge.url, "*/points", name, ledgers, ["--queue-frames", 2 * RATE_HZ])
        self.children.append(watch)
        return watch

    async def stream(self):
        self.viewer = self.start_watch("viewer")
        self.recorder = self.start_watch("recorder")
        await self.analyst.connect()
        await harness.until(lambda: len(self.bridge.api("sessions")) == 3, 15, "three consumers")
        await harness.until(lambda: self.bridge.metric("simbridge_session_subscriptions") == 3, 15, "three subscriptions")
        for channel in FILES:
            self.start_sensor(channel)
        self.started = time.monotonic()
        self.say(f"two sensors at {RATE_HZ} Hz, three consumers, for {self.seconds} s")
        for share, step in ((0.20, self.stall), (0.35, self.kill_sensor), (0.45, self.revive_sensor),
                            (0.50, self.go_on), (0.60, self.kill_recorder), (0.70, self.revive_recorder)):
            await self.until_share(share)
            step()
        await self.until_share(1.0)
        await self.stop_sensors()

    async def until_share(self, share):
        await asyncio.sleep(max(0.0, self.started + share * self.seconds - time.monotonic()))

    def stall(self):
        self.analyst.stall()
        self.say("the analyst stops reading")

    def go_on(self):
        self.analyst.go_on()
        self.say("the analyst reads again")

    def kill_sensor(self):
        self.sensors[KILLED_SENSOR].kill()
        self.say(f"kill -9 of the sensor of {KILLED_SENSOR}")

    def revive_sensor(self):
        self.start_sensor(KILLED_SENSOR)
        self.say(f"the sensor of {KILLED_SENSOR} comes back with its state file")

    def kill_recorder(self):
        self.recorder.kill()
        self.first_recorder = self.recorder
        self.say(f"kill -9 of the recorder, after {self.recorder.books['frames']} frames")

    def revive_recorder(self):
        if self.first_recorder.failure:
            raise self.first_recorder.failure
        self.recorder = self.start_watch("recorder", self.first_recorder.ledgers)
        self.say("the recorder comes back, from the last numbers it had printed")

    async def stop_sensors(self):
        for channel, sensor in self.sensors.items():
            code = await asyncio.to_thread(sensor.finish)
            self.check(code == 0, f"the sensor of {channel} ended with {code}: {sensor.words()[-300:]}")
            self.check(sensor.summary["unacknowledged"] == 0, f"{channel}: not everything was acknowledged")
            self.last[channel] = sensor.last_sequence(channel)
        self.say("both sensors have ended, all acknowledged")
        for channel, last in self.last.items():
            await self.analyst.until_sequence(channel, last, 30)
            for watch in (self.viewer, self.recorder):
                await harness.until(lambda w=watch: w.reached(channel, last), 30,
                                    f"number {last} of {channel} at the {watch.name}")
        await harness.at_rest(self.bridge)

    # ---- the books

    def settle(self):
        print("\nchannel              numbers   received = published + duplicate + rejected   balanced")
        for row in self.bridge.api("channels"):
            last = self.last[row["name"]]
            holds = (row["received"] == row["published"] + row["duplicate"] + row["rejected"] and
                     row["published"] == last and row["rejected"] == 0)
            print(f"{row['name']:<18} {last:>9} {row['received']:>10}   {row['published']:>9} {row['duplicate']:>11} "
                  f"{row['rejected']:>10}   {self.check(holds, f'{row} with {last} numbers')}")
        self.check(len(self.bridge.api("channels")) == len(FILES), "there are other channels")

        print("\nconsumer  channel             numbers =   frames +     lost   why lost                       "
              "hashes  balanced")
        for name, ledgers in (("viewer", self.viewer.ledgers), ("recorder", self.recorder.ledgers),
                              ("analyst", self.analyst.ledgers)):
            for channel, last in self.last.items():
                self.settle_ledger(name, channel, last, ledgers[channel])

        print("\nthe bridge, of each subscription  promised = delivered + skipped +   lost   agrees with the consumer")
        names = {row["id"]: row["name"] for row in self.bridge.api("sessions")}
        found = collections.defaultdict(list)
        for row in self.bridge.api("subscriptions"):
            found[names[row["session"]]].append(row)
        own = {"viewer": self.viewer.books, "recorder": self.recorder.books, "analyst": self.analyst.session_books}
        for name, books in own.items():
            rows = found.pop(name, [])
            total = {key: sum(row[key] for row in rows) for key in ("promised", "delivered", "skipped", "lost")}
            holds = (total["promised"] == total["delivered"] + total["skipped"] + total["lost"] and
                     total["delivered"] == books["frames"] and total["lost"] == books["lost"])
            print(f"{name:<33} {total['promised']:>9} {total['delivered']:>11} {total['skipped']:>9} "
                  f"{total['lost']:>8}   {self.check(holds, f'{name}: bridge {total}, consumer {dict(books)}')}")
        self.check(not found, f"there are other subscriptions: {dict(found)}")
        self.settle_totals(own)

    def settle_ledger(self, name, channel, last, ledger):
        expected = self.expected[channel]
        same = all(digest == expected[(sequence - 1) % len(expected)]
                   for (_, sequence), digest in ledger.digests.items())
        whole = (len(ledger.first) == 1 and ledger.covers(ledger.epoch, 1, last) and
                 ledger.frames + ledger.lost == last and ledger.lost == sum(ledger.gaps.values()) and
                 not ledger.explained)
        why = " ".join(f"{reason} {count}" for reason, count in ledger.gaps.items() if count)
        print(f"{name:<9} {channel:<18} {last:>8}   {ledger.frames:>8}   {ledger.lost:>8}   {why:<30} "
              f"{self.check(same, f'{name}, {channel}: a payload is not the file'):<7} "
              f"{self.check(whole, f'{name}, {channel}: {vars(ledger)}'[:300])}")

    def settle_totals(self, own):
        """All sessions of the run, the killed one included, as /metrics counts them."""
        metrics = self.bridge.metrics()
        total = {what: int(harness.sum_of(metrics, f"simbridge_session_{what}_frames_total"))
                 for what in ("received", "published", "duplicate", "rejected", "promised", "delivered", "skipped", "gap",
                              "broken_off")}
        cut = total["broken_off"]
        killed = total["delivered"] - sum(books["frames"] for books in own.values())
        printed = self.first_recorder.books["frames"]
        print(f"\nall sessions: {total['received']} received = {total['published']} published + {total['duplicate']} "
              f"duplicate + {total['rejected']} rejected")
        print(f"all sessions: {total['promised']} promised = {total['delivered']} delivered + {total['skipped']} skipped + "
              f"{total['gap']} lost + {cut} cut off by the kill")
        print(f"the killed recorder: {killed} delivered to its socket, {printed} printed; the {killed - printed} between "
              "were told anew in its second life")
        self.check(total["received"] == total["published"] + total["duplicate"] + total["rejected"], "totals of channels")
        self.check(total["promised"] == total["delivered"] + total["skipped"] + total["gap"] + cut, "totals of consumers")
        self.check(total["published"] == sum(self.last.values()), "published is not what the sensors counted")
        self.check(killed >= printed, "the killed recorder printed what was not delivered")
        lost_by_others = sum(books["lost"] for books in own.values()) + self.first_recorder.books["lost"]
        self.check(total["gap"] >= lost_by_others, "gaps were told that the bridge did not count")
        self.check(0 <= cut <= 32, f"{cut} frames cut off: more than one batch")

    async def part(self):
        """Everybody leaves; the last words agree too."""
        counters = await self.analyst.unsubscribe()
        self.check((counters.delivered, counters.lost) ==
                   (self.analyst.session_books["frames"], self.analyst.session_books["lost"]),
                   f"the analyst's last SubscriptionState: {counters}")
        await self.analyst.close()
        for watch in (self.viewer, self.recorder):
            code = await asyncio.to_thread(watch.finish)
            self.check(code == 0, f"the {watch.name} ended with {code}: {watch.words()[-300:]}")
            for one in watch.end["subscriptions"]:
                self.check(one["promised"] == one["delivered"] + one["skipped"] + one["lost"] and
                           one["delivered"] == one["received_this_session"] == watch.books["frames"],
                           f"the {watch.name}'s last word: {one}")
        harness.assert_nobody_left(self.bridge)
        code = self.bridge.stop()
        self.check(code == 0, f"the bridge ended with {code}")

    async def play(self):
        try:
            await self.stream()
            self.settle()
            await self.part()
        finally:
            kill_all(self.children)
            if self.analyst.session:
                await self.analyst.break_off()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seconds", type=float, default=60)
    seconds = arguments.parse_args().seconds
    if seconds < 5:
        arguments.error("--seconds: at least 5")
    if any(harness.recordings(*names) is None for names in FILES.values()):
        return NOTHING_TO_SEND
    with tempfile.TemporaryDirectory() as folder, harness.Bridge({"frame.budget_bytes": 256 * MiB}) as bridge:
        demo = Demo(bridge, Path(folder), seconds)
        harness.run(demo.play(), seconds + 120)
        if demo.wrong:
            print("\nNOT balanced:")
            for sentence in demo.wrong:
                print(f"  - {sentence}")
            return 1
    print("\nBalanced to the frame: nothing vanished, nothing came twice, every payload is its file's.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
