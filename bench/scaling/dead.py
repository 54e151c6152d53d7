"""A restart when half of the clients are dead, with more and fewer notices in flight: how long it takes until the
living ones are told, and until each of the dead ones has had its first attempt."""
import time

from scaling import OnLooker, Server
from scaling.played import Clients, cut_off, join_again

COUNTS = (1000, 10000, 20000)
IN_FLIGHT = (2048, 10240)
TIMEOUT_S = 5


def measure(bench, counts):
    for count in counts:
        for in_flight in IN_FLIGHT:
            yield point(bench, count, in_flight)


def point(bench, count, in_flight):
    store = bench.directory / f"dead{count}-{in_flight}"
    store.mkdir()
    sets = (f"notify.in_flight={in_flight}", f"notify.timeout={TIMEOUT_S}")
    with Clients(bench, count, 1, mortal=2) as clients:
        server = Server(store, *sets).start()
        clients.lock()
        server.kill()
        clients.expect_restart()
        cut_off()
        try:
            server = Server(store, *sets).start()
            ready, cpu_s = time.monotonic(), server.cpu_s()
            with OnLooker(bench) as looker:
                told, _, _ = clients.wait_until_reclaimed()
                tried = server.wait_long("clients told of our restart")
            figures = {"clients": count, "in_flight": in_flight, "told_s": max(told - ready, 0),
                       "tried_s": tried - ready, "peak_bytes": server.peak_bytes(),
                       "restart_cpu_s": server.cpu_s() - cpu_s, "meanwhile": looker.figures}
            assert server.stop() == 0
            return figures
        finally:
            join_again()
