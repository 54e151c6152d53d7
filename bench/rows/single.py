"""One request at a time, which is what most applications do: Holdfast in each mode beside Ganesha, and beside servers that do
nothing, one of which looks for input before it sleeps as Holdfast does (server.busy_poll). Each round has servers of its own,
because one server's place in memory decides 2 or 3 %; Ganesha, which takes seconds to start, stays."""
import contextlib
import statistics
import subprocess
import time

import servers
from rows import fdatasync_rate, shape

MODES = ("no", "process", "yes")
ONE, MANY, CROWD = shape(1, 1), shape(8, 16), shape(64, 32)
LOOK_US, LOOKING_PORT = 50, servers.NOTHING_PORT + 1
SELDOM = ("--connections", 1, "--in-flight", 1, "--rate", 100)


def measure(bench):
    figures = {}
    with servers.ganesha(bench.directory / "single-ganesha") as ganesha:
        for n in range(bench.rounds):
            for name, value in one_round(bench, ganesha, n).items():
                figures.setdefault(name, []).append(value)
    report(bench.results.add, {name: statistics.median(values) for name, values in figures.items()}, bench.beside)


def one_round(bench, ganesha, n):
    """Figures by (server, shape), and those of the whole machine by name."""
    figures = {"sync": fdatasync_rate(bench.directory)}
    programs = {"": None, **({"before ": bench.beside} if bench.beside else {})}
    with contextlib.ExitStack() as stack:
        every = {"nothing": stack.enter_context(servers.nothing(bench.build)),
                 "looking": stack.enter_context(servers.nothing(bench.build, port=LOOKING_PORT, look_us=LOOK_US)),
                 "ganesha": ganesha}
        for i, (prefix, mode) in enumerate((p, m) for p in programs for m in MODES):
            every[prefix + mode] = stack.enter_context(servers.holdfast(
                bench.build, bench.directory / f"single-{n}-{i}", f"locks.durable={mode}", port=4100 + i,
                program=programs[prefix]))
        for name, server in every.items():
            figures[name, ONE] = bench.rate(server, *ONE)
        for which in (MANY, CROWD):
            for name in ("nothing", *(prefix + "no" for prefix in programs)):
                figures[name, which] = bench.rate(every[name], *which)
        for prefix in programs:
            for mode in ("no", "yes"):
                figures["seldom", prefix + mode] = share_of_processor(bench, every[prefix + mode])
            figures["idle", prefix] = wakings(every[prefix + "no"].process.pid)
    return figures


def processor_seconds(pid):
    with open(f"/proc/{pid}/schedstat") as own:
        total = int(own.read().split()[0])
    return total / 1e9


def share_of_processor(bench, server):
    """Of one processor, that a client with 100 requests a second takes on the loop's thread, in percent."""
    before, began = processor_seconds(server.process.pid), time.monotonic()
    bench.load(server, *SELDOM, "--warmup", 0)
    return 100 * (processor_seconds(server.process.pid) - before) / (time.monotonic() - began)


def wakings(pid, seconds=2):
    """How often a second the loop's thread wakes while there is nothing to do."""
    def count():
        with open(f"/proc/{pid}/task/{pid}/status") as status:
            return sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)

    time.sleep(0.5)
    before = count()
    subprocess.run(["sleep", str(seconds)], check=True)
    return (count() - before) / seconds


def report(add, figures, beside):
    one = {name: value for (name, which), value in
           ((key, value) for key, value in figures.items() if isinstance(key, tuple)) if which == ONE}
    flush = 1 / figures["sync"]
    for mode, goal in (("no", ">= 1.5"), ("process", ">= 1.5"), ("yes", "")):
        add(f"LOCK/UNLOCK 1 x 1, durable={mode}", one[mode], "/s", "Ganesha", one["ganesha"], goal)
    add("LOCK/UNLOCK 1 x 1, durable=no", one["no"], "/s", "do-nothing that looks", one["looking"])
    add("do-nothing that looks, 1 x 1", one["looking"], "/s", "do-nothing", one["nothing"])
    add(f"1 x 1, durable=yes, flush {flush * 1000:.2f} ms", one["yes"], "/s", "1/(flush + do-nothing that looks)",
        1 / (flush + 1 / one["looking"]), ">= 0.9")
    for name, which in (("8 x 16", MANY), ("64 x 32", CROWD)):
        add(f"LOCK/UNLOCK {name}, durable=no", figures["no", which], "/s", "do-nothing", figures["nothing", which])
        if beside:
            add(f"LOCK/UNLOCK {name}, durable=no", figures["no", which], "/s", "before", figures["before no", which], ">= 0.97")
    for mode in MODES if beside else ():
        add(f"LOCK/UNLOCK 1 x 1, durable={mode}", one[mode], "/s", "before", one["before " + mode])
    for mode in ("no", "yes"):
        add(f"processor time, 100 a second, durable={mode}", figures["seldom", mode], "%",
            "before" if beside else "a processor", figures["seldom", "before " + mode] if beside else 100)
    add("the idle loop wakes", figures["idle", ""], "times a s", "before" if beside else "nothing to compare with",
        figures["idle", "before "] if beside else 0)
