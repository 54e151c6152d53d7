"""The status monitor beside rpc.statd, notices beside sm-notify, and what a restart takes."""
import os
import shutil
import tempfile
import time

import servers
from holdfast_test import crowd, nsm
from holdfast_test.daemon import Daemon
from rows import shape

REGISTERED, CLIENTS, SM_NOTIFY_HOSTS, LOCKS = 1000, 10000, 300, 1000000


def measure(bench):
    registrations(bench)
    notices(bench)
    restart(bench)


def registrations(bench):
    add = bench.results.add
    with servers.statd(bench.directory / "statd") as statd, \
            servers.holdfast(bench.build, bench.directory / "monitor") as ours:
        both = {"statd": statd, "holdfast": ours}
        one = bench.rates(both, "--mix", "mon", *shape(1, 1))
        many = bench.rates(both, "--mix", "mon")
        add("SM_MON/UNMON 1 x 1", one["holdfast"], "/s", "rpc.statd", one["statd"], ">= 1")
        add("SM_MON/UNMON 8 x 16", many["holdfast"], "/s", "rpc.statd at its best",
            max(one["statd"], many["statd"]), ">= 30")
        for server in both.values():
            with nsm.connect(source=nsm.reserved(), port=server.port) as monitor:
                for n in range(REGISTERED):
                    answer = monitor.mon(f"127.200.{n >> 8}.{n & 255}", my_name="bench", prog=nsm.NLM,
                                         vers=3, proc=nsm.NLM_SM_NOTIFY)
                    assert answer.ok, f"registration {n} refused on port {server.port}"
        full = bench.rates(both, "--mix", "mon", *shape(1, 1))
        add(f"SM_MON/UNMON 1 x 1, {REGISTERED:,} hosts known", full["holdfast"], "/s", "rpc.statd",
            full["statd"])


def notices(bench):
    """Every client is reachable, and told in both names; the same kind of hosts by sm-notify."""
    os.environ["HOLDFASTD"] = str(bench.build / "src/daemon/holdfastd")
    os.environ["NSM_PEERS"] = str(bench.build / "tests/interop/nsm-peers")
    with crowd.Peers(), tempfile.TemporaryDirectory(dir=bench.directory) as folder:
        os.chmod(bench.directory, 0o755)
        os.chmod(folder, 0o755)
        theirs = SM_NOTIFY_HOSTS / crowd.time_sm_notify(shutil.which("sm-notify"), folder, SM_NOTIFY_HOSTS)
    with crowd.Peers() as peers:
        took = told_in(bench.directory / "notices")
        assert peers.counts()[0] == CLIENTS
    bench.results.add(f"{CLIENTS:,} clients notified", took, "s", "3 s", 3, "< 1")
    bench.results.add("clients notified", CLIENTS / took, "/s", "sm-notify", theirs)


def told_in(path):
    """Seconds from the start until every client has been told."""
    sets = ("store.backend=lmdb", f"store.path={path}")
    path.mkdir()
    with Daemon(*sets) as daemon:
        crowd.lock_all([crowd.address(crowd.ALIVE, n) for n in range(CLIENTS)])
    began = time.monotonic()
    with Daemon(*sets) as daemon:
        line = crowd.wait_for_summary(daemon)
        took = time.monotonic() - began
    assert f"delivered={CLIENTS} failing=0" in line, line
    return took


def restart(bench):
    store = bench.directory / "restart"
    with servers.holdfast(bench.build, store) as server:
        bench.load(server, "--held", LOCKS, "--requests", 1000)
    start = time.monotonic()
    with servers.holdfast(bench.build, store):
        took = time.monotonic() - start
    bench.results.add(f"restart with {LOCKS:,} durable locks", took, "s", "3 s", 3, "< 1")
