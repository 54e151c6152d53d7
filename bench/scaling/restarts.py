"""A restart with more and more clients: how long it takes until the store is loaded, all clients are told, all have
reclaimed and grace is over, and what another client notices of it."""
import time

from scaling import OnLooker, Server, quiet, store_bytes
from scaling.played import Clients

COUNTS = (10, 100, 1000, 10000, 100000)
LOCKS = 10  # of each client


def measure(bench, counts, locks=LOCKS, **settings):
    for count in counts:
        yield point(bench, count, locks, **settings)


def point(bench, count, locks, sets=()):
    store = bench.directory / f"clients{count}"
    store.mkdir()
    sets = ("limits.waiters_per_file=1000", *sets)
    with Clients(bench, count, locks) as clients:
        server = Server(store, *sets).start()
        empty = server.resident_bytes()
        lock_s = clients.lock()
        lock_cpu_s = server.cpu_s()
        held = server.resident_bytes()
        alone = quiet(bench)
        server.kill()
        clients.expect_restart()
        server = Server(store, *sets).start()
        ready, loaded, loaded_cpu_s = time.monotonic(), server.resident_bytes(), server.cpu_s()
        with OnLooker(bench) as looker:
            told, reclaimed, counted = clients.wait_until_reclaimed()
            over = server.wait_long("grace period is over")
            server.wait_long("clients told of our restart")
        figures = {
            "clients": count, "locks": count * locks, "lock_s": lock_s, "lock_cpu_s": lock_cpu_s,
            "empty_bytes": empty, "resident_bytes": held, "loaded_bytes": loaded,
            "peak_bytes": server.peak_bytes(), "store_bytes": store_bytes(store), "load_s": server.started_s,
            "told_s": max(told - ready, 0), "reclaimed_s": max(reclaimed - ready, 0), "grace_s": over - ready,
            "restart_cpu_s": server.cpu_s() - loaded_cpu_s, "resent": counted["resent"],
            "quiet": alone, "meanwhile": looker.figures,
        }
        assert server.stop() == 0
        return figures
