"""`simbridge serve` as a process: configuration, ports, signals, drain, logs, and what the admin server says."""

import asyncio
import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import app_support
from app_support import PATIENCE, ROOT, Bridge, Peer, clean_environment, run, until

SEED = int(os.environ.get("SIMBRIDGE_TEST_SEED") or random.randrange(2**32))


class Configuration(unittest.TestCase):
    def test_a_bad_configuration_stops_the_start_with_one_sentence_and_code_2(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "simbridge.yaml")
            rows = [
                # file text, environment, arguments, what the sentence says
                (None, {}, ["--set", "frame.budget_bytes=9TiB"],
                 "simbridge: frame.budget_bytes: 9TiB is above 1TiB; set it between 8MiB and 1TiB (--set)"),
                (None, {}, ["--set", "frame.budgt_bytes=1GiB"], "did you mean frame.budget_bytes?"),
                (None, {}, ["--set", "nonsense"], "give it as key=value"),
                (None, {"SIMBRIDGE_LOG_LEVEL": "loud"}, [],
                 'log.level: "loud" is not one of: debug, info, warning, error (environment SIMBRIDGE_LOG_LEVEL)'),
                (None, {"SIMBRIDGE_LOG_LEVLE": "info"}, [], "did you mean SIMBRIDGE_LOG_LEVEL?"),
                ("websocket:\n  port: 70000\n", {}, [], f"70000 is above 65535; set it between 0 and 65535 ({file}:2)"),
                ("websocket: [", {}, [], f"{file}:"),
                (None, {}, ["--config", "/nowhere.yaml"], "--config /nowhere.yaml: No such file"),
                (None, {}, ["--set", "websocket.bind=0.0.0.0"], "set security.allow_anonymous: true"),
                (None, {}, ["--set", "websocket.bind=localhost"], "is not a numeric address"),
            ]
            for text, environment, arguments, says in rows:
                with self.subTest(says):
                    if text is not None:
                        file.write_text(text)
                        arguments = ["--config", str(file), *arguments]
                    code, out, err = run("serve", *arguments, environment=clean_environment(**environment))
                    self.assertEqual(code, 2, err)
                    self.assertEqual(out, "")
                    self.assertEqual(err.count("\n"), 1, err)
                    self.assertIn(says, err)

    def test_a_wrong_command_line_is_code_2_and_help_is_0(self):
        for arguments in ([], ["fly"], ["serve", "--wings"], ["send"], ["watch"], ["info"],
                          ["send", "--to", "ws://x", "--channel", "c", "--simulate", "radar"]):
            with self.subTest(arguments):
                code, out, err = run(*arguments)
                self.assertEqual(code, 2, err)
                self.assertEqual(out, "")
                self.assertTrue(err)
        for command in ("serve", "send", "watch", "info", "health", "version", "config"):
            code, out, err = run(command, "--help")
            self.assertEqual((code, err), (0, ""), command)
            self.assertIn(command, out)

    def test_config_prints_what_would_be_used_and_starts_nothing(self):
        code, out, _ = run("config", "--json", "--set", "frame.depth=7",
                           environment=clean_environment(SIMBRIDGE_SESSION_MAX_SESSIONS="3"))
        self.assertEqual(code, 0)
        knobs = {row["key"]: row for row in json.loads(out)}
        self.assertEqual(knobs["frame.depth"]["value"], 7)
        self.assertEqual(knobs["frame.depth"]["source"], "--set")
        self.assertEqual(knobs["session.max_sessions"]["value"], 3)
        self.assertEqual(knobs["websocket.port"]["value"], 8080)
        self.assertEqual(knobs["admin.port"]["value"], 8090)
        code, out, _ = run("config")
        self.assertEqual(code, 0)
        for key in knobs:
            self.assertIn(key, out)
        self.assertEqual(run("config", "--set", "frame.depth=0")[0], 2)

    def test_version_is_told_to_people_and_programs(self):
        code, out, _ = run("version", "--json")
        self.assertEqual(code, 0)
        version = json.loads(out)["version"]
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")
        self.assertIn(version, run("version")[1])


