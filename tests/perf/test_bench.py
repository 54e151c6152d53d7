#!/usr/bin/env python3
"""The load generator: every option does what it says, and no wrong answer goes unnoticed."""
import contextlib
import json
import os
import socket
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_test.daemon import PORT, Daemon, wait_until

BENCH, NOTHING = os.environ["HOLDFAST_BENCH"], os.environ["HOLDFAST_NOTHING"]
BUILD, TOOLS = Path(os.environ["HOLDFAST_BUILD"]), Path(__file__).parents[2] / "bench"
NOTHING_PORT = 5000
MIXES = ("lock", "test", "denied", "mon", "null", "wait", "share", "lock:4,test:4,denied:2", "mon,null:3")


def bench(*arguments, port=PORT):
    """(exit status, what it printed, what it complained of)"""
    done = subprocess.run([BENCH, "--port", str(port), *map(str, arguments)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def figures(*arguments, port=PORT):
    status, out, complaint = bench("--json", *arguments, port=port)
    assert status == 0, f"{arguments}: {complaint}"
    return json.loads(out)


def locks_held():
    """The number of locks, as the daemon's REST interface reports it."""
    with urllib.request.urlopen("http://127.0.0.1:8049/api/v1/status", timeout=20) as answer:
        return json.load(answer)["counts"]["locks"]


@contextlib.contextmanager
def nothing():
    process = subprocess.Popen([NOTHING, str(NOTHING_PORT)])

    def listens():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", NOTHING_PORT), 1):
            return True

    try:
        wait_until(listens, "it listens")
        yield
    finally:
        process.kill()
        process.wait()


@tap.test
def every_mix_over_both_transports():
    """Given Holdfast, every operation and mix is answered rightly, exactly as many times as was asked."""
    with Daemon():
        for mix in MIXES:
            for transport in ((), ("--udp",)):
                for connections, in_flight in ((1, 1), (3, 70)):
                    got = figures("--mix", mix, "--requests", 501, "--connections", connections,
                                  "--in-flight", in_flight, *transport)
                    assert got["requests"] == 501 and got["mix"] == mix, got
                    assert 0 < got["p50_us"] <= got["p99_us"] <= got["p999_us"], got


@tap.test
def what_is_held_and_who_is_idle():
    """Given locks that are held and connections that are idle, they are there, and stay."""
    with Daemon():
        figures("--held", 700, "--idle", 50, "--requests", 100, "--connections", 2, "--in-flight", 2)
        assert locks_held() >= 700


@tap.test
def one_real_file():
    """Given handles, ranges of those files are locked instead of files that are made up."""
    with Daemon():
        assert figures("--fh", "ab" * 32 + ",cd" * 1, "--requests", 300)["requests"] == 300
        assert figures("--fh", "ab" * 32, "--mix", "denied", "--requests", 300)["requests"] == 300


@tap.test
def by_time_and_by_rate():
    """Given a rate, no more are sent a second; nothing stays locked behind a run by time."""
    with Daemon():
        assert figures("--requests", 300, "--rate", 1000)["per_second"] <= 1010
        left = locks_held()
        assert figures("--seconds", 0.2, "--warmup", 0.1, "--rate", 1000)["requests"] > 0
        assert figures("--seconds", 0.2, "--warmup", 0)["requests"] > 0
        assert figures("--seconds", 0.2, "--warmup", 0, "--udp")["requests"] > 0
        assert locks_held() == left


@tap.test
def nothing_is_answered_by_nothing():
    """Given the do-nothing server, what it grants is right, over both transports."""
    with nothing():
        for mix in ("lock", "test", "null"):
            for transport in ((), ("--udp",)):
                assert figures("--mix", mix, "--requests", 500, *transport, port=NOTHING_PORT)["requests"] == 500
        figures("--idle", 10, "--requests", 10, port=NOTHING_PORT)


@tap.test
def wrong_answers_are_noticed():
    """Given a server that grants what another client holds, or does not know SM_MON, the run fails and names
    the request; so it does where no server listens."""
    with nothing():
        for mix in ("denied", "mon", "lock,denied"):
            for transport in ((), ("--udp",)):
                status, _, complaint = bench("--mix", mix, "--requests", 100, *transport, port=NOTHING_PORT)
                assert status == 1, f"{mix}: exit status {status}"
                assert "wrong answer: " + mix.split(",")[-1] in complaint, complaint
    status, _, complaint = bench("--requests", 1)
    assert status == 1 and "connect" in complaint, complaint


@tap.test
def what_was_measured_is_drawn():
    """Given what bench/run measured, each series becomes a picture and each row a line of the table."""
    with tempfile.TemporaryDirectory(prefix="holdfast-plot-") as folder:
        figures, page = Path(folder, "figures.json"), Path(folder, "reference", "PERFORMANCE.md")
        page.parent.mkdir()
        page.write_text("before\n<!-- written by bench/plot: begin -->\nold\n<!-- written by bench/plot: end -->\nafter\n")
        for command in ((TOOLS / "run", BUILD, "--only", "durable", "--store-delay", "0", "--seconds", "0.1", "--rounds", "1",
                         "--json", figures), (TOOLS / "plot", figures, folder)):
            done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=120)
            assert done.returncode == 0, done.stdout
        measured = json.loads(figures.read_text())
        assert len(list(Path(folder, "pictures").glob("durable-*.svg"))) == len(measured["series"]) == 2
        text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text, text
    for row in measured["rows"]:
        assert f"| {row['what']} |" in text, row


@tap.test
def bad_options_are_named():
    """Given a value that makes no sense, it says of which option."""
    for option, value in (("port", "0"), ("port", "x"), ("port", "70000"), ("connections", "0"),
                          ("in-flight", "-1"), ("in-flight", "2x"), ("seconds", "soon"), ("warmup", "-1"),
                          ("requests", "0"), ("rate", ""), ("held", "1.5"), ("idle", " "), ("mix", "lock:0"),
                          ("mix", "look"), ("mix", "lock,"), ("fh", "abc"), ("fh", "xy"), ("fh", "ab,"),
                          ("host", "localhost")):
        status, _, complaint = bench("--" + option, value)
        assert status == 2, f"--{option} '{value}': exit status {status}"
        assert f"--{option} does not take '{value}'" in complaint, complaint
    assert bench("--nonsense")[0] == 2 and bench("nonsense")[0] == 2
    status, out, _ = bench("--help")
    assert status == 0 and "--in-flight" in out


if __name__ == "__main__":
    netns.enter()
    tap.main()
