"""The real `simbridge send` and `simbridge watch` as children of a test."""

import collections
import json
import signal
import subprocess
import tempfile
import threading
import time

import harness
from bridge_client import Ledger


class Send:
    def __init__(self, url, channel, files=(), rate=None, state=None, count=None, loop=True, options=()):
        command = [harness.program(), "send", "--to", url, "--channel", channel, "--json", "--name", channel]
        command += ["--rate", rate] if rate else []
        command += ["--state", state] if state else []
        command += ["--count", count] if count else []
        command += ["--loop"] if loop and files and not count else []
        self._words = tempfile.TemporaryFile()
        self.process = harness.spawn([*command, *options, *files], stdout=subprocess.PIPE, stderr=self._words)
        self.summary = None

    def kill(self):
        """kill -9, by id."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def finish(self, timeout=30.0, ask=True):
        """SIGTERM where asked for, then its exit code; the summary is read."""
        if ask and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            output, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise AssertionError(f"send did not end within {timeout} s") from None
        for line in output.decode().splitlines():
            entry = json.loads(line)
            if entry.get("type") == "summary":
                self.summary = entry
        return self.process.returncode

    def words(self):
        self._words.seek(0)
        return self._words.read().decode(errors="replace")

    def last_sequence(self, channel):
        return next(one["acknowledged_sequence"] for one in self.summary["channels"] if one["channel"] == channel)


class Watch:
    """`simbridge watch --json --sha256`; what it prints goes into ledgers, which outlive a killed process."""

    def __init__(self, url, pattern, name, ledgers=None, options=()):
        self.name = name
        self.ledgers = ledgers if ledgers is not None else {}
        self.books = collections.Counter()   # of this process: frames, lost
        self.end = None
        self.drain = None
        self.statuses = []
        self.failure = None
        resume = [f"{channel}={ledger.epoch}:{ledger.last()}" for channel, ledger in self.ledgers.items()]
        history = ["--history", "from", *resume] if resume else ["--history", "all"]
        self._words = tempfile.TemporaryFile()
        # The pattern stands first: --history takes every word after it.
        self.process = harness.spawn(
            [harness.program(), "watch", "--from", url, "--json", "--sha256", "--name", name, *options, pattern, *history],
            stdout=subprocess.PIPE, stderr=self._words)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            if not line.endswith(b"\n"):
                break  # it was killed in the middle of a line
            try:
                self._take(json.loads(line))
            except Exception as error:  # pylint: disable=broad-except
                self.failure = self.failure or error
        self.process.stdout.close()

    def _take(self, entry):
        kind = entry["type"]
        if kind in ("frame", "gap"):
            ledger = self.ledgers.setdefault(entry["channel"], Ledger(f"{self.name}, {entry['channel']}"))
            epoch = int(entry["epoch"])
        if kind == "frame":
            ledger.add_frame(epoch, entry["sequence"], entry["sha256"])
            self.books["frames"] += 1
        elif kind == "gap":
            ledger.add_gap(epoch, entry["first"], entry["last"], entry["reason"], entry["frames"])
            self.books["lost"] += entry["frames"]
        elif kind == "status":
            self.statuses.append(entry)
        elif kind == "drain":
            self.drain = entry
        elif kind == "end":
            self.end = entry

    def reached(self, channel, sequence):
        if self.failure:
            raise self.failure
        return channel in self.ledgers and self.ledgers[channel].last() >= sequence

    def kill(self):
        """kill -9, by id; what it had printed is still read."""
        self.process.kill()
        self.process.wait()
        self._reader.join(10)

    def finish(self, timeout=20.0, ask=True):
        if ask and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"watch did not end within {timeout} s") from None
        self._reader.join(10)
        if self.failure:
            raise self.failure
        return code

    def words(self):
        self._words.seek(0)
        return self._words.read().decode(errors="replace")


def wait_for_sessions(bridge, count, timeout=15.0):
    harness.wait_until(lambda: len(bridge.api("sessions")) == count, timeout, f"{count} sessions are open")


def kill_all(children):
    for child in children:
        if child.process.poll() is None:
            child.process.kill()
            child.process.wait()


def sleep_until(moment):
    time.sleep(max(0.0, moment - time.monotonic()))
