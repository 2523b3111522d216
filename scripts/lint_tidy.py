"""clang-tidy over some sources, in parallel, within a time budget, each judged once per content.

    lint_tidy.py --build DIR --jobs N --budget SECONDS FILE…

A result is kept under the hash of the preprocessed text, the configuration and the tool's version: an
unchanged source costs one preprocessor run. Sources that the budget does not reach are named; they are
no failure, and the next run begins with them.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "simbridge-lint"
TIDY = "clang-tidy-19"


def tool_fingerprint(root):
    digest = hashlib.sha256()
    digest.update(subprocess.run([TIDY, "--version"], check=True, capture_output=True).stdout)
    for name in (".clang-tidy", ".clang-format"):
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def preprocessed(entry):
    """The source as the compiler sees it, without the paths of this checkout."""
    arguments = [part for part in shlex.split(entry["command"]) if not part.endswith("ccache")]
    kept, skip = [], False
    for part in arguments:
        if skip:
            skip = False
        elif part in ("-o", "-MF", "-MT"):
            skip = True
        elif part not in ("-c", "-MD"):
            kept.append(part)
    # -P leaves line markers out, -C keeps the NOLINT comments in.
    done = subprocess.run(kept + ["-E", "-P", "-C"], cwd=entry["directory"], capture_output=True)
    return done.stdout if done.returncode == 0 else None


def judge(entry, build, fingerprint):
    """(cached, clean, text)"""
    text = preprocessed(entry)
    mark = None
    if text is not None:
        # Line numbers of the report come from the source itself, so it counts too.
        raw = Path(entry["file"]).read_bytes()
        mark = CACHE / hashlib.sha256(fingerprint.encode() + raw + text).hexdigest()
        if mark.exists():
            return True, True, ""
    done = subprocess.run(
        [TIDY, "-p", str(build), "--quiet", entry["file"]], capture_output=True, text=True
    )
    if done.returncode == 0 and mark is not None:
        CACHE.mkdir(parents=True, exist_ok=True)
        mark.touch()
    return False, done.returncode == 0, done.stdout + ("" if done.returncode == 0 else done.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=float, default=3000)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    root = Path.cwd()
    end = time.monotonic() + options.budget
    entries = {}
    for entry in json.loads((options.build / "compile_commands.json").read_text()):
        entries[str(Path(entry["file"]).resolve().relative_to(root))] = entry
    fingerprint = tool_fingerprint(root)
    # The product before its tests, when time is short.
    order = sorted(options.files, key=lambda name: (not name.startswith("src/"), name))
    unknown = [name for name in order if name not in entries]
    work = [name for name in order if name in entries]

    def one(name):
        if time.monotonic() > end:
            return name, None
        return name, judge(entries[name], options.build, fingerprint)

    cached = judged = 0
    bad, unreached = [], []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, result in pool.map(one, work):
            if result is None:
                unreached.append(name)
                continue
            was_cached, clean, text = result
            cached += was_cached
            judged += not was_cached
            if not clean:
                bad.append(name)
                print(text, flush=True)
    print(f"clang-tidy: {judged} judged, {cached} unchanged since they were clean, {len(bad)} with findings")
    if unknown:
        print(f"clang-tidy: not part of the lint build, not judged: {' '.join(unknown)}")
    if unreached:
        print(f"clang-tidy: {len(unreached)} not reached within the budget: {' '.join(unreached)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
