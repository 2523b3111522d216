"""No file of the tree names the machine it was written on, nor a registry's host.

    clean_text.py ROOT    prints one line per find, exit code 1 if there is any

Packages are asked for by name with the ordinary clients; where those look is the machine's business.
"""

import re
import subprocess
import sys
from pathlib import Path

# Written in pieces, so that this file does not find itself.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.}])/(?:" + "|".join(["wor" + "k", "roo" + "t", "hom" + "e"]) + r")/\w"),
    "a registry's host": re.compile(
        "|".join(
            re.escape(host)
            for host in (
                "pypi" + ".org",
                "files.python" + "hosted.org",
                "registry.npm" + "js.org",
                "proxy.golang" + ".org",
                "crates" + ".io",
                "deb.debian" + ".org",
                "repo1.maven" + ".org",
            )
        )
    ),
    "a conflict marker": re.compile(r"^(?:<{7} |>{7} )"),
    "white space at the end of the line": re.compile(r"[ \t]+$"),
}
BINARY = {".bin", ".pcd", ".png", ".jpg", ".gz", ".zst", ".golden_bin"}


def files_of(root):
    """What git tracks or would track; without git, everything outside build/."""
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True,
        ).stdout
        names = [name for name in listed.decode().split("\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*")]
    for name in sorted(set(names)):
        path = root / name
        if path.is_file() and path.suffix not in BINARY and not name.startswith("build/"):
            if "corpus" not in Path(name).parts:
                yield name, path


def check(root):
    finds = []
    for name, path in files_of(root):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            finds.append(f"{name}:1: neither text in UTF-8 nor of a suffix known as binary")
            continue
        for number, line in enumerate(text.split("\n"), 1):
            for what, pattern in FORBIDDEN.items():
                if pattern.search(line):
                    finds.append(f"{name}:{number}: {what}")
    return finds


def main():
    finds = check(Path(sys.argv[1]).resolve())
    for find in finds:
        print(find)
    print(f"{len(finds)} finds")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
