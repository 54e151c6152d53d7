#!/usr/bin/env python3
"""A restart costs each client as much among many as among few (NSM-07, NOT-02, GRC-03), counted in instructions,
so that a busy machine does not matter. How long it takes is measured by bench/scale.

Three sizes, each four times the one before: what one more client costs between the second and the third must be about
what it costs between the first and the second. With anything quadratic in it, it would be up to four times that.
"""
import os
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
BENCH = Path(__file__).parents[2] / "bench"
sys.path[:0] = [str(BENCH), str(Path(__file__).parents[1] / "interop")]
import counting  # noqa: E402
from holdfast_test import netns, tap  # noqa: E402
from holdfast_test.daemon import take_release_build  # noqa: E402
from scaling import Bench, Server  # noqa: E402
from scaling.played import Clients, join_addresses  # noqa: E402

SIZES, LOCKS = (200, 800, 3200), 3
SLACK = 1.25
# valgrind is slow: no attempt may fail for that.
PATIENT = ("notify.timeout=60", "notify.in_flight=64", "server.confine=no")


def counted(file):
    return int(re.search(r"^(?:totals|summary): (\d+)", file.read_text(), re.M)[1])


def under(file):
    return ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={file}"]


def lives(count, folder):
    """(instructions of a life in which so many clients lock, of the one after it, in which they are told and
    reclaim)"""
    bench = Bench(Path(os.environ["HOLDFAST_BUILD"]), folder)
    store = folder / f"store{count}"
    store.mkdir()
    files = [counting.FOLDER / f"callgrind.scale-{what}-{count}" for what in ("locks", "restart")]
    with Clients(bench, count, LOCKS) as clients:
        with Server(store, *PATIENT, under=under(files[0])):
            clients.lock()
        clients.expect_restart()
        with Server(store, *PATIENT, under=under(files[1])) as server:
            clients.wait_until_reclaimed()
            server.wait_long("grace period is over")
    return [counted(file) for file in files]


@tap.test
def what_one_more_client_costs():
    """Given 200, 800 and 3,200 clients with three locks each, a client costs as many instructions among 3,200 as
    among 800, when it takes its locks and when the server has restarted."""
    counting.need("valgrind")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        totals = [lives(count, Path(folder)) for count in SIZES]
    for number, what in enumerate(("to take its locks", "to be loaded, told and to reclaim")):
        few, many = ((totals[i + 1][number] - totals[i][number]) / (SIZES[i + 1] - SIZES[i]) for i in (0, 1))
        text = f"{what}: {few:,.0f} instructions a client up to {SIZES[1]:,}, {many:,.0f} up to {SIZES[2]:,}"
        tap.note(text)
        assert many <= few * SLACK, text


if __name__ == "__main__":
    take_release_build()
    if "HOLDFASTD_RELEASE" not in os.environ:
        tap.skip_all("there is no release build to count in: make build")
    netns.enter()
    join_addresses()
    tap.main()
