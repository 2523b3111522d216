#!/usr/bin/env python3
"""Runs the models of this folder through spin, exhaustively, and the broken ones too.

Each right configuration must be searched to its end without an error; each broken one must be
caught, or the model would prove nothing. `--long` adds configurations that take minutes.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

# (model, macros, seconds at most)
RIGHT = [
    ("ring", "N=3 EVICTORS=2 EVICTIONS=1 READER READS=1 RUNNING=4", 240),
    ("ring", "N=3 EVICTORS=0 RESIZER READER READS=3 RUNNING=3", 120),
    ("ring", "N=3 EVICTORS=1 EVICTIONS=2 RESIZER RUNNING=3", 120),
    ("slab", "", 60),
    ("fence", "", 60),
]
LONG = [
    ("ring", "N=3 EVICTORS=2 EVICTIONS=1 READER READS=2 RUNNING=4", 600),
    ("ring", "N=4 EVICTORS=1 EVICTIONS=2 READER READS=3 RUNNING=3", 600),
    ("ring", "N=4 EVICTORS=2 EVICTIONS=2 RUNNING=3", 600),
    ("ring", "N=4 EVICTORS=1 EVICTIONS=2 RESIZER RUNNING=3", 600),
    ("ring", "N=3 EVICTORS=1 EVICTIONS=1 RESIZER READER READS=2 RUNNING=4", 1200),
]
BROKEN = [
    ("ring", "BREAK_EXCHANGE N=3 EVICTORS=1 RUNNING=2", 60),
    ("ring", "BREAK_POSITION N=3 EVICTORS=0 READER RUNNING=2", 60),
    ("ring", "BREAK_REMEMBER N=3 EVICTORS=0 READER RUNNING=2", 60),
    ("ring", "BREAK_RECHECK N=3 EVICTORS=0 RESIZER RUNNING=2", 60),
    ("ring", "BREAK_OWN N=3 EVICTORS=1 RUNNING=2", 60),
    ("ring", "BREAK_COUNT N=3 EVICTORS=1 READER RUNNING=3", 60),
    ("slab", "BREAK_COUNT", 60),
    ("fence", "BREAK_BUSY", 60),
]
MEMORY_MIB = 1800


def run(model: str, macros: str, seconds: int) -> tuple[int, str]:
    """The number of errors found, and a line about the search; raises when it did not end."""
    defines = [f"-D{macro}" for macro in macros.split()]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["spin", *defines, "-a", str(HERE / f"{model}.pml")], cwd=folder,
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MIB}",
                        "-o", "pan", "pan.c"], cwd=folder, check=True)
        start = time.monotonic()
        search = subprocess.run(["./pan", "-m10000", "-w22"], cwd=folder, timeout=seconds,
                                capture_output=True, text=True, check=False)
    out = search.stdout
    errors = re.search(r"errors: (\d+)", out)
    if errors is None:
        raise RuntimeError(f"no verdict:\n{out}{search.stderr}")
    if "max search depth too small" in out or "reached -DMEMLIM" in out:
        raise RuntimeError(f"not searched to the end:\n{out}")
    states = re.search(r"(\d+) states, stored", out)
    line = f"{states.group(1) if states else '?'} states, {time.monotonic() - start:.1f} s"
    return int(errors.group(1)), line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="also what takes minutes")
    arguments = parser.parse_args()
    failed = 0
    for expected, rows in ((False, RIGHT + (LONG if arguments.long else [])), (True, BROKEN)):
        for model, macros, seconds in rows:
            try:
                errors, line = run(model, macros, seconds)
                good = (errors > 0) == expected
                verdict = ("caught" if errors else "no error") + ", " + line
            except (RuntimeError, subprocess.SubprocessError) as problem:
                good, verdict = False, str(problem)
            print(f"{'ok  ' if good else 'FAIL'} {model} {macros}: {verdict}", flush=True)
            failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
