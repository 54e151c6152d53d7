"""How durable a lock is, and what that costs: locks.durable=yes, process and no (SPEC section 11), on this disk and
on disks whose flushes are slower, by bench/slow_sync.c preloaded into each server."""
import contextlib

import servers
from rows import fdatasync_rate, in_turns, shape

DELAYS_MS = (0, 0.1, 1, 5, 10)
MODES = ("yes", "process", "no")
LINES = {"durable": "yes", "process": "process", "volatile": "no"}  # as bench/plot names them
ONE, MANY = shape(1, 1), shape(8, 16)


def measure(bench):
    figures = {delay: at_delay(bench, delay) for delay in bench.store_delays or DELAYS_MS}
    never_asleep(bench)
    for delay in figures:
        bystander(bench, delay)
    for which, name in ((ONE, "1 x 1"), (MANY, "8 x 16")):
        bench.results.add_series(f"durable {name}", [f"{delay} ms" for delay in figures],
                                 **{line: [f[mode, which] for f in figures.values()] for line, mode in LINES.items()})


def at_delay(bench, delay):
    """Requests a second of each mode and shape, measured in turns."""
    with contextlib.ExitStack() as stack:
        every = {mode: stack.enter_context(servers.holdfast(
            bench.build, bench.directory / f"{mode}-{delay}", f"locks.durable={mode}", port=4045 + n,
            environment=servers.slow_disk(bench.build, delay))) for n, mode in enumerate(MODES)}
        every["nothing"] = stack.enter_context(servers.nothing(bench.build))
        measures = {(name, which): lambda server=server, which=which: bench.rate(server, *which)
                    for which in (ONE, MANY) for name, server in every.items()}
        measures["sync"] = lambda: fdatasync_rate(bench.directory, servers.slow_disk(bench.build, delay))
        figures = in_turns(bench.rounds, measures)
    report(bench.results.add, delay, figures)
    return figures


def never_asleep(bench):
    """Where the generator sleeps, the server pays for waking it. With durable=process, whose answers leave in bursts, it
    sleeps longer, and waking a processor that a hypervisor has put aside takes 10 us instead of 4: as much as the journal."""
    with contextlib.ExitStack() as stack:
        every = {mode: stack.enter_context(servers.holdfast(
            bench.build, bench.directory / f"{mode}-awake", f"locks.durable={mode}", port=4045 + n))
            for n, mode in enumerate(("process", "no"))}
        figures = in_turns(bench.rounds, {mode: lambda server=server: bench.rate(server, *MANY, "--spin")
                                          for mode, server in every.items()})
    bench.results.add("8 x 16, durable=process, the generator never sleeps", figures["process"], "/s",
                      "durable=no", figures["no"])


def bystander(bench, delay):
    """A client that needs no disk, one TEST after the other, beside one that locks durably, one lock after the other: a
    flush on the loop's thread would show in its answer times."""
    with contextlib.ExitStack() as stack:
        every = {name: stack.enter_context(servers.holdfast(
            bench.build, bench.directory / f"{name}-{delay}", port=4045 + n, program=program,
            environment=servers.slow_disk(bench.build, delay)))
            for n, (name, program) in enumerate((("ours", None), ("beside", bench.beside))) if name == "ours" or program}

        def p99(server, disturbed):
            with bench.loading(server, *ONE) if disturbed else contextlib.nullcontext():
                return bench.load(server, "--mix", "test", *ONE)["p99_us"]

        figures = in_turns(bench.rounds, {(name, disturbed): lambda server=server, disturbed=disturbed: p99(server, disturbed)
                                          for name, server in every.items() for disturbed in (False, True)})
    for name in every:
        bench.results.add(f"p99 of TEST beside a durable client, +{delay} ms a flush" +
                          (", the other holdfastd" if name == "beside" else ""), figures[name, True], "us", "p99 without it",
                          figures[name, False])


def report(add, delay, figures):
    flush = 1 / figures["sync"]
    where = f", flush {flush * 1000:.2f} ms"
    add("1 x 1, durable=process" + where, figures["process", ONE], "/s", "durable=no", figures["no", ONE], ">= 0.9")
    add("8 x 16, durable=process" + where, figures["process", MANY], "/s", "durable=no", figures["no", MANY],
        ">= 0.8")
    add("1 x 1, durable=process" + where, figures["process", ONE], "/s", "durable=yes", figures["yes", ONE],
        ">= 20" if delay == 5 else "")
    add("8 x 16, durable=process" + where, figures["process", MANY], "/s", "durable=yes", figures["yes", MANY])
    limit = 1 / (flush + 1 / figures["nothing", ONE])
    add("1 x 1, durable=yes" + where, figures["yes", ONE], "/s", "1/(flush + do-nothing)", limit, ">= 0.6")
