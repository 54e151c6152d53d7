"""What becomes of speed and memory with a million locks, or ten thousand connections."""
import contextlib

import servers
from holdfast_test import nsm, rpc
from rows import in_turns, shape

HELD = (1000, 10000, 100000, 1000000)
CROWD, FEW, IDLE = 10000, 10, 5000
ONE_FILE = "ab" * 32


def measure(bench):
    locks_held(bench)
    locks_on_one_file(bench)
    connections(bench)
    idle_connections(bench)


def volatile(bench, name, **options):
    return servers.holdfast(bench.build, bench.directory / name, "locks.durable=no", **options)


def bytes_a_lock(bench, server, held, *arguments):
    before = server.resident_bytes()
    bench.load(server, "--held", held, "--requests", 1000, *arguments)
    return (server.resident_bytes() - before) / held


def locks_held(bench):
    with contextlib.ExitStack() as stack:
        every = {held: stack.enter_context(volatile(bench, f"held{held}", port=4045 + i))
                 for i, held in enumerate(HELD)}
        cost = {held: bytes_a_lock(bench, server, held) for held, server in every.items()}
        rate = bench.rates(every)
    add = bench.results.add
    add("with 1,000,000 locks held, 8 x 16", rate[HELD[-1]], "/s", "with 1,000", rate[HELD[0]], ">= 0.7")
    add("memory of a held lock, one file each", cost[HELD[-1]], "bytes", "250 bytes", 250, "<= 1")
    bench.results.add_series("held", HELD, volatile=[rate[held] for held in HELD])


def locks_on_one_file(bench):
    with volatile(bench, "one-file") as server:
        cost = bytes_a_lock(bench, server, HELD[-1], "--fh", ONE_FILE)
    bench.results.add("memory of a held lock, all on one file", cost, "bytes", "250 bytes", 250, "<= 1")


def connections(bench):
    """One request in flight on each; then few that are busy, with and without many that are idle. What
    it costs the do-nothing server is what it costs the kernel."""
    crowd, few = (*shape(CROWD, 1), "--warmup", 3), shape(FEW, 1)
    busy = shape(FEW, 16)
    idle = (*busy, "--idle", CROWD - FEW)
    with volatile(bench, "crowd") as ours, servers.nothing(bench.build) as nothing:
        rate = in_turns(bench.rounds, {
            (name, which): lambda server=server, arguments=arguments: bench.rate(server, *arguments)
            for name, server in (("holdfast", ours), ("nothing", nothing))
            for which, arguments in (("crowd", crowd), ("few", few), ("busy", busy), ("idle", idle))})
    add = bench.results.add
    for many, alone, what, against in (("crowd", "few", "10,000 connections x 1", "10 x 1"),
                                       ("idle", "busy", "10 x 16 and 9,990 idle", "10 x 16")):
        add(what, rate["holdfast", many], "/s", against, rate["holdfast", alone], ">= 0.7")
        add("the same, do-nothing", rate["nothing", many], "/s", against, rate["nothing", alone])
        add(what, rate["holdfast", many], "/s", "do-nothing", rate["nothing", many])


def idle_connections(bench):
    with volatile(bench, "idle") as server, contextlib.ExitStack() as stack:
        before = server.resident_bytes()
        for _ in range(IDLE):
            stack.enter_context(rpc.Tcp("127.0.0.1", server.port)).call(nsm.NLM, 4, 0)
        cost = (server.resident_bytes() - before) / IDLE
    bench.results.add("memory of an idle connection", cost, "bytes", "4096 bytes", 4096, "<= 1")
