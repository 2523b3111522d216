"""What several tests play, in short or for long."""

import asyncio
import time

import harness
from bridge_client import Consumer, Sensor, stop_task
from harness import MiB

import bridge_pb2 as pb


class Others:
    """A sensor and a consumer that behave while something else goes wrong; they must not notice.

        async with Others(bridge) as others: …
    """

    def __init__(self, bridge, channel="others/state", data_bytes=20_000, rate_hz=50):
        self.sensor = Sensor(bridge.url, channel)
        # As far behind as the ring is deep: a busy machine is not a loss.
        self.consumer = Consumer(bridge.url, channel, name="others", history=pb.HISTORY_ALL_KEPT, queue_frames=1000)
        self._data = bytes(data_bytes)
        self._period = 1 / rate_hz
        self._task = None
        self._enough = False

    async def __aenter__(self):
        await self.sensor.connect()
        await self.consumer.connect()
        self._task = asyncio.create_task(self._stream())
        await self.see_frames(3)
        return self

    async def _stream(self):
        while not self._enough:
            await self.sensor.publish(self._data)
            await asyncio.sleep(self._period)

    async def see_frames(self, count, timeout=20.0):
        """So many more frames come through now."""
        await self.consumer.until_sequence(self.sensor.channel, self.sensor.next_sequence + count, timeout)

    async def __aexit__(self, kind, error, trace):
        self._enough = True
        if kind is not None:
            await stop_task(self._task)
            await self.sensor.break_off()
            await self.consumer.break_off()
            return
        await self._task   # raises what it met
        await self.sensor.flush()
        last = self.sensor.next_sequence - 1
        await self.consumer.until_sequence(self.sensor.channel, last)
        ledger = self.consumer.ledgers[self.sensor.channel]
        assert ledger.covers(self.sensor.epoch, 1, last) and ledger.lost == 0, vars(ledger)
        await self.sensor.goodbye()
        await self.consumer.close()


async def play_stalled_consumer(bridge, seconds, frame_bytes=1_500_000, rate_hz=20):
    """One consumer stops reading while the others stream; afterwards its books balance as all others'."""
    sensor = await Sensor(bridge.url, "cloud/points").connect()
    steady = await Consumer(bridge.url, "cloud/points", name="steady", queue_frames=200, queue_bytes=1 << 40,
                            history=pb.HISTORY_ALL_KEPT).connect()
    stalled = await Consumer(bridge.url, "cloud/points", name="stalled", history=pb.HISTORY_ALL_KEPT,
                             receive_buffer=64 * 1024).connect()
    data = bytes(frame_bytes)
    async with Others(bridge):
        await sensor.publish(data)
        await stalled.until_sequence("cloud/points", 1)
        stalled.stall()
        held = 0
        end = time.monotonic() + seconds
        # On a busy machine so many frames take longer: it is they that must not fit into the buffers between.
        while time.monotonic() < end or sensor.next_sequence < 30:
            await sensor.publish(data)
            figures = await asyncio.to_thread(bridge.metrics)
            held = max(held, figures["simbridge_frame_lent_bytes"] + figures["simbridge_frame_pinned_bytes"])
            await asyncio.sleep(1 / rate_hz)
        await sensor.flush()  # its Acks did not wait for the one who does not read
        last = sensor.next_sequence - 1
        await steady.until_sequence("cloud/points", last)
        stalled.go_on()
        await stalled.until_sequence("cloud/points", last)
    # The few that were under way when it stopped, then a Gap, then the newest.
    ledger = stalled.ledgers["cloud/points"]
    assert ledger.covers(sensor.epoch, 1, last), vars(ledger)
    assert ledger.lost > 0 and set(ledger.gaps) <= {"QUEUE", "EVICTED"}, ledger.gaps
    assert steady.ledgers["cloud/points"].covers(sensor.epoch, 1, last)
    # Each consumer holds the frame that is being written to it, and no queue of them. While one is lent and
    # evicted it counts in both figures.
    assert held <= 4 * frame_bytes, held
    await harness.at_rest(bridge)
    harness.figure("stalled consumer: frames sent meanwhile", last - 1)
    harness.figure("stalled consumer: frames lost to it, each told", ledger.lost)
    harness.figure("stalled consumer: frame bytes that consumers held at most", int(held), "bytes")
    for one in (steady, stalled):
        counters = await one.unsubscribe()
        assert counters.promised == counters.delivered + counters.skipped + counters.lost
        assert counters.delivered == one.session_books["frames"]
        assert counters.lost == one.session_books["lost"]
        await one.close()
    await sensor.goodbye()


async def play_slow_consumer(bridge, seconds, budget, frame_bytes=5_000_000):
    """peers.md 58: a fast producer of 5 MB frames and a consumer too slow for it. Resident memory stays flat."""
    idle = bridge.rss()
    sensor = await Sensor(bridge.url, "fast/points").connect()
    slow = await Consumer(bridge.url, "fast/points", name="slow", receive_buffer=64 * 1024).connect()
    data = bytes(frame_bytes)
    samples = []
    end = time.monotonic() + seconds
    slow.stall()
    pause = frame_bytes / (150 * MiB)  # no more than 150 MiB/s: others use this machine too
    while time.monotonic() < end or sensor.next_sequence < 30:
        await sensor.publish(data)
        samples.append((time.monotonic(), bridge.rss()))
        await asyncio.sleep(pause)
        if sensor.next_sequence % 10 == 0:   # it reads in gulps
            slow.go_on()
            await asyncio.sleep(0.1)
            slow.stall()
    await sensor.flush()
    slow.go_on()
    last = sensor.next_sequence - 1
    await slow.until_sequence("fast/points", last, 30)
    ledger = slow.ledgers["fast/points"]
    assert ledger.covers(sensor.epoch, ledger.first[sensor.epoch], last)
    assert ledger.lost > 0, "it was not too slow"
    highest = max(rss for _, rss in samples)
    streamed = last * frame_bytes
    harness.figure("slow consumer: streamed", streamed // MiB, "MiB")
    harness.figure("slow consumer: resident before", idle // MiB, "MiB")
    harness.figure("slow consumer: resident at most", highest // MiB, "MiB")
    if not harness.SANITIZED:
        assert highest <= idle + budget + 64 * MiB, (idle, budget, highest)
    if streamed > 4 * budget:
        # Flat: the last third is no higher than the second, but for noise.
        third = len(samples) // 3
        second, rest = (max(rss for _, rss in part) for part in (samples[third:2 * third], samples[2 * third:]))
        harness.figure("slow consumer: growth in the last third", (rest - second) // 1024, "KiB")
        if not harness.SANITIZED:
            assert rest <= second + 16 * MiB, (second, rest)
    await harness.at_rest(bridge)
    await slow.close()
    await sensor.goodbye()
