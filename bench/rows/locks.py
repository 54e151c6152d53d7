"""Locks: Holdfast, with durable locks and without, beside Ganesha and beside a server that does nothing."""
import contextlib

import servers
from rows import fdatasync_rate, in_turns, shape

MIXED = "lock:4,test:4,denied:2"
IN_FLIGHT = [2 ** n for n in range(12)]


def measure(bench):
    with contextlib.ExitStack() as stack:
        every = {
            "nothing": stack.enter_context(servers.nothing(bench.build)),
            "ganesha": stack.enter_context(servers.ganesha(bench.directory / "ganesha")),
            "volatile": stack.enter_context(servers.holdfast(
                bench.build, bench.directory / "volatile", "locks.durable=no")),
            "durable": stack.enter_context(servers.holdfast(
                bench.build, bench.directory / "durable", port=4046)),
        }
        many = side_by_side(bench, every)
        operations(bench, every["volatile"])
        datagrams(bench, every, many)
        one_durable(bench, every["durable"])
        in_flight(bench, every)


def side_by_side(bench, every):
    add = bench.results.add
    many, one, crowd = (bench.rates(every, *shape(*s)) for s in ((8, 16), (1, 1), (64, 32)))
    for what, rate, at_least, part in (("LOCK/UNLOCK 8 x 16, durable=no", many, 15, 0.5),
                                       ("LOCK/UNLOCK 1 x 1, durable=no", one, 1, 0.8)):
        add(what, rate["volatile"], "/s", "Ganesha", rate["ganesha"], f">= {at_least}")
        add(what, rate["volatile"], "/s", "do-nothing", rate["nothing"], f">= {part}")
    add("LOCK/UNLOCK 8 x 16, durable", many["durable"], "/s", "Ganesha", many["ganesha"], ">= 3")
    add("LOCK/UNLOCK 64 x 32, durable", crowd["durable"], "/s", "Ganesha", crowd["ganesha"], ">= 10")
    bench.results.add_series("side by side", ["8 x 16", "1 x 1", "64 x 32"],
                             **{name: [rate[name] for rate in (many, one, crowd)] for name in every})
    return many


def operations(bench, server):
    rate = in_turns(bench.rounds, {mix: lambda mix=mix: bench.rate(server, "--mix", mix)
                                   for mix in ("lock", "test", "denied", MIXED)})
    add = bench.results.add
    add("TEST 8 x 16", rate["test"], "/s", "LOCK/UNLOCK", rate["lock"], ">= 1")
    add("LOCK of what another holds, 8 x 16", rate["denied"], "/s", "LOCK/UNLOCK", rate["lock"], ">= 1")
    add("mixed: 4 pairs, 4 TEST, 2 denied, 8 x 16", rate[MIXED], "/s", "LOCK/UNLOCK", rate["lock"])


def datagrams(bench, every, tcp):
    rate = bench.rates({name: every[name] for name in ("nothing", "volatile")}, "--udp")
    add = bench.results.add
    add("LOCK/UNLOCK 8 x 16 over UDP, durable=no", rate["volatile"], "/s", "TCP", tcp["volatile"], ">= 0.8")
    add("LOCK/UNLOCK 8 x 16 over UDP, durable=no", rate["volatile"], "/s", "do-nothing over UDP",
        rate["nothing"])
    add("do-nothing over UDP, 8 x 16", rate["nothing"], "/s", "do-nothing over TCP", tcp["nothing"])
    single = in_turns(bench.rounds, {way: lambda way=way: bench.rate(every["volatile"], *shape(8, 1), *way)
                                     for way in ((), ("--udp",))})
    add("LOCK/UNLOCK 8 x 1 over UDP, durable=no", single["--udp",], "/s", "TCP", single[()], ">= 0.8")


def one_durable(bench, server):
    rate = in_turns(bench.rounds, {"sync": lambda: fdatasync_rate(bench.directory),
                                   "lock": lambda: bench.rate(server, *shape(1, 1))})
    bench.results.add("LOCK/UNLOCK 1 x 1, durable", rate["lock"], "/s", "fdatasync", rate["sync"], ">= 0.4")


def in_flight(bench, every):
    """For the plot: from one request in flight to thousands, 16 a connection. So many, so each is short."""
    lines = {name: [] for name in every}
    for n in IN_FLIGHT:
        connections = max(1, n // 16)
        rate = bench.rates(every, *shape(connections, n // connections), "--seconds", bench.seconds / 4,
                           "--warmup", 0.2)
        for name in every:
            lines[name].append(rate[name])
    bench.results.add_series("in flight", IN_FLIGHT, **lines)
