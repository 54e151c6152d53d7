"""A restart that no client notices (recovery.notify=needed) beside one of which all are told: how long after kill -9 another
client gets its first new lock, and what it notices of the restart."""
import time

from holdfast_test import nlm, rpc
from holdfast_test.crowd import SERVER
from holdfast_test.daemon import PORT
from scaling import OnLooker, Server, quiet
from scaling.played import Clients

COUNTS = (1000, 100000)
LOCKS = 10  # of each client
LOOK_S = 2  # the on-looker asks for at least so long


def measure(bench, counts, locks=LOCKS):
    for count in counts:
        for mode in ("always", "needed"):
            yield point(bench, count, locks, mode)


def first_lock():
    """Asks for a lock of its own until it is granted; when that was."""
    lock = nlm.Lock(caller=b"newcomer", oh=b"1@newcomer", fh=b"a file of its own")
    while True:
        try:
            with rpc.Tcp(SERVER, PORT, ("0.0.0.0", 0)) as client:
                while True:
                    reply = client.call(nlm.PROG, 4, nlm.LOCK, nlm.ARGS[nlm.LOCK](4, b"c", lock))
                    if nlm.decode_result(nlm.LOCK, 4, reply.results).stat == "GRANTED":
                        return time.monotonic()
                    time.sleep(0.01)
        except OSError:
            time.sleep(0.005)


def point(bench, count, locks, mode):
    store = bench.directory / f"continued{count}{mode}"
    store.mkdir()
    sets = (f"recovery.notify={mode}",)
    with Clients(bench, count, locks) as clients:
        server = Server(store, *sets).start()
        clients.lock()
        alone = quiet(bench)
        if mode == "always":
            clients.expect_restart()
        killed = time.monotonic()
        server.kill()
        server = Server(store, *sets)
        server.start(wait=False)
        ready = time.monotonic()
        with OnLooker(bench) as looker:
            granted = first_lock()
            if mode == "always":
                clients.wait_until_reclaimed()
                server.wait_long("grace period is over")
            time.sleep(LOOK_S)
        assert ("continuing where the last run ended" in server.log()) == (mode == "needed")
        figures = {"mode": mode, "clients": count, "locks": count * locks, "load_s": server.started_s,
                   "ready_s": ready - killed, "first_lock_s": granted - killed, "quiet": alone, "meanwhile": looker.figures}
        assert server.stop() == 0
        return figures
