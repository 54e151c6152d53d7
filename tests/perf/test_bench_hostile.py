#!/usr/bin/env python3
"""The hostile benchmark runs: each kind of attack is made, the victim is served, and a row is printed.

How long the victim waited is not judged here, because the machine may be busy. What a request may visit is judged
by counts, in tests/unit/test_core_bounded.c and tests/fuzz/fuzz_requests.c.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from holdfast_test import netns, tap

HOSTILE = Path(__file__).parents[2] / "bench/hostile"
SHAPES = ("chain", "cancel-storm", "reclaim-storm", "pipeline", "messages")


@tap.test
def every_kind_of_attack_is_measured():
    """Given a daemon, shapes of each kind end, and the victim's requests were granted meanwhile."""
    with tempfile.TemporaryDirectory(prefix="holdfast-hostile-") as folder:
        figures = Path(folder, "figures.json")
        words = [sys.executable, HOSTILE, os.path.abspath(os.environ["HOLDFAST_BUILD"]), "--seconds", "0.6", "--once",
                 "--json", figures.name]
        for shape in SHAPES:
            words += ["--only", shape]
        done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        for result in json.loads(figures.read_text()):
            assert f"| {result['shape']} | now |" in done.stdout
            for when in ("quiet", "attacked"):
                assert result[when]["requests"] > 0 and result[when]["refused"] == 0, result
            assert result["sent"] > 0, result
            assert result["shape"] == "messages" or result["at_once_us"] > 0, result


if __name__ == "__main__":
    netns.enter()
    tap.main()
