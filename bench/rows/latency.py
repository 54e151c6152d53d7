"""How long answers take at half of what the server can do, and whether anything that happens beside
changes it: clients that are dead, a scrape of metrics, a long list."""
import contextlib
import statistics

import servers
from holdfast_test import crowd, nsm
from holdfast_test.watchers import Watchers
from rows import shape

HELD, DEAD = 100000, 100
MORE_ROUNDS = 3  # one answer in a hundred is a matter of chance: it takes more rounds than a median
SHAPE = shape(128, 1)  # many clients, each of whom asks one thing: what comes at a given rate, comes singly
SCRAPE = (0.1, ["/metrics"])
LIST = (0, ["/api/v1/locks?limit=1000000"])


def measure(bench):
    """Two servers alike: one undisturbed, one that always has dead clients to call. And a server that does
    nothing: its answer times are what the machine adds to those of all servers."""
    with contextlib.ExitStack() as stack:
        nothing = stack.enter_context(servers.nothing(bench.build))
        peace, dead = (stack.enter_context(servers.holdfast(
            bench.build, bench.directory / f"latency{port}", "locks.durable=no", port=port))
            for port in (4045, 4046))
        for server in (peace, dead):
            bench.load(server, "--held", HELD, "--requests", 1000)
        rate = int(bench.rates({"peace": peace}, *SHAPE)["peace"] / 2)
        figures = {"nothing": [], "peace": [], "dead": [], "scrape": [], "list": []}
        for number in range(bench.rounds * MORE_ROUNDS):
            one_round(bench, number, nothing, peace, dead, rate, figures)
    report(bench, rate, figures)


def one_round(bench, number, nothing, peace, dead, rate, figures):
    def half(server, name):
        figures[name].append(bench.load(server, *SHAPE, "--rate", rate))

    half(nothing, "nothing")
    half(peace, "peace")
    with dead_waiters(dead, number):
        half(dead, "dead")
    half(nothing, "nothing")
    half(peace, "peace")
    with Watchers(SCRAPE, port=peace.port + 4000):
        half(peace, "scrape")
    half(peace, "peace")
    with Watchers(LIST, port=peace.port + 4000) as watchers:
        half(peace, "list")
    assert watchers.answers > 0


@contextlib.contextmanager
def dead_waiters(server, number):
    """Clients that wait for a lock, die, and are then granted it: their callbacks stay unanswered."""
    first = number * DEAD
    addresses = [crowd.address(crowd.MORTAL, first + n) for n in range(DEAD)]
    with nsm.connect(crowd.SERVER, port=server.port) as holder:
        for n in range(first, first + DEAD):
            assert holder.lock("holder", crowd.file_of(n)) == nsm.GRANTED
        crowd.lock_all(addresses, port=server.port, block=True, first=first)
        crowd.bury()
        try:
            for n in range(first, first + DEAD):
                assert holder.unlock("holder", crowd.file_of(n)) == nsm.GRANTED
            yield
        finally:
            crowd.raise_from_the_dead()


def report(bench, rate, figures):
    def quartile(name, key):
        """The lower quartile: interference from the machine only ever lengthens a tail."""
        return statistics.quantiles((figure[key] for figure in figures[name]), n=4)[0]

    p99 = quartile("peace", "p99_us")
    add = bench.results.add
    add(f"p99 at half load, {rate:,}/s on 128 x 1", p99, "us", "p50", quartile("peace", "p50_us"), "< 10")
    theirs = quartile("nothing", "p99_us")
    add("the same, do-nothing", theirs, "us", "p50", quartile("nothing", "p50_us"))
    add("p99 at half load", p99, "us", "do-nothing", theirs)
    for name, what in (("dead", f"p99 with {DEAD} dead clients being called"),
                       ("scrape", "p99 with a scrape each 100 ms"),
                       ("list", f"p99 while {HELD:,} locks are listed")):
        add(what, quartile(name, "p99_us"), "us", "p99 without", p99, "<= 1.2")
