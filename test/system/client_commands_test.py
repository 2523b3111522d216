"""`send`, `watch`, `info` and `health` as programs: what they print, how they end, and that nothing is lost
or doubled when connections break, programs are killed and the bridge restarts."""

import hashlib
import json
import random
import selectors
import signal
import socket
import subprocess
import threading
import time

import harness
from harness import Bridge, assert_at_rest, spawn, wait_until
from programs import Send, Watch

CLOUD = b"""VERSION 0.7
FIELDS x y z intensity
SIZE 4 4 4 4
TYPE F F F F
COUNT 1 1 1 1
WIDTH %d
HEIGHT 1
POINTS %d
DATA binary
"""


def run(*arguments, timeout=30.0):
    """A command to its end: exit code, stdout, stderr."""
    done = subprocess.run([harness.program(), *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def make_clouds(folder, count=3, points=500, seed=1):
    """PCD files of our own, so that these tests need no recordings."""
    generator = random.Random(seed)
    files = []
    for index in range(count):
        size = points + index
        file = folder / f"cloud{index}.pcd"
        file.write_bytes(CLOUD % (size, size) + generator.randbytes(16 * size))
        files.append(file)
    return files


def sha256_of(file):
    return hashlib.sha256(harness.pcd_data(file)).hexdigest()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class CuttingProxy:
    """Passes bytes on, and breaks each of the first connections after so many of them, both ways at once."""

    def __init__(self, url, budgets):
        host, port = url.removeprefix("ws://").split("/")[0].rsplit(":", 1)
        self._target = (host, int(port))
        self._budgets = list(budgets)
        self.cuts = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"ws://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            budget = self._budgets.pop(0) if self._budgets else None
            threading.Thread(target=self._pass_on, args=(client, budget), daemon=True).start()

    def _pass_on(self, client, budget):
        with client, socket.create_connection(self._target) as bridge, selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, bridge)
            selector.register(bridge, selectors.EVENT_READ, client)
            while True:
                for key, _ in selector.select():
                    try:
                        data = key.fileobj.recv(65536)
                        if not data:
                            return
                        if budget is not None:
                            data = data[:budget]
                            budget -= len(data)
                        key.data.sendall(data)
                    except OSError:
                        return
                    if budget == 0:
                        self.cuts += 1
                        return

    def close(self):
        self._server.close()


# ---- what they print


def test_every_frame_of_send_comes_out_of_watch_with_its_hash(tmp_path):
    files = make_clouds(tmp_path)
    with Bridge() as bridge:
        code, out, err = run("send", "--to", bridge.url, "--channel", "lidar/points", "--count", 7, "--json", "--loop", *files)
        assert code == 0, err
        summary = lines_of(out)[-1]
        assert (summary["sent"], summary["acknowledged"], summary["rejected"], summary["reconnects"]) == (7, 7, 0, 0)
        assert "7 sent, 7 acknowledged, 0 rejected" in err
        code, out, err = run("watch", "--from", bridge.url, "lidar/*", "--json", "--sha256", "--count", 7, "--history", "all")
        assert code == 0, err
        entries = lines_of(out)
        frames = [entry for entry in entries if entry["type"] == "frame"]
        assert [frame["sequence"] for frame in frames] == [1, 2, 3, 4, 5, 6, 7]
        for index, frame in enumerate(frames):
            file = files[index % 3]
            assert list(frame) == ["type", "channel", "epoch", "sequence", "points_in", "points_out", "decimator", "leaf",
                                   "bytes", "age_ms", "sha256"]
            assert frame["channel"] == "lidar/points"
            assert frame["epoch"] == summary["channels"][0]["epoch"]
            assert frame["points_in"] == frame["points_out"] == 500 + index % 3
            assert frame["bytes"] == 16 * frame["points_in"]
            assert frame["decimator"] == "none" and frame["leaf"] == 0
            assert 0 <= frame["age_ms"] < 60000
            assert frame["sha256"] == sha256_of(file)
        end = entries[-1]
        assert end["type"] == "end" and end["reason"] == "count"
        books = end["subscriptions"][0]
        assert books["ended"]
        assert books["promised"] == books["delivered"] + books["skipped"] + books["lost"]
        assert books["delivered"] == books["received"] == 7
        assert_at_rest(bridge)


def test_the_real_recordings_arrive_as_their_files_say():
    paths = harness.recordings("velodyne/vlp16_scan0.pcd", "ouster/os1_32_organized_stride48.pcd",
                               "ouster/os1_128_dense_frame0.pcd", "velodyne/vls128_1585897255376374245.pcd")
    if paths is None:
        return
    with Bridge() as bridge:
        code, _, err = run("send", "--to", bridge.url, "--channel", "a", "--checksum", *paths)
        assert code == 0, err
        code, out, err = run("watch", "--from", bridge.url, "a", "--json", "--sha256", "--count", 4, "--history", "all")
        assert code == 0, err
        frames = [entry for entry in lines_of(out) if entry["type"] == "frame"]
        assert [frame["sha256"] for frame in frames] == [sha256_of(path) for path in paths]
        assert [frame["points_in"] for frame in frames] == [14692, 32768, 107647, 208680]


def test_the_simulated_lidar_and_its_telemetry_are_two_channels():
    with Bridge() as bridge:
        code, out, err = run("send", "--to", bridge.url, "--channel", "sim", "--simulate", "lidar", "--telemetry", 100,
                             "--rings", 8, "--azimuths", 64, "--rate", 100, "--count", 5, "--json", "--quiet")
        assert code == 0 and err == "", err
        assert lines_of(out)[-1]["sent"] == 10
        channels = {channel["name"]: channel["published"] for channel in bridge.api("channels")}
        assert channels == {"sim": 5, "sim/telemetry": 5}
        code, out, _ = run("watch", "--from", bridge.url, "sim", "--json", "--sha256", "--history", "all", "--count", 5)
        first = [frame["sha256"] for frame in lines_of(out) if frame["type"] == "frame"]
        assert code == 0 and len(set(first)) == 5
        # The same seed again, as another life of the channel: the same points.
        run("send", "--to", bridge.url, "--channel", "again", "--simulate", "lidar", "--rings", 8, "--azimuths", 64,
            "--rate", 100, "--count", 5)
        _, out, _ = run("watch", "--from", bridge.url, "again", "--json", "--sha256", "--history", "all", "--count", 5)
        assert [frame["sha256"] for frame in lines_of(out) if frame["type"] == "frame"] == first


def test_watch_without_json_draws_plain_lines_when_it_is_no_terminal(tmp_path):
    with Bridge() as bridge:
        run("send", "--to", bridge.url, "--channel", "lidar", *make_clouds(tmp_path))
        code, out, err = run("watch", "--from", bridge.url, "--history", "all", "--for", 1)
        assert code == 0, err
        lines = out.splitlines()
        assert lines[0].split() == ["channel", "Hz", "points", "MB/s", "age", "ms", "gaps"]
        assert lines[-1].split()[0] == "lidar" and "\x1b" not in out
        assert "3 promised = 3 delivered + 0 skipped + 0 lost" in err


def test_info_and_health_say_what_the_bridge_says(tmp_path):
    with Bridge() as bridge:
        run("send", "--to", bridge.url, "--channel", "lidar", "--policy", "backpressure", "--latched", *make_clouds(tmp_path))
        code, out, _ = run("info", bridge.url, "--json")
        info = json.loads(out)
        assert code == 0 and info["welcome"]["bridge"] == "simbridge"
        assert [channel["name"] for channel in info["channels"]] == ["lidar"]
        channel = info["channels"][0]
        assert (channel["live"], channel["latched"], channel["policy"]) == (False, True, "backpressure")
        assert channel["last_sequence"] == 3
        code, out, _ = run("info", bridge.url)
        assert code == 0 and '"lidar" idle backpressure latched' in out
        code, out, _ = run("info", bridge.admin, "--json")
        assert code == 0 and json.loads(out) == bridge.api("limits")
        code, out, _ = run("info", bridge.admin)
        assert code == 0 and json.loads(out) == bridge.api("limits") and len(out.splitlines()) > 5
        assert run("health", bridge.admin)[0] == 0


# ---- how they end


def test_wrong_options_are_code_2_with_one_sentence(tmp_path):
    url = "ws://127.0.0.1:1"
    file = make_clouds(tmp_path, 1)[0]
    state = tmp_path / "state"
    state.write_text("something else\n")
    for arguments, says in [
            (["send", "--to", "ws+flat://h:8080", "--channel", "a", file], "ws+flat://"),
            (["send", "--to", "ws+flat://h", "--channel", "a", file], "ws+flat://"),
            (["send", "--to", "http://h", "--channel", "a", file], "ws://"),
            (["send", "--to", url, "--channel", "a"], "nothing to send"),
            (["send", "--to", url, "--channel", "a", "--simulate", "lidar", file], "exclude"),
            (["send", "--to", url, "--channel", "a", tmp_path / "none.pcd"], "none.pcd"),
            (["send", "--to", url, "--channel", "a*", file], "a channel's name is"),
            (["watch", "--from", url, "x" * 300], "a pattern is"),
            (["send", "--to", url, "--channel", "a", "--state", state, file], "line 1"),
            (["send", "--to", url, "--channel", "a", "--state", "/nonexistent/state", file], "/nonexistent/state"),
            (["watch", "--from", "wss://h", "a"], "TLS"),
            (["watch", "--from", url, "a", "--history", "sometimes"], "sometimes"),
            (["watch", "--from", url, "a*", "--history", "from", "1:2"], "NAME=EPOCH:SEQ"),
            (["watch", "--from", url, "a", "--sha256"], "--json"),
            (["info", "ws+flat://h"], "ws+flat://"),
            (["health", "ws://h"], "http://")]:
        code, out, err = run(*arguments)
        assert code == 2, (arguments, code, err)
        assert out == "" and says in err, (arguments, err)


def test_nobody_there_is_code_3_at_once():
    url = f"ws://127.0.0.1:{free_port()}"
    for arguments in (["send", "--to", url, "--channel", "a", "--telemetry", 8], ["watch", "--from", url, "a"],
                      ["info", url], ["info", url.replace("ws", "http")], ["health", url.replace("ws", "http")]):
        begin = time.monotonic()
        code, out, err = run(*arguments)
        assert code == 3, (arguments, err)
        assert "127.0.0.1" in err
        assert time.monotonic() - begin < 15


def test_a_server_that_never_answers_is_code_3():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert run("health", f"http://127.0.0.1:{port}", "--timeout", 0.3)[0] == 3
        assert run("info", f"ws://127.0.0.1:{port}", "--timeout", 0.3)[0] == 3


def test_a_refusal_is_code_4(tmp_path):
    files = make_clouds(tmp_path, 1)
    with Bridge() as bridge:
        code, _, err = run("send", "--to", bridge.url + "/../other", "--channel", "a", *files)
        assert code == 4 and "404" in err, err
        holder = Send(bridge.url, "held", options=["--telemetry", 8, "--rate", 10])
        wait_until(lambda: bridge.api("channels"), what="the channel is held")
        code, _, err = run("send", "--to", bridge.url, "--channel", "held", *files)
        assert code == 4 and "NAME_TAKEN" in err, err
        assert holder.finish() == 0


def test_a_frame_that_is_refused_is_counted_and_said(tmp_path):
    good, = make_clouds(tmp_path, 1)
    bad = tmp_path / "no_z.pcd"
    bad.write_bytes(b"FIELDS a b\nSIZE 4 4\nTYPE F F\nWIDTH 1\nHEIGHT 1\nPOINTS 1\nDATA ascii\n1 2\n")
    with Bridge() as bridge:
        code, out, err = run("send", "--to", bridge.url, "--channel", "a", "--json", good, bad, good)
        assert code == 4, err
        summary = lines_of(out)[-1]
        assert (summary["sent"], summary["acknowledged"], summary["rejected"]) == (3, 2, 1)
        assert "frame 2 refused: FIELD" in err
        channel, = bridge.api("channels")
        assert (channel["received"], channel["published"], channel["rejected"]) == (3, 2, 1)
        code, out, _ = run("watch", "--from", bridge.url, "a", "--json", "--history", "all", "--count", 2)
        gap, = [entry for entry in lines_of(out) if entry["type"] == "gap"]
        assert list(gap) == ["type", "channel", "epoch", "first", "last", "frames", "reason"]
        assert (gap["first"], gap["last"], gap["frames"], gap["reason"]) == (2, 2, 0, "REJECTED")


def test_a_broken_recording_is_refused_with_line_or_byte_before_anything_is_sent(tmp_path):
    good, = make_clouds(tmp_path, 1)
    short = tmp_path / "short.pcd"
    short.write_bytes(good.read_bytes()[:-1])
    lying = tmp_path / "lying.pcd"
    lying.write_bytes(good.read_bytes().replace(b"POINTS 500", b"POINTS 501"))
    with Bridge() as bridge:
        for file, says in ((short, "short.pcd: byte "), (lying, "lying.pcd: line 8: POINTS 501 is not WIDTH 500")):
            code, _, err = run("send", "--to", bridge.url, "--channel", "a", good, file)
            assert code == 2 and says in err, err
        assert bridge.api("channels") == []


def test_signals_end_both_cleanly():
    with Bridge() as bridge:
        for number in (signal.SIGINT, signal.SIGTERM):
            send = Send(bridge.url, f"a{number}", options=["--telemetry", 64, "--rate", 200])
            watch = Watch(bridge.url, f"a{number}", "watch")
            wait_until(lambda: watch.reached(f"a{number}", 20), what="frames come")
            send.process.send_signal(number)
            assert send.finish(ask=False) == 0
            assert send.summary["unacknowledged"] == 0
            assert send.summary["sent"] == send.summary["acknowledged"]
            last = send.last_sequence(f"a{number}")
            wait_until(lambda: watch.reached(f"a{number}", last), what="the last frame came")
            watch.process.send_signal(number)
            assert watch.finish(ask=False) == 0
            assert watch.end["reason"] == "signal"
            books = watch.end["subscriptions"][0]
            assert books["ended"] and books["delivered"] == books["received"] == watch.books["frames"]
        assert_at_rest(bridge)


def test_watch_ends_when_its_reader_is_gone(tmp_path):
    with Bridge() as bridge:
        run("send", "--to", bridge.url, "--channel", "a", *make_clouds(tmp_path))
        watch = spawn([harness.program(), "watch", "--from", bridge.url, "a", "--json", "--history", "all"],
                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert watch.stdout.readline()
        watch.stdout.close()
        # It notices when it next has something to say.
        assert run("send", "--to", bridge.url, "--channel", "a", "--count", 5, "--loop", *make_clouds(tmp_path))[0] == 0
        assert watch.wait(15) != 0


# ---- what they survive


def test_a_connection_that_breaks_at_any_byte_loses_and_doubles_nothing(tmp_path):
    seed = harness.seed()
    generator = random.Random(seed)
    files = make_clouds(tmp_path, 3, 2000)
    with Bridge() as bridge:
        producer_line = CuttingProxy(bridge.url, [generator.randrange(500, 150_000) for _ in range(8)])
        consumer_line = CuttingProxy(bridge.url, [generator.randrange(500, 150_000) for _ in range(8)])
        watch = Watch(consumer_line.url, "a", "watch", options=["--reconnect", "--queue-frames", "1000"])
        send = Send(producer_line.url, "a", files, rate=100, count=60)
        assert send.finish(60, ask=False) == 0, send.words()
        assert send.summary["acknowledged"] == 60 and send.summary["reconnects"] >= 1
        wait_until(lambda: watch.reached("a", 60), 30, "the last frame came")
        assert watch.finish() == 0, watch.words()
        ledger = watch.ledgers["a"]
        assert producer_line.cuts >= 1 and consumer_line.cuts >= 1
        # The ledger fails on anything doubled or out of order; here nothing may be missing either.
        assert ledger.lost == 0 and ledger.covers(ledger.epoch, 1, 60)
        hashes = [sha256_of(file) for file in files]
        assert ledger.digests == {(ledger.epoch, number): hashes[(number - 1) % 3] for number in range(1, 61)}
        channel, = bridge.api("channels")
        assert channel["published"] == 60 and channel["rejected"] == 0
        assert channel["received"] == channel["published"] + channel["duplicate"]
        producer_line.close()
        consumer_line.close()
        assert_at_rest(bridge)


def test_a_sender_that_was_killed_goes_on_with_its_state(tmp_path):
    files = make_clouds(tmp_path, 3, 2000)
    state = tmp_path / "state"
    with Bridge() as bridge:
        watch = Watch(bridge.url, "a", "watch", options=["--queue-frames", "1000"])
        epochs = set()
        for _ in range(4):
            send = Send(bridge.url, "a", files, rate=200, state=state)
            before = watch.ledgers["a"].last() if "a" in watch.ledgers else 0
            wait_until(lambda: watch.reached("a", before + 30), 20, "frames come")
            send.kill()
            epochs.add(watch.ledgers["a"].epoch)
        send = Send(bridge.url, "a", files, rate=200, state=state, count=10)
        assert send.finish(ask=False) == 0, send.words()
        last = send.last_sequence("a")
        wait_until(lambda: watch.reached("a", last), 20, "the last frame came")
        assert watch.finish() == 0
        assert len(epochs) == 1 and watch.books == {"frames": last}
        channel, = bridge.api("channels")
        assert channel["published"] == last
        assert f"{last} a" in state.read_text()


def test_a_bridge_that_is_killed_and_comes_back_is_found_again_by_both():
    port = free_port()
    with Bridge({"websocket.port": port}) as bridge:
        send = Send(bridge.url, "a", options=["--telemetry", 100, "--rate", 100])
        watch = Watch(bridge.url, "a", "watch", options=["--reconnect", "--queue-frames", "1000"])
        wait_until(lambda: watch.reached("a", 30), 20, "frames come")
        bridge.process.kill()
        bridge.process.wait()
        bridge.ended = True
        before = watch.ledgers["a"].last()
        with Bridge({"websocket.port": port}) as second:
            wait_until(lambda: watch.reached("a", before + 50), 20, "frames come again")
            assert send.finish() == 0, send.words()
            last = send.last_sequence("a")
            wait_until(lambda: watch.reached("a", last), 20, "the last frame came")
            assert watch.finish() == 0, watch.words()
            assert send.summary["reconnects"] == 1 and watch.end["reconnects"] == 1
            assert send.summary["unacknowledged"] == 0
            assert_at_rest(second)


def test_a_drain_is_told_and_waited_out_by_both():
    port = free_port()
    knobs = {"websocket.port": port, "drain.deadline_ms": "2s", "drain.retry_after_ms": "200ms"}
    with Bridge(knobs) as bridge:
        send = Send(bridge.url, "a", options=["--telemetry", 100, "--rate", 100])
        watch = Watch(bridge.url, "a", "watch", options=["--reconnect", "--queue-frames", "1000"])
        other = Watch(bridge.url, "a", "other")
        wait_until(lambda: watch.reached("a", 30) and other.reached("a", 30), 20, "frames come")
        assert bridge.stop() == 0
        assert other.finish(ask=False) == 0, other.words()
        assert other.drain["retry_after_ms"] > 0 and other.end["reason"] == "drained"
        before = watch.ledgers["a"].last()
        with Bridge(knobs):
            wait_until(lambda: watch.reached("a", before + 50), 20, "frames come again")
            assert send.finish() == 0, send.words()
            last = send.last_sequence("a")
            wait_until(lambda: watch.reached("a", last), 20, "the last frame came")
            assert watch.finish() == 0, watch.words()
            assert watch.drain is not None
            assert send.summary["unacknowledged"] == 0


def test_a_stopped_reliable_watcher_holds_a_backpressure_channel_and_gets_everything():
    with Bridge({"frame.budget_bytes": "64MiB"}) as bridge:
        watch = Watch(bridge.url, "a", "watch", options=["--reliable"])
        wait_until(lambda: bridge.api("sessions"), what="the watcher is there")
        send = Send(bridge.url, "a", count=600, options=["--telemetry", 300_000, "--rate", 2000, "--policy", "backpressure"])
        wait_until(lambda: watch.reached("a", 10), 20, "frames come")
        watch.process.send_signal(signal.SIGSTOP)
        # Held up: what was published stands still although the sender wants on.
        def published():
            return bridge.api("channels")[0]["published"]
        wait_until(lambda: published() < 600 and published() == (time.sleep(0.3), published())[1], 20, "it stands still")
        watch.process.send_signal(signal.SIGCONT)
        assert send.finish(60, ask=False) == 0, send.words()
        wait_until(lambda: watch.reached("a", 600), 30, "the last frame came")
        assert watch.finish() == 0, watch.words()
        assert watch.books == {"frames": 600}
        channel, = bridge.api("channels")
        assert channel["published"] == 600


def test_frames_above_the_message_size_travel_in_parts_both_ways(tmp_path):
    files = make_clouds(tmp_path, 2, 40_000)
    with Bridge({"session.max_message_bytes": "64KiB"}) as bridge:
        code, _, err = run("send", "--to", bridge.url, "--channel", "a", "--checksum", *files)
        assert code == 0, err
        code, out, err = run("watch", "--from", bridge.url, "a", "--json", "--sha256", "--history", "all", "--count", 2)
        assert code == 0, err
        frames = [entry for entry in lines_of(out) if entry["type"] == "frame"]
        assert [frame["sha256"] for frame in frames] == [sha256_of(file) for file in files]
    with Bridge() as bridge:  # only the consumer wants small messages
        assert run("send", "--to", bridge.url, "--channel", "a", *files)[0] == 0
        code, out, err = run("watch", "--from", bridge.url, "a", "--json", "--sha256", "--history", "all", "--count", 2,
                             "--max-message-bytes", 70_000)
        assert code == 0, err
        frames = [entry for entry in lines_of(out) if entry["type"] == "frame"]
        assert [frame["sha256"] for frame in frames] == [sha256_of(file) for file in files]


def test_watch_takes_what_its_options_ask_for():
    with Bridge() as bridge:
        send = Send(bridge.url, "a", count=40, options=["--telemetry", 8, "--rate", 0])
        assert send.finish(ask=False) == 0
        epoch = send.summary["channels"][0]["epoch"]
        for history, first in ((["last"], 40), (["all"], 1), (["from", f"{epoch}:35"], 36), (["from", f"a={epoch}:38"], 39)):
            code, out, _ = run("watch", "--from", bridge.url, "a", "--json", "--count", 41 - first, "--history", *history)
            assert code == 0
            frames = [entry["sequence"] for entry in lines_of(out) if entry["type"] == "frame"]
            assert frames == list(range(first, 41)), history
        code, out, _ = run("watch", "--from", bridge.url, "a", "--json", "--for", 0.5, "--history", "none")
        assert code == 0 and lines_of(out)[-1]["frames"] == 0
        send = Send(bridge.url, "b", options=["--telemetry", 8, "--rate", 100])
        wait_until(lambda: len(bridge.api("channels")) == 2, what="the second channel is there")
        code, out, _ = run("watch", "--from", bridge.url, "b", "--json", "--for", 2, "--max-hz", 10, "--history", "none")
        end = lines_of(out)[-1]
        # 20 frames of about 200; a busy machine makes both fewer.
        assert code == 0 and 1 <= end["frames"] <= 28
        assert end["subscriptions"][0]["skipped"] > 2 * end["frames"]
        code, out, _ = run("watch", "--from", bridge.url, "b", "--json", "--count", 50, "--credit", 3, "--history", "all")
        assert code == 0 and lines_of(out)[-1]["frames"] >= 50
        code, out, _ = run("watch", "--from", bridge.url, "b", "--json", "--for", 0.3, "--count", 100_000)
        assert code == 1  # the count was not reached
        assert send.finish() == 0
        assert_at_rest(bridge)


if __name__ == "__main__":
    harness.main(__file__)
