#!/usr/bin/env python3
"""What monitoring costs (ADM-02): lock load with and without a scrape each second and a page left open.

Throughput on a busy machine says little, so the daemon's own processor time is measured as well: for a
request under load, and for a scrape and a refresh of the page by themselves. Prints figures and asserts
nothing about them."""
import http.client
import json
import os
import statistics
import subprocess

from holdfast_test import netns, tap
from holdfast_test.daemon import PORT, Daemon
from holdfast_test.watchers import ADMIN_PORT, Watchers

BENCH = os.environ.get("HOLDFAST_BENCH")
ROUNDS, SECONDS, HELD, OFF_PORT = 7, 2, 10000, 4046
PAGE = ["/api/v1/" + path for path in ("status", "locks?sort=-waiters&limit=50&offset=0",
                                       "clients?sort=-notification&limit=50&offset=0", "waiters?limit=500",
                                       "locks?limit=500&waited=true")]


def processor_s(daemon):
    with open(f"/proc/{daemon.process.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(*options):
    done = subprocess.run([BENCH, "--seconds", str(SECONDS), "--warmup", "0", "--json", *options],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def measure(daemon, port=PORT):
    """(requests a second, microseconds of the daemon's processor time for each)"""
    before = processor_s(daemon)
    result = load("--port", str(port))
    return result["per_second"], (processor_s(daemon) - before) * 1e6 / result["requests"]


def cost_ms(daemon, paths, times=200):
    """The daemon's processor time for requesting all the paths once while it is otherwise idle."""
    connection = http.client.HTTPConnection("127.0.0.1", ADMIN_PORT, timeout=20)
    before = processor_s(daemon)
    for _ in range(times):
        for path in paths:
            connection.request("GET", path)
            connection.getresponse().read()
    connection.close()
    return (processor_s(daemon) - before) * 1000 / times


def medians(pairs):
    return [statistics.median(column) for column in zip(*pairs)]


@tap.test
def looking_costs_little():
    """Given lock load with 10,000 locks held, in turns with and without watchers: the medians."""
    if not BENCH or not os.path.exists(BENCH):
        raise tap.Skip("the load generator was not built")
    alone, watched, off = [], [], []
    with Daemon() as on_daemon, \
            Daemon(f"server.port={OFF_PORT}", "admin.listen=", "admin.socket=") as off_daemon:
        load("--held", str(HELD))
        load("--held", str(HELD), "--port", str(OFF_PORT))
        for _ in range(ROUNDS):
            alone.append(measure(on_daemon))
            with Watchers((1, ["/metrics"]), (2, PAGE)):
                watched.append(measure(on_daemon))
            off.append(measure(off_daemon, OFF_PORT))
        scrape, page = cost_ms(on_daemon, ["/metrics"]), cost_ms(on_daemon, PAGE)
    base = medians(alone)
    for name, pairs in (("unwatched", alone), ("watched", watched), ("administration off", off)):
        rate, cost = medians(pairs)
        tap.note(f"{name}: {rate:.0f} requests/s ({100 * (rate / base[0] - 1):+.1f} %), "
                 f"{cost:.2f} µs of processor each ({100 * (cost / base[1] - 1):+.1f} %)")
    tap.note(f"a scrape takes {scrape:.2f} ms of processor, a refresh of the page {page:.2f} ms: one each second and "
             f"one each two are {(scrape + page / 2) / 10:.2f} % of a core")


@tap.test
def a_long_list_delays_no_lock():
    """Given 100,000 locks and a client that lists them all over and over: the answer times of LOCK."""
    if not BENCH or not os.path.exists(BENCH):
        raise tap.Skip("the load generator was not built")
    steady = ("--rate", "5000", "--in-flight", "4")
    with Daemon("limits.locks_per_client=1000000", "limits.locks_per_file=1000000"):
        load("--held", "100000")
        quiet = [load(*steady) for _ in range(ROUNDS)]
        with Watchers((0, ["/api/v1/locks?limit=1000000"])) as watchers:
            listed = [load(*steady) for _ in range(ROUNDS)]
    for name, results in (("quiet", quiet), ("while listing", listed)):
        p50, p99 = (statistics.median(result[key] for result in results) for key in ("p50_us", "p99_us"))
        tap.note(f"{name}: p50 {p50:.0f} µs, p99 {p99:.0f} µs")
    tap.note(f"{watchers.answers} lists of {watchers.bytes / watchers.answers / 1e6:.0f} MB each meanwhile")


if __name__ == "__main__":
    netns.enter()
    tap.main()