class Listening(unittest.TestCase):
    def test_port_0_is_chosen_printed_and_served_by_two_bridges_at_once(self):
        with Bridge() as one, Bridge() as two:
            self.assertEqual(len({one.websocket, one.admin, two.websocket, two.admin}), 4)
            for bridge in (one, two):
                self.assertEqual(bridge.get("/healthz"), (200, "ok\n"))
                self.assertEqual(bridge.get("/readyz"), (200, "ready\n"))

    def test_a_port_that_is_taken_is_code_2_and_named(self):
        with Bridge() as bridge:
            taken = {"websocket.port": bridge.websocket, "grpc.port": bridge.grpc, "admin.port": bridge.admin}
            for knob, url in taken.items():
                port = urllib.parse.urlsplit(url).port
                sets = [f"{each}={port if each == knob else 0}" for each in taken]
                code, out, err = run("serve", *(word for each in sets for word in ("--set", each)))
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn(f"{knob}: ", err)
                self.assertIn(str(port), err)
                self.assertIn("already in use", err)

    def test_beyond_loopback_it_listens_only_when_told_and_warns(self):
        with Bridge("websocket.bind=0.0.0.0", "security.allow_anonymous=true") as bridge:
            self.assertIn("0.0.0.0", bridge.websocket)
            until(lambda: "websocket.bind is 0.0.0.0: whoever reaches the port" in bridge.log(), "a warning")

    def test_ipv6_loopback_needs_no_permission(self):
        if not pathlib.Path("/proc/net/if_inet6").exists():
            self.skipTest("this machine has no IPv6")
        with Bridge("admin.bind=::1") as bridge:
            self.assertTrue(bridge.admin.startswith("http://[::1]:"))
            self.assertEqual(bridge.get("/healthz")[0], 200)

    def test_the_descriptor_limit_is_raised_to_the_hard_one(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with Bridge(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))) as bridge:
            self.assertEqual(resource.prlimit(bridge.pid, resource.RLIMIT_NOFILE), (hard, hard))
            self.assertEqual(bridge.api("limits")["descriptors"], hard)

    def test_a_full_descriptor_table_is_survived(self):
        limit = 48
        with Bridge(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))) as bridge:
            address = urllib.parse.urlsplit(bridge.websocket)
            peers = [socket.create_connection((address.hostname, address.port), PATIENCE) for _ in range(2 * limit)]
            until(lambda: "accept" in bridge.log() or len(os.listdir(f"/proc/{bridge.pid}/fd")) >= limit - 1,
                  "the table is full")
            for peer in peers:
                peer.close()
            until(lambda: len(os.listdir(f"/proc/{bridge.pid}/fd")) < limit // 2, "descriptors come back")
            self.assertEqual(bridge.get("/readyz"), (200, "ready\n"))
            self.assertGreater(bridge.metric('simbridge_transport_accept_errors_total{cause="descriptors"}'), 0)


class Signals(unittest.TestCase):
    def test_sigterm_without_sessions_is_a_quick_exit_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Bridge("drain.deadline_ms=10min") as bridge:  # which is not waited for
                bridge.signal(number)
                self.assertEqual(bridge.wait(), 0)
                self.assertIn("drained, 0 sessions are left", bridge.log())

    def test_sigterm_during_the_start_ends_it_in_order(self):
        print(f"SIMBRIDGE_TEST_SEED={SEED}")
        chance = random.Random(SEED)
        ends = {0: 0, -signal.SIGTERM: 0}  # before main has begun nothing of ours runs, and the signal just ends it
        for _ in range(30):
            bridge = Bridge(wait=False)
            with bridge:
                time.sleep(chance.uniform(0, 0.06))  # not to wait for anything: to hit another moment of the start
                bridge.signal(signal.SIGTERM)
                code = bridge.wait()
                self.assertIn(code, ends, bridge.log())
                ends[code] += 1
                self.assertNotIn("broken invariant", bridge.log())
        self.assertGreater(ends[0], 0, ends)

    def test_sigterm_drains_readiness_off_new_peers_refused_sessions_told_exit_0(self):
        async def talk(bridge):
            producer = await Peer.connect(bridge.websocket, "producer")
            await producer.advertise("a/points")
            await producer.publish(1, b"x" * 100)
            consumer = await Peer.connect(bridge.websocket, "consumer")
            await consumer.send(subscribe=dict(id=1, channel="**", history="HISTORY_ALL_KEPT"))
            frame = await consumer.wait_for("frame")
            self.assertEqual(frame.opaque.data, b"x" * 100)
            # One that does not answer its close keeps the drain going while we look at it.
            mute = await Peer.connect(bridge.websocket, "mute")
            mute.socket.transport.pause_reading()
            bridge.signal(signal.SIGTERM)
            drain = await consumer.wait_for("drain")
            self.assertTrue(2000 < drain.deadline_ms <= 3000, drain)
            self.assertGreater(drain.retry_after_ms, 0)
            await producer.wait_for("drain")
            self.assertEqual(await asyncio.to_thread(bridge.get, "/readyz"), (503, "draining\n"))
            self.assertEqual((await asyncio.to_thread(bridge.get, "/healthz"))[0], 200)
            self.assertEqual(await asyncio.to_thread(bridge.metric, "simbridge_app_draining"), 1)
            with self.assertRaises(Exception) as refused:
                await Peer.connect(bridge.websocket, "late")
            self.assertEqual(getattr(refused.exception, "status_code", None), 503, refused.exception)
            self.assertIn("retry-after", {name.lower() for name in refused.exception.headers})
            self.assertEqual(await asyncio.to_thread(
                bridge.metric, 'simbridge_session_refused_total{cause="draining"}'), 1)
            for peer in (producer, consumer):
                await asyncio.wait_for(peer.socket.wait_closed(), PATIENCE)
                self.assertEqual(peer.socket.close_code, 1001)
            mute.socket.transport.abort()

        with Bridge("drain.deadline_ms=3000") as bridge:
            asyncio.run(talk(bridge))
            self.assertEqual(bridge.wait(), 0)

    def test_a_second_sigterm_leaves_at_once_with_code_1(self):
        async def talk(bridge):
            # A consumer that does not read and a producer: the drain would take its time.
            peers = [await Peer.connect(bridge.websocket, f"peer {i}") for i in range(3)]
            for number, peer in enumerate(peers):
                await peer.advertise(f"c/{number}")
            bridge.signal(signal.SIGTERM)
            await peers[0].wait_for("drain")
            bridge.signal(signal.SIGTERM)
            self.assertEqual(await asyncio.to_thread(bridge.wait), 1)
            self.assertIn("SIGTERM again: leaving at once", bridge.log())

        with Bridge("drain.deadline_ms=600000") as bridge:
            asyncio.run(talk(bridge))

    def test_a_peer_that_never_answers_does_not_hold_the_drain_beyond_its_deadline(self):
        async def talk(bridge):
            peer = await Peer.connect(bridge.websocket, "mute")
            await peer.advertise("mute/points")
            peer.socket.transport.pause_reading()
            start = time.monotonic()
            bridge.signal(signal.SIGTERM)
            self.assertEqual(await asyncio.to_thread(bridge.wait), 0)
            self.assertLess(time.monotonic() - start, 25)  # well before it would be given up as dead
            peer.socket.transport.abort()

        with Bridge("drain.deadline_ms=500") as bridge:
            asyncio.run(talk(bridge))

    def test_sighup_takes_over_live_knobs_and_keeps_the_others(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "simbridge.yaml")
            file.write_text("frame.budget_bytes: 64MiB\nsession.ping_interval_ms: 10s\n")
            with Bridge(config=file) as bridge:
                self.assertEqual(bridge.api("limits")["memory"]["budget_bytes"], 64 << 20)
                file.write_text("frame.budget_bytes: 32MiB\nframe.depth: 9\nsession.max_sessions: 5\n"
                                "io.threads: 3\nlog.level: debug\nsession.ping_interval_ms: 20s\n")
                bridge.signal(signal.SIGHUP)
                until(lambda: bridge.api("limits")["sessions"]["max"] == 5, "the new limits")
                limits = until(lambda: (bridge.api("limits")["threads"]["io"] == 3) and bridge.api("limits"), "threads")
                self.assertEqual(limits["memory"]["budget_bytes"], 32 << 20)
                self.assertEqual(limits["memory"]["depth_frames"], 9)
                self.assertEqual(bridge.metric("simbridge_frame_budget_bytes"), 32 << 20)
                self.assertIn("session.ping_interval_ms: 10s stays until the next start, then it is 20s", bridge.log())
                file.write_text("frame.budget_bytes: 1\n")
                bridge.signal(signal.SIGHUP)
                until(lambda: "nothing is changed: frame.budget_bytes: 1 is below 8MiB" in bridge.log(), "the refusal")
                self.assertEqual(bridge.api("limits")["memory"]["budget_bytes"], 32 << 20)

    def test_a_shrink_by_sighup_evicts_and_gives_memory_back(self):
        async def fill(bridge):
            peer = await Peer.connect(bridge.websocket, "producer")
            await peer.advertise("big/points")
            acknowledged = 0
            for sequence in range(1, 81):
                await peer.publish(sequence, bytes(1 << 20))
                while acknowledged < sequence - 8 or (sequence == 80 and acknowledged < 80):
                    acknowledged = (await peer.wait_for("ack")).sequence
            kept = (await asyncio.to_thread(bridge.api, "channels"))[0]
            self.assertGreater(kept["kept_bytes"], 64 << 20)
            before = await asyncio.to_thread(bridge.metric, "simbridge_frame_charged_bytes")
            resident = await asyncio.to_thread(bridge.metric, "simbridge_app_resident_bytes")
            file.write_text("frame.budget_bytes: 32MiB\n")
            bridge.signal(signal.SIGHUP)
            await asyncio.to_thread(until, lambda: "frames with" in bridge.log(), "the shrink is done")
            self.assertLessEqual(await asyncio.to_thread(bridge.metric, "simbridge_frame_charged_bytes"), 32 << 20)
            self.assertGreater(before, 64 << 20)
            self.assertLess(await asyncio.to_thread(bridge.metric, "simbridge_app_resident_bytes"), resident - (30 << 20))
            kept = (await asyncio.to_thread(bridge.api, "channels"))[0]
            self.assertLessEqual(kept["kept_bytes"], 32 << 20)
            self.assertEqual(kept["published"], 80)
            self.assertGreater(await asyncio.to_thread(
                bridge.metric, 'simbridge_frame_evicted_frames_total{reason="shrink"}'), 30)
            await peer.publish(81, b"after")  # the session lives on
            await peer.wait_for("ack", lambda ack: ack.sequence == 81)
            await peer.close()

        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "simbridge.yaml")
            file.write_text("frame.budget_bytes: 128MiB\n")
            with Bridge("frame.warm_reserve_bytes=0", config=file) as bridge:
                asyncio.run(fill(bridge))

    def test_a_log_that_nobody_reads_any_more_does_not_end_the_bridge(self):
        reading, writing = os.pipe()
        with Bridge(stderr=writing) as bridge:
            os.close(writing)
            os.close(reading)
            bridge.process.stdout.close()
            for _ in range(3):
                bridge.signal(signal.SIGHUP)  # each writes a line into the broken pipe
                self.assertEqual(bridge.get("/healthz"), (200, "ok\n"))


    def test_closed_standard_streams_do_not_become_sockets(self):
        with contextlib.ExitStack() as probes:  # both at once, so that they differ
            ports = []
            for _ in range(2):
                probe = probes.enter_context(socket.socket())
                probe.bind(("127.0.0.1", 0))
                ports.append(probe.getsockname()[1])
        bridge = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", app_support.PROGRAM, "serve",
                                   "--set", f"websocket.port={ports[0]}", "--set", "grpc.port=0",
                                   "--set", f"admin.port={ports[1]}"],
                                  env=clean_environment())

        def ready():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/readyz", timeout=PATIENCE) as answer:
                    return answer.status == 200
            except urllib.error.URLError:
                return False

        try:
            until(ready, "ready without standard streams")
            for number in (0, 1, 2):
                self.assertEqual(os.readlink(f"/proc/{bridge.pid}/fd/{number}"), "/dev/null")
        finally:
            bridge.terminate()
            self.assertEqual(bridge.wait(PATIENCE), 0)


