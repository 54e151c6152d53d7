#!/usr/bin/env python3
"""A restart costs each client as much among many as among few (NSM-07, NOT-02, GRC-03), counted in instructions, so
that a busy machine does not matter; and bench/scale, which measures how long it takes, runs.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))
import counting  # noqa: E402
from holdfast_test import netns, tap  # noqa: E402
from holdfast_test.daemon import take_release_build  # noqa: E402

BUILD = Path(os.environ.get("HOLDFAST_BUILD", counting.BUILT))
SCALE = Path(__file__).parents[2] / "bench/scale"
SIZES = (500, 2000, 12000)
SLACK = 1.2  # a tree of twelve thousand is a fifth deeper than one of two thousand, and trees are the lesser part


def instructions(clients):
    file = counting.callgrind_file(f"scale {clients}")
    subprocess.run(["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={file}",
                    BUILD / "bench/core-scale", str(clients)], check=True, timeout=300)
    return int(re.search(r"^(?:totals|summary): (\d+)", file.read_text(), re.M)[1])


@tap.test
def what_one_more_client_costs():
    """Given 500, 2,000 and 12,000 clients that lock, are loaded, told and reclaim, each of the last 10,000 costs as many
    instructions of the core as each of the 1,500 before. With one list walked per client it would be several times as
    many."""
    counting.need("valgrind")
    totals = [instructions(clients) for clients in SIZES]
    few, many = ((totals[i + 1] - totals[i]) / (SIZES[i + 1] - SIZES[i]) for i in (0, 1))
    text = f"{few:,.0f} instructions a client up to {SIZES[1]:,}, {many:,.0f} up to {SIZES[2]:,}"
    tap.note(text)
    assert many <= few * SLACK, text + f": callgrind_annotate {counting.callgrind_file(f'scale {SIZES[2]}')}"


@tap.test
def the_curves_are_measured():
    """Given few clients and few locks, each curve has its points: all clients are told, all locks are reclaimed or
    released, and another client is served meanwhile. (How long it took is not judged.)"""
    with tempfile.TemporaryDirectory(prefix="holdfast-scale-") as folder:
        figures = Path(folder, "figures.json")
        done = subprocess.run([sys.executable, SCALE, BUILD, "--json", figures, "--restarts", "10,200",
                               "--locks", "1000", "--dead", "20"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        assert done.returncode == 0, done.stdout
        curves = json.loads(figures.read_text())["curves"]
    assert [point["clients"] for point in curves["restarts"]] == [10, 200], done.stdout
    assert [point["locks"] for point in curves["locks"]] == [1000], done.stdout
    assert {point["in_flight"] for point in curves["dead"]} == {2048, 10240}, done.stdout
    for point in (*curves["restarts"], *curves["locks"], *curves["dead"]):
        assert point["meanwhile"]["requests"] > 0, point
    assert "| 200 | 2,000 |" in done.stdout, done.stdout


if __name__ == "__main__":
    take_release_build()
    if "HOLDFASTD_RELEASE" in os.environ:
        BUILD = Path(os.environ["HOLDFASTD_RELEASE"]).parents[2]
    netns.enter()
    tap.main()
