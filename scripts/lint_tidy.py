"""Clang's judgement of some sources: first its warnings with the thread-safety analysis, then clang-tidy.

    lint_tidy.py --build DIR --jobs N --budget SECONDS FILE…

Each source is judged once per content: a clean result is kept under the hash of the preprocessed text, the
command line, the configuration and the tool's version, so what has not changed costs one preprocessor run.
Sources that the budget does not reach are named; they are no failure, and the next run comes to them.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "simbridge-lint"
TIDY = "clang-tidy-19"
ROOT = Path.cwd()


class Unit:
    """One source of the compile database and the name under which its clean results are kept."""

    def __init__(self, name, entry, fingerprint):
        self.name, self.directory = name, entry["directory"]
        self.command, skip = [], False
        for part in shlex.split(entry["command"]):
            if skip:
                skip = False
            elif part in ("-o", "-MF", "-MT"):
                skip = True
            elif part not in ("-c", "-MD") and not part.endswith("ccache"):
                self.command.append(part)
        self.fingerprint = fingerprint
        self.key = None

    def run(self, command):
        return subprocess.run(command, cwd=self.directory, capture_output=True, text=True, errors="replace")

    def make_key(self):
        # -P leaves the line markers out, -C keeps the NOLINT comments in; then nothing names this checkout,
        # and a clone elsewhere finds the same results. Line numbers come from the source, which counts too.
        done = self.run(self.command + ["-E", "-P", "-C"])
        if done.returncode == 0:
            text = "\0".join([self.fingerprint, " ".join(self.command), done.stdout]).replace(str(ROOT), "")
            self.key = hashlib.sha256(text.encode() + (ROOT / self.name).read_bytes()).hexdigest()

    def judge(self, kind, command):
        """None if clean, else the findings; and whether it was known."""
        if self.key is None:
            self.make_key()
        mark = CACHE / f"{self.key}.{kind}" if self.key else None
        if mark is not None and mark.exists():
            return None, True
        done = self.run(command)
        if done.returncode != 0:
            noise = re.compile(r"^\d+ warnings?.*generated\.$|^Suppressed |^Use -header-filter|^Error while processing")
            lines = [line for line in (done.stdout + done.stderr).splitlines() if not noise.match(line)]
            return "\n".join(lines), False
        if mark is not None:
            CACHE.mkdir(parents=True, exist_ok=True)
            mark.touch()
        return None, False

    def warnings(self):
        return self.judge("warnings", self.command + ["-fsyntax-only"])

    def tidy(self, build):
        return self.judge("tidy", [TIDY, "-p", str(build), "--quiet", str(ROOT / self.name)])


def fingerprint():
    digest = hashlib.sha256()
    digest.update(subprocess.run([TIDY, "--version"], check=True, capture_output=True).stdout)
    digest.update((ROOT / ".clang-tidy").read_bytes())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=float, default=3000)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    end = time.monotonic() + options.budget
    build = options.build.resolve()
    entries = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = Path(entry["file"]).resolve()
        if path.is_relative_to(ROOT):
            entries[str(path.relative_to(ROOT))] = entry
    # The product before its tests, when time is short.
    order = sorted(options.files, key=lambda name: (not name.startswith("src/"), name))
    unknown = [name for name in order if name not in entries]
    mark = fingerprint()
    units = [Unit(name, entries[name], mark) for name in order if name in entries]

    def within(job):
        return job() if time.monotonic() < end else ("", None)

    failed = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for kind, chosen, job in (
            ("warnings and thread safety", [u for u in units if u.name.startswith("src/")], lambda u: u.warnings()),
            ("clang-tidy", units, lambda u: u.tidy(build)),
        ):
            known = clean = 0
            unreached, bad = [], []
            for unit, (findings, was_known) in zip(chosen, pool.map(lambda u: within(lambda: job(u)), chosen)):
                if was_known is None:
                    unreached.append(unit.name)
                elif findings is None:
                    clean += 1
                    known += was_known
                else:
                    bad.append(unit.name)
                    print(findings, flush=True)
            print(f"{kind}: {clean} clean ({known} of them unchanged), {len(bad)} with findings: {' '.join(bad)}")
            if unreached:
                print(f"{kind}: {len(unreached)} not reached within the budget: {' '.join(unreached)}")
            # SIMBRIDGE_TIDY=report: findings of clang-tidy are told, and only the compiler's own decide.
            told_only = kind == "clang-tidy" and os.environ.get("SIMBRIDGE_TIDY") == "report"
            failed |= bool(bad) and not told_only
    if unknown:
        print(f"not part of the lint build, not judged: {' '.join(unknown)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
