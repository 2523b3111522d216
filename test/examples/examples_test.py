"""The examples do what the README shows: each prints three frames of a simulated lidar.

    examples_test.py SIMBRIDGE EXAMPLE_WATCH
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM, WATCH_CPP = sys.argv.pop(1), sys.argv.pop(1)


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ports = ["--set", "websocket.port=0", "--set", "grpc.port=0", "--set", "admin.port=0"]
        cls.bridge = subprocess.Popen(
            [PROGRAM, "serve", *ports], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        cls.addClassCleanup(cls.end, cls.bridge)
        for line in cls.bridge.stdout:
            found = re.match(r"websocket listening on (ws://[^/]+)", line)
            if found:
                cls.url = found.group(1)
                break
        cls.sensor = subprocess.Popen(
            [PROGRAM, "send", "--to", cls.url, "--channel", "lidar_sim/points", "--simulate", "lidar", "--quiet"]
        )
        cls.addClassCleanup(cls.end, cls.sensor)

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()

    def watched(self, command):
        done = subprocess.run([*command, self.url, "3"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^bridge ")
        return [int(number) for number in re.findall(r"(?m)^lidar_sim/points #(\d+): .*points", done.stdout)]

    def test_the_python_example_prints_three_frames_in_order(self):
        numbers = self.watched([sys.executable, "-B", str(ROOT / "examples" / "watch.py")])
        self.assertEqual(len(numbers), 3)
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_the_cpp_example_prints_three_frames_in_order(self):
        numbers = self.watched([WATCH_CPP])
        self.assertEqual(len(numbers), 3)
        self.assertEqual(numbers, sorted(set(numbers)))


if __name__ == "__main__":
    unittest.main()
