"""Autobahn's own case files (driven by kosoku) judge the echo server on the product's codec.

    autobahn_test.py ECHO_SERVER SOURCE_DIR

Sections 1-7 and 10 must all be OK or NON-STRICT. Three cases ask for what the RFC leaves open and can only be
INFORMATIONAL: 7.1.6 (a close behind a large message), 7.13.1 and 7.13.2 (close codes from 5000 on, which we
refuse).
"""

import collections
import os
import subprocess
import sys
from pathlib import Path

SECTIONS = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"]
CASES = 247
INFORMATIONAL = {"7.1.6", "7.13.1", "7.13.2"}


def use_tools(source: Path) -> None:
    """kosoku stands in a folder of the build tree (scripts/install-deps.sh --test)."""
    python = source / "build" / "tools" / "bin" / "python"
    if not python.exists():
        sys.exit(f"{python} is not there: run scripts/install-deps.sh --test")
    if Path(sys.prefix) != python.parent.parent:
        os.execv(python, [str(python), "-B", *sys.argv])


def judge(results) -> int:
    wrong = 0
    for result in results:
        verdict = {result.behavior.value, result.behavior_close.value}
        allowed = {"OK", "NON-STRICT"}
        if result.case_id in INFORMATIONAL:
            allowed = {"INFORMATIONAL", "OK"}
        if not verdict <= allowed:
            wrong += 1
            print(f"{result.case_id}: {sorted(verdict)}: {result.result} {result.result_close}")
            print(f"    expected: {result.expectation}")
        elif verdict != {"OK"}:
            print(f"{result.case_id}: {sorted(verdict)}: {result.result}")
    return wrong


async def run(server: str):
    import kosoku

    process = subprocess.Popen([server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline())
        try:
            return await kosoku.run_fuzzingclient(f"127.0.0.1:{port}", SECTIONS, None, concurrency=4)
        except kosoku.FailureError as error:
            return error.results
    finally:
        process.stdin.close()
        code = process.wait(30)
        if code != 0:
            sys.exit(f"the echo server ended with {code}")


def main() -> None:
    import asyncio

    use_tools(Path(sys.argv[2]))
    results = asyncio.run(run(sys.argv[1]))
    wrong = judge(results)
    print(collections.Counter(result.behavior.value for result in results))
    if len(results) != CASES:
        sys.exit(f"{len(results)} cases ran, not {CASES}")
    if wrong:
        sys.exit(f"{wrong} cases failed")


if __name__ == "__main__":
    main()