class Logs(unittest.TestCase):
    def test_json_logs_are_one_object_a_line(self):
        with Bridge("log.format=json", "log.level=debug") as bridge:
            bridge.stop()
            lines = [json.loads(line) for line in bridge.log().splitlines()]
        self.assertGreaterEqual(len(lines), 3)
        for line in lines:
            self.assertLessEqual({"time", "level", "cause", "text"}, line.keys())
        self.assertIn("listening on", lines[0]["text"])

    def test_lines_are_counted_by_level(self):
        with Bridge() as bridge:
            # The ports are printed before the line about them is logged.
            told, end = 'simbridge_app_log_lines_total{level="info"}', time.monotonic() + PATIENCE
            while bridge.metric(told) < 1 and time.monotonic() < end:
                pass
            self.assertEqual(bridge.metric(told), 1)
            self.assertEqual(bridge.metric('simbridge_app_log_lines_total{level="error"}'), 0)


class Admin(unittest.TestCase):
    def check_schema(self, name, answer):
        import jsonschema

        schema = json.loads((ROOT / "docs/api" / f"{name}.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(answer, schema)

    def test_real_answers_have_their_schemas_shape_and_the_figures_add_up(self):
        async def talk(bridge):
            producer = await Peer.connect(bridge.websocket, "a sensor")
            await producer.advertise("hall/points")
            consumer = await Peer.connect(bridge.websocket, "a consumer")
            await consumer.send(subscribe=dict(id=5, channel="hall/*", history="HISTORY_ALL_KEPT"))
            await consumer.wait_for("subscription_state", lambda state: len(state.channel) == 1)
            for sequence in (1, 2, 2, 3):  # one twice
                await producer.publish(sequence, b"y" * sequence)
            await producer.publish(9, b"z", epoch=8)  # an epoch that was not advertised: uses up no number
            await producer.wait_for("reject")
            for sequence in (1, 2, 3):
                await consumer.wait_for("frame", lambda frame: frame.sequence == sequence)

            def at_rest():
                channels, subscriptions = bridge.api("channels"), bridge.api("subscriptions")
                done = channels and subscriptions and subscriptions[0]["waiting"] == 0 and channels[0]["published"] == 3
                return done and (channels[0], subscriptions[0])

            channel, subscription = await asyncio.to_thread(until, at_rest, "figures at rest")
            self.assertEqual(channel["name"], "hall/points")
            self.assertEqual(channel["received"], channel["published"] + channel["duplicate"] + channel["rejected"])
            self.assertEqual((channel["published"], channel["duplicate"], channel["kept_frames"], channel["kept_bytes"]),
                             (3, 1, 3, 6))
            self.assertEqual(subscription["id"], 5)
            self.assertEqual(subscription["channel"], "hall/points")
            self.assertEqual(subscription["promised"],
                             subscription["delivered"] + subscription["skipped"] + subscription["lost"])
            self.assertEqual(subscription["delivered"], 3)
            sessions = {row["name"]: row for row in await asyncio.to_thread(bridge.api, "sessions")}
            self.assertEqual(set(sessions), {"a sensor", "a consumer"})
            self.assertEqual(sessions["a sensor"]["channels"], 1)
            self.assertEqual(sessions["a consumer"]["subscriptions"], 1)
            self.assertEqual(sessions["a consumer"]["frames_out"], 3)
            self.assertEqual(sessions["a sensor"]["transport"], "websocket")
            self.assertEqual(subscription["session"], sessions["a consumer"]["id"])
            for name in ("channels", "subscriptions", "sessions", "limits"):
                answer = await asyncio.to_thread(bridge.api, name)
                self.assertTrue(answer)
                self.check_schema(name, answer)
            metrics = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
                       for line in (await asyncio.to_thread(bridge.get, "/metrics"))[1].splitlines()
                       if not line.startswith("#")}
            module = "simbridge_session_"
            rejected = sum(value for name, value in metrics.items() if name.startswith(module + "rejected_frames_total"))
            self.assertEqual(metrics[module + "received_frames_total"],
                             metrics[module + "published_frames_total"] + metrics[module + "duplicate_frames_total"] + rejected)
            self.assertEqual(metrics[module + "published_frames_total"], 3)
            self.assertEqual(metrics[module + "published_bytes_total"], 6)
            self.assertEqual(metrics[module + "promised_frames_total"], 3)
            self.assertEqual(metrics[module + "delivered_frames_total"], 3)
            self.assertEqual(metrics[module + "delivered_bytes_total"], 6)
            self.assertEqual(metrics[module + "age_seconds_count"], 3)
            self.assertEqual(metrics[module + "open"], 2)
            self.assertEqual(metrics[module + "subscriptions"], 1)
            self.assertEqual(metrics["simbridge_frame_rings"], 1)
            self.assertEqual(metrics["simbridge_transport_websocket_connections"], 2)
            await producer.send(goodbye=dict(reason="done"))
            await consumer.close()
            await asyncio.to_thread(until, lambda: bridge.metric("simbridge_session_open") == 0, "sessions end")
            self.assertEqual(await asyncio.to_thread(
                bridge.metric, 'simbridge_session_closed_total{cause="goodbye"}'), 2)
            await producer.close()

        with Bridge() as bridge:
            for name in ("channels", "subscriptions", "sessions"):
                self.assertEqual(bridge.api(name), [])
            asyncio.run(talk(bridge))

    def test_every_metric_of_the_golden_list_is_served(self):
        with Bridge() as bridge:
            text = bridge.get("/metrics")[1]
            for line in (ROOT / "test/metrics/metrics.golden").read_text().splitlines():
                kind, name = line.split()[:2]
                self.assertIn(f"# TYPE {name} {'gauge' if kind == 'info' else kind}\n", text)
            self.assertGreater(bridge.metric("simbridge_app_resident_bytes"), 1 << 20)
            self.assertGreater(bridge.metric("simbridge_app_open_descriptors"), 5)
            self.assertAlmostEqual(bridge.metric("simbridge_app_start_time_seconds"), time.time(), delta=60)
            self.assertEqual(bridge.metric("simbridge_app_ready"), 1)

    def test_slow_and_hostile_admin_clients_do_not_delay_a_frame(self):
        async def talk(bridge):
            address = urllib.parse.urlsplit(bridge.admin)
            slow = []
            for number in range(70):  # more than it serves: some send half a request, some read no answer
                client = socket.create_connection((address.hostname, address.port), PATIENCE)
                client.sendall(b"GET /metr" if number % 2 else b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
                slow.append(client)
            producer = await Peer.connect(bridge.websocket)
            await producer.advertise("a")
            consumer = await Peer.connect(bridge.websocket)
            await consumer.send(subscribe=dict(id=1, channel="a", queue_frames=1000))
            await consumer.wait_for("subscription_state", lambda state: state.channel)
            start = time.monotonic()
            for sequence in range(1, 201):
                await producer.publish(sequence, b"x" * 1000)
            for sequence in range(1, 201):
                self.assertEqual((await consumer.wait_for("frame")).sequence, sequence)
            # Below the 10 s after which the admin server gives a slow client up.
            self.assertLess(time.monotonic() - start, 9)
            for client in slow:
                client.close()
            await asyncio.to_thread(until, lambda: bridge.get("/healthz")[0] == 200, "room again")
            for peer in (producer, consumer):
                await peer.close()

        with Bridge() as bridge:
            asyncio.run(talk(bridge))

    def test_unknown_paths_methods_and_head(self):
        with Bridge() as bridge:
            self.assertEqual(bridge.get("/favicon.ico")[0], 404)
            self.assertEqual(bridge.get("/api/v1/limits", "POST")[0], 405)
            self.assertEqual(bridge.get("/healthz", "HEAD"), (200, ""))


class Commands(unittest.TestCase):
    def free_port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def test_exit_codes_tell_done_failed_unreachable_and_refused(self):
        nobody = self.free_port()
        self.assertEqual(run("health", f"http://127.0.0.1:{nobody}")[0], 3)
        self.assertEqual(run("info", f"ws://127.0.0.1:{nobody}")[0], 3)
        self.assertEqual(run("send", "--to", f"ws://127.0.0.1:{nobody}", "--channel", "c", "--telemetry", "8", "--count", "1")[0], 3)
        self.assertEqual(run("watch", "--from", f"ws://127.0.0.1:{nobody}", "**", "--count", "1")[0], 3)
        self.assertEqual(run("info", "nonsense://x")[0], 2)
        with Bridge("session.max_sessions=1") as bridge:
            self.assertEqual(run("health", bridge.admin)[0], 0)
            code, out, err = run("info", "--json", bridge.admin)
            self.assertEqual(code, 0, err)
            self.assertEqual(json.loads(out)["sessions"]["max"], 1)
            code, out, err = run("info", bridge.websocket)
            self.assertEqual(code, 0, err)
            code, out, err = run("send", "--to", bridge.websocket, "--channel", "t", "--telemetry", "64", "--count", "5", "--rate", "100")
            self.assertEqual(code, 0, err)
            code, out, err = run("watch", "--from", bridge.websocket, "--json", "--history", "all", "--count", "5", "t")
            self.assertEqual(code, 0, err)
            frames = [line for line in map(json.loads, out.splitlines()) if line["type"] == "frame"]
            self.assertEqual([frame["sequence"] for frame in frames], [1, 2, 3, 4, 5])

            async def occupied():
                peer = await Peer.connect(bridge.websocket)
                refused = await asyncio.to_thread(run, "info", bridge.websocket)
                self.assertEqual(refused[0], 4, refused)
                await peer.close()

            asyncio.run(occupied())


if __name__ == "__main__":
    unittest.main(verbosity=2)
