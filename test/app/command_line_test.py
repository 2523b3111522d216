"""What only the real program can show: words that the shell hands over, signals before the start, who holds a port.

    command_line_test.py PATH/TO/simbridge
"""

import json
import signal
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from app_support import PROGRAM, Bridge, clean_environment, run, until  # noqa: E402

PORTS = ["--set", "websocket.port=0", "--set", "grpc.port=0", "--set", "admin.port=0"]


def has_signal(process, mask, number):
    """Whether the process blocks (SigBlk) or catches (SigCgt) the signal, in the kernel's words."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return False
    word = next((line.split()[1] for line in status.splitlines() if line.startswith(mask)), "0")
    return bool(int(word, 16) >> (number - 1) & 1)


class Words(unittest.TestCase):
    def test_patterns_and_files_arrive_as_they_were_typed(self):
        names = ["[a,b]", "[a]", "[]", "{}", "%%", "info", "\\x", "a,b"]
        with Bridge() as bridge:
            for name in names:
                code, _, err = run("send", "--to", bridge.websocket, "--channel", name, "--telemetry", "8", "--count", "1",
                                   "--rate", "1000")
                self.assertEqual(code, 0, err)
            self.assertEqual(sorted(row["name"] for row in bridge.api("channels")), sorted(names))
            for arguments in (["--history", "all", *names], [*names, "--history", "all"], ["--history", "all", "--", *names]):
                code, out, err = run("watch", "--from", bridge.websocket, "--json", "--count", str(len(names)), *arguments)
                self.assertEqual(code, 0, err)
                entries = [json.loads(line) for line in out.splitlines()]
                self.assertEqual([one["channel"] for one in entries[-1]["subscriptions"]], names)
                self.assertEqual(sorted(one["channel"] for one in entries if one["type"] == "frame"), sorted(names))
            for file in ("[a,b]", "{}"):
                code, _, err = run("send", "--to", bridge.websocket, "--channel", "files", file)
                self.assertEqual(code, 2)
                self.assertIn(f"{file}: ", err)

    def test_numbers_out_of_range_are_told_with_the_range_in_one_line(self):
        send = ["send", "--to", "ws://127.0.0.1:1", "--channel", "a", "--telemetry", "8"]
        watch = ["watch", "--from", "ws://127.0.0.1:1"]
        for command, option, value, allowed in ((send, "--rate", "-1", "from 0.001 to 1000000 frames a second"),
                                                (send, "--rate", "1e-10", "from 0.001 to 1000000 frames a second"),
                                                (send, "--rate", "nan", "from 0.001 to 1000000 frames a second"),
                                                (send, "--give-up-after", "-1", "0 to 1000000000"),
                                                (watch, "--max-hz", "inf", "from 0 to 1000000 frames a second"),
                                                (watch, "--for", "-1", "0 to 1000000000"),
                                                (["info", "ws://h"], "--timeout", "0", "0.001 to 3600")):
            code, _, err = run(*command, f"{option}={value}")
            self.assertEqual(code, 2, err)
            first = err.splitlines()[0]
            self.assertIn(option, first)
            self.assertIn(f"{value} is not ", first)
            self.assertIn(allowed, first)
            self.assertLess(len(first), 120)


class EarlySignals(unittest.TestCase):
    def start(self, *more):
        """A bridge whose command line is so long that there is something to be early in; its signals are held by now."""
        long = ["--set", "log.level=info"] * 45_000
        process = subprocess.Popen([PROGRAM, "serve", *PORTS, *long, *more], env=clean_environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        held = until(lambda: (has_signal(process, "SigBlk", signal.SIGTERM) and "held") or (process.poll() is not None and "ended"),
                     "the signals are held")
        self.assertEqual(held, "held")
        return process

    def test_signals_are_held_from_the_first_line_on(self):
        # The command line is wrong at its end: whoever holds signals only when it is read never comes to it.
        process = self.start("--wings")
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            process.send_signal(number)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 2, err[-500:])

    def test_told_to_stop_before_it_has_its_configuration_it_starts_drains_and_ends_with_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn("websocket listening on ", out)
            self.assertIn(f"{number.name}: draining", err)

    def test_sighup_before_it_has_its_configuration_reads_it_again_after_the_start(self):
        process = self.start()
        process.send_signal(signal.SIGHUP)
        self.assertTrue(any("the configuration is as it was" in line for line in process.stderr))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)


class Ports(unittest.TestCase):
    def test_a_port_that_is_taken_is_told_alike_for_all_listeners(self):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = holder.getsockname()[1]
            said = []
            for key in ("websocket", "grpc", "admin"):
                code, out, err = run("serve", *PORTS, "--set", f"{key}.port={port}")
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn(f"{key}.port: {port} cannot be had: ", err)
                self.assertIn("Address already in use; set another port", err)
                said.append(err.splitlines()[-1].replace(f"{key}.", "KEY."))
            self.assertEqual(len(set(said)), 1, said)

    def test_each_port_asked_in_the_other_s_way_says_which_it_is(self):
        with Bridge() as bridge:
            websocket = bridge.websocket.removesuffix("/v1/connect").replace("ws://", "http://")
            for command in ("info", "health"):
                code, out, err = run(command, websocket)
                self.assertEqual((code, out), (1, ""), err)
                self.assertIn("looks like the WebSocket port", err)
            code, _, err = run("info", bridge.admin.replace("http://", "ws://"))
            self.assertEqual(code, 4, err)
            self.assertIn("WebSocket port answers at /v1/connect", err)
            self.assertEqual(run("health", bridge.admin)[:2], (0, "ready\n"))
            self.assertEqual(run("health", bridge.admin + "/healthz")[:2], (0, "ok\n"))
            code, out, err = run("health", bridge.admin + "/metrics")
            self.assertEqual((code, out), (2, ""), err)


class Stopping(unittest.TestCase):
    def test_ctrl_c_before_anybody_was_there_is_code_3(self):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            nobody = f"ws://127.0.0.1:{holder.getsockname()[1]}"
        for command in (["watch", "--from", nobody, "--reconnect"],
                        ["send", "--to", nobody, "--channel", "a", "--telemetry", "8", "--reconnect"]):
            process = subprocess.Popen([PROGRAM, *command, "--connect-for", "600"], env=clean_environment(),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            until(lambda: has_signal(process, "SigCgt", signal.SIGINT), "it listens to signals")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 3, err)
            self.assertIn("was never reached", err)


if __name__ == "__main__":
    unittest.main()
