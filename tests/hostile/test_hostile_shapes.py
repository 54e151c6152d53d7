#!/usr/bin/env python3
"""The shapes of `make bench-hostile` that need users, many addresses, forged sources or readers of lists, for a moment each: what can
be judged without a clock. Another client's requests are all granted, no account has more than its quota, memory stays, and three
bytes at most leave for each byte that came (SEC-02, SEC-03, SEC-05, ADM-08). How long the other client waited is for the benchmark."""
import json
import os
import subprocess

from holdfast_test import netns, tap
from holdfast_test.daemon import PORT, Daemon
from world import get

HOSTILE = os.environ["HOLDFAST_HOSTILE"]
CROWD = [f"192.0.2.{10 + number}" for number in range(32)]  # the addresses of bench/hostile_crowds.c
SETTINGS = ("grace.seconds=0", "locks.durable=no", "admin.listen=127.0.0.1:8049", "limits.clients_per_host=300",
            "limits.connections_per_host=100")
GROWN_MIB = 96  # of a build with sanitizers, which keeps what is freed for a while


def attack(shape, seconds=1.5):
    """(what the generator reports, the clients at the end)"""
    with Daemon(*SETTINGS) as daemon:
        before = daemon.memory_kib()
        done = subprocess.run([HOSTILE, "--port", str(PORT), "--pid", str(daemon.process.pid), "--seconds", str(seconds), shape],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=150)
        assert done.returncode == 0, f"{shape}: {done.stderr.decode()}"
        figures = json.loads(done.stdout)
        clients = get("clients?limit=10000")["clients"]
        grown = daemon.memory_kib() - before
    for when in ("quiet", "attacked"):
        assert figures[when]["requests"] > 0 and figures[when]["refused"] == 0, (shape, figures)
    tap.note(f"{shape}: {figures['attacked']['requests']} requests of the other client granted, {grown >> 10} MiB grown, "
             f"{figures['bytes_back']} bytes out for {figures['bytes_sent']}")
    assert grown < GROWN_MIB << 10, f"{shape}: {grown} KiB"
    return figures, clients


@tap.test
def a_user_of_this_host():
    """SEC-02: 600 connections and as many clients as he can invent: he gets what one host gets, 300 clients."""
    figures, clients = attack("local-user")
    invented = [client for client in clients if client["name"].startswith("invented")]
    assert figures["sent"] > 1000 and len(invented) == 300, len(invented)


@tap.test
def a_user_of_this_host_who_does_not_wait():
    """SEC-02: of connections that are closed before the daemon accepts them the kernel does not tell the user. They have an account
    of their own, which all users share: he gets its 300 clients, too, and no more."""
    figures, clients = attack("hasty-user")
    invented = [client for client in clients if client["name"].startswith("invented")]
    tap.note(f"{len(invented)} clients invented")
    assert figures["sent"] > 1000 and 300 <= len(invented) <= 600, len(invented)


@tap.test
def calls_that_are_held():
    """SEC-02: 17 addresses with UNLOCKs that wait for callbacks to silent hosts."""
    figures, _ = attack("held-calls")
    assert figures["sent"] > 5000, figures


@tap.test
def sources_that_have_shown_nothing():
    """SEC-03: LOCKs that wait and are granted, and messages, from 32 silent addresses by UDP."""
    figures, _ = attack("unproved")
    assert figures["bytes_sent"] > 10000 and figures["bytes_back"] > 0, figures
    assert figures["bytes_back"] <= 3 * figures["bytes_sent"], figures


@tap.test
def sorted_lists_of_locks_that_go():
    """ADM-08: eight readers of sorted lists while all locks are released and taken again."""
    figures, _ = attack("sorted-lists")
    assert figures["lists"] > 0, figures


if __name__ == "__main__":
    netns.enter(addresses=(*netns.ADDRESSES, *CROWD))
    tap.main()
