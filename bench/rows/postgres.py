"""The store in PostgreSQL beside the one in LMDB, and beside that of another holdfastd (--beside). One database server, on the
same disk, keeps the stores of both; whichever is not being measured is idle."""
import contextlib

import servers
from rows import shape

SHAPES = {"1 x 1": shape(1, 1), "8 x 16": shape(8, 16), "64 x 32": shape(64, 32)}
MIXES = {"LOCK/UNLOCK": "lock", "SM_MON/UNMON": "mon"}
HALF = ("8 x 16", "64 x 32")  # where half of LMDB is the aim


def measure(bench):
    if not servers.POSTGRES.is_dir():
        print("no PostgreSQL is installed: its rows are left out")
        return
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(servers.postgres(bench.directory / "postgres"))
        every = {"postgres": stack.enter_context(servers.holdfast(
                     bench.build, bench.directory / "pg-new", *database("new"))),
                 "lmdb": stack.enter_context(servers.holdfast(bench.build, bench.directory / "pg-lmdb", port=4046))}
        if bench.beside:
            every["beside"] = stack.enter_context(servers.holdfast(
                bench.build, bench.directory / "pg-old", *database("old"), port=4047, program=bench.beside))
        for what, mix in MIXES.items():
            for name, arguments in SHAPES.items():
                report(bench, f"{what} {name}, PostgreSQL", bench.rates(every, "--mix", mix, *arguments),
                       ">= 0.5" if name in HALF else "")


def report(bench, what, rate, goal):
    bench.results.add(what, rate["postgres"], "/s", "LMDB", rate["lmdb"], goal)
    if "beside" in rate:
        bench.results.add(what, rate["postgres"], "/s", "the other holdfastd", rate["beside"])
