#!/usr/bin/env python3
"""What looking costs: lock load with and without a scrape each second and a page left open."""
import json
import os
import subprocess
import threading

from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon
from world import ask

BENCH = os.environ.get("HOLDFAST_BENCH")
ROUNDS, SECONDS = 5, 2
LISTS = ("status", "locks?limit=200", "clients?limit=200", "waiters?limit=500", "locks?limit=500&waited=true")


def rate():
    done = subprocess.run([BENCH, "--seconds", str(SECONDS), "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["requests_per_second"]


class Watchers:
    """A scrape each second, and the requests of a page each two."""

    def __enter__(self):
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self._scrape), threading.Thread(target=self._page)]
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def _scrape(self):
        while not self.stop.wait(1):
            assert ask("GET", "/metrics").status == 200

    def _page(self):
        while not self.stop.wait(2):
            for path in LISTS:
                assert ask("GET", "/api/v1/" + path).status == 200


@tap.test
def looking_costs_little():
    """Given the load in turns with and without watchers, the medians are compared; for people to judge."""
    if not BENCH or not os.path.exists(BENCH):
        raise tap.Skip("the load generator was not built")
    alone, watched = [], []
    with Daemon():
        rate()  # the first one warms up
        for _ in range(ROUNDS):
            alone.append(rate())
            with Watchers():
                watched.append(rate())
    with Daemon("admin.listen=", "admin.socket="):
        rate()
        off = [rate() for _ in range(ROUNDS)]
    middle = [sorted(rates)[ROUNDS // 2] for rates in (alone, watched, off)]
    tap.note("requests/s: {:.0f} alone, {:.0f} watched ({:+.1f} %); {:.0f} with administration off ({:+.1f} %)".format(
        middle[0], middle[1], 100 * (middle[1] / middle[0] - 1), middle[2], 100 * (middle[0] / middle[2] - 1)))
    assert min(middle) > 0


if __name__ == "__main__":
    netns.enter()
    tap.main()
