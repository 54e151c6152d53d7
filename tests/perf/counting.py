"""What the daemon does for a request, counted by callgrind and by strace.

Each counts a whole life of the daemon. It lives twice, with few requests and with many, and the
difference is what the additional ones took: start and stop cancel out.
"""
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from holdfast_test import daemon, tap

BUILT = Path(__file__).parents[2] / "build"
BENCH = os.environ.get("HOLDFAST_BENCH", str(BUILT / "bench/holdfast-bench"))
FOLDER = Path(os.environ.get("HOLDFAST_COUNTS", BUILT / "tests/perf"))
WAIT_S = 60


def compiler():
    """The compiler of the program, as the program names it: "GCC 12"."""
    program = Path(daemon.program()).read_bytes()
    found = re.search(rb"(clang) version (\d+)", program) or re.search(rb"(GCC): \([^)]*\) (\d+)", program)
    return b" ".join(found.groups()).decode() if found else "unknown"


def need(program):
    if not shutil.which(program):
        raise tap.Skip(f"{program} is not installed")


def live(under, sets, load, requests):
    """One life, watched by a program, with so many requests. What is stored is gone afterwards; {path} in a setting is where."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as path:
        with daemon.Daemon("log.level=info", f"store.path={path}", *(one.format(path=path) for one in sets), under=under):
            subprocess.run([BENCH, "--requests", str(requests), *load.split()], check=True,
                           timeout=WAIT_S * 5, stdout=subprocess.DEVNULL)


def per_request(count, few, many):
    base = count(few)
    return (count(many) - base) / (many - few)


# ---- instructions ----

def callgrind_file(name):
    return FOLDER / ("callgrind." + re.sub(r"\W+", "-", name))


def instructions(name, sets, load, few=500, many=2500):
    """Instructions of the daemon, outside the kernel, for each request."""
    need("valgrind")
    file = callgrind_file(name)

    def count(requests):
        # valgrind lives in the same process, which when confined may not write its file.
        live(["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={file}"],
             ("server.confine=no", *sets), load, requests)
        return int(re.search(r"^(?:totals|summary): (\d+)", file.read_text(), re.M)[1])

    return per_request(count, few, many)


# ---- system calls ----

def system_calls(sets, load, few=2000, many=10000):
    need("strace")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        def count(requests):
            file = Path(folder, str(requests))
            live(["strace", "-D", "-f", "-c", "-o", str(file)], sets, load, requests)
            return total_of(file)

        return per_request(count, few, many)


def total_of(file):
    """With -D the daemon is our child, and strace ends a little after it."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if file.exists() and (found := re.search(r"^100\.00 +\S+ +\S+ +(\d+)", file.read_text(), re.M)):
            return int(found[1])
        time.sleep(0.01)
    raise AssertionError("strace counted nothing")
