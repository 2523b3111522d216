"""Who may include what: reads every #include of include/ and src/ and names file, line and rule.

    layers.py ROOT        prints one line per breach, exit code 1 if there is any

The table below is the module table of docs/architecture.md. A new edge between modules is a decision:
change the row here and say why in the commit.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple


class Module(NamedTuple):
    own: set  # modules whose public headers it may include
    foreign: set  # outside libraries, beside the standard library, the kernel's headers and fmt


def row(own="", foreign=""):
    return Module(set(own.split()), set(foreign.split()))


MODULES = {
    "base": row("", ""),
    "metrics": row("base", "prometheus-cpp"),
    "frame": row("base metrics"),
    "wire": row("base frame", "protobuf nlohmann-json"),
    "cloud": row("base metrics frame kernels", "pcl lz4 zstd draco png"),
    "pipeline": row("base metrics frame wire cloud"),
    "session": row("base metrics frame wire pipeline"),
    "transport": row("base metrics wire session", "asio beast grpc nlohmann-json"),
    "forward": row("base metrics session", "grpc nats"),
    "resource": row("base metrics", "nvml"),
    "admin": row("base metrics", "asio beast nlohmann-json"),
    # Generated code, not wire's parser: the peer that our own tests trust must not share its errors.
    "client": row("base wire", "asio beast grpc protobuf nlohmann-json"),
    "gpu_worker": row("base cloud kernels", "cuda"),
}
# app wires everything together: it may see every module.
MODULES["app"] = Module(set(MODULES) | {"app"}, {"cli11", "yaml-cpp", "spdlog", "nlohmann-json"})

# admin shows what others know: it may include their headers of this name, and nothing else of them.
SNAPSHOT_READER = "admin"
SNAPSHOT_HEADER = re.compile(r"(^|_)snapshots?\.h$")

# First match wins.
LIBRARIES = [
    ("fmt/", "fmt"),
    ("prometheus/", "prometheus-cpp"),
    ("google/protobuf/", "protobuf"),
    ("grpc/", "grpc"),
    ("grpcpp/", "grpc"),
    ("boost/beast", "beast"),
    ("boost/", "asio"),
    ("nlohmann/", "nlohmann-json"),
    ("CLI/", "cli11"),
    ("yaml-cpp/", "yaml-cpp"),
    ("spdlog/", "spdlog"),
    ("openssl/", "openssl"),
    ("pcl/", "pcl"),
    ("Eigen/", "pcl"),
    ("lz4", "lz4"),
    ("zstd", "zstd"),
    ("draco/", "draco"),
    ("png.h", "png"),
    ("nats/", "nats"),
    ("nvml.h", "nvml"),
    ("dlfcn.h", "nvml"),  # the one library that is opened at run time
    ("cuda", "cuda"),
    ("cub/", "cuda"),
    ("thrust/", "cuda"),
]
GENERATED = re.compile(r"^(?:simbridge|grpc/health|grpc/reflection)/v\d+\w*/\w+\.(?:pb|grpc\.pb)\.h$")
# These stay in source files, behind a factory or a private Impl: builds stay short, and what a module
# offers does not change with what it is made of.
SOURCES_ONLY = {"asio", "beast", "grpc", "pcl", "protobuf", "cuda"}
# The standard library has no dot in its names; the kernel's and libc's headers are these.
SYSTEM = re.compile(
    r"^[a-z_]+$|^(?:sys|linux|netinet|arpa|net|bits|x86_64-linux-gnu)/|^cxxabi\.h$"
    r"|^(?:unistd|fcntl|poll|signal|pthread|sched|malloc|netdb|errno|time|ifaddrs|immintrin|nmmintrin"
    r"|arm_acle|arm_neon|cpuid|endian|limits|stdint|stdlib|string|stdio|termios|spawn|execinfo|glob|getopt)\.h$"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
HEADERS, SOURCES = {".h", ".cuh"}, {".h", ".cuh", ".cpp", ".cu"}


def library_of(included):
    if GENERATED.match(included):
        return "grpc" if ".grpc." in included else "protobuf"
    return next((name for prefix, name in LIBRARIES if included.startswith(prefix)), None)


def module_of(relative):
    """The module of include/simbridge/<module>/… or src/<module>/…, None for anything else."""
    parts = relative.parts
    if parts[:2] == ("include", "simbridge") and len(parts) > 3:
        return parts[2]
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return None


def read_includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found.group(1), found.group(2)


def judge(module, is_header, quote, included):
    """Why this include is a breach, or None."""
    own_parts = included.split("/")
    if GENERATED.match(included) is None and own_parts[0] == "simbridge" and len(own_parts) > 2:
        other, name = own_parts[1], own_parts[-1]
        if other == module or other in MODULES[module].own:
            return None
        if module == SNAPSHOT_READER and SNAPSHOT_HEADER.search(name):
            return None
        if other not in MODULES and other != "kernels":
            return f"there is no module '{other}'"
        return f"{module} may not include {other}"
    if quote == '"' and GENERATED.match(included) is None:
        if own_parts[0] == module or len(own_parts) == 1:
            return None
        if own_parts[0] in MODULES:
            return f"{included} is private to {own_parts[0]}"
        if own_parts[0] == "kernels":
            return None if "kernels" in MODULES[module].own else f"{module} may not include kernels"
    library = library_of(included)
    if library == "fmt":
        return None
    if library is None:
        return None if SYSTEM.match(included) else f"'{included}' belongs to no library that the table knows"
    if library not in MODULES[module].foreign:
        return f"{module} may not use {library}"
    if is_header and library in SOURCES_ONLY:
        return f"{library} headers are for source files only"
    return None


def check(root):
    """All breaches below root, as 'file:line: rule'."""
    breaches = []
    users = {}  # public header -> (the files that include it, with their module)
    public = {}
    for top in ("include/simbridge", "src"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCES or not path.is_file():
                continue
            relative = path.relative_to(root)
            module = module_of(relative)
            if module not in MODULES:
                breaches.append(f"{relative}:1: '{module}' is not a module of the table")
                continue
            is_header = path.suffix in HEADERS
            if relative.parts[0] == "include":
                public[str(Path(*relative.parts[1:]))] = (module, relative)
                opening = "\n".join(path.read_text(encoding="utf-8").splitlines()[:16])
                # base also has headers of macros, which no thread calls.
                for word in ("What:",) if module == "base" else ("What:", "Threads:"):
                    if word not in opening:
                        breaches.append(f"{relative}:1: a public header opens with 'What:' … 'Threads:'; no '{word}'")
            for number, quote, included in read_includes(path):
                reason = judge(module, is_header, quote, included)
                if reason:
                    breaches.append(f"{relative}:{number}: {reason}")
                users.setdefault(included, []).append((module, str(Path(*relative.parts[1:]))))

    # The client's library is also the peer of the tests and benchmarks (design: who the modules are for).
    for top in ("test", "bench", "examples"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                for _, _, included in read_includes(path):
                    if included.startswith("simbridge/client/"):
                        users.setdefault(included, []).append((top, str(path)))

    # A public header is there because another module needs it, itself or through another public one.
    needed = {name for name, (module, _) in public.items() if module == "base"}
    grew = True
    while grew:
        grew = False
        for name, (module, _) in public.items():
            if name not in needed and any(
                user != module or by in needed for user, by in users.get(name, [])
            ):
                needed.add(name)
                grew = True
    for name, (module, relative) in sorted(public.items()):
        if name not in needed:
            breaches.append(f"{relative}:1: no other module includes it; it belongs into src/{module}/")
    return breaches


def main():
    root = Path(sys.argv[1]).resolve()
    breaches = check(root)
    for breach in breaches:
        print(breach)
    print(f"{len(breaches)} breaches of the module table")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
