"""Coherence with the kernel's locks (SPEC section 15): the same daemon with holdfast-keeper and without, and Ganesha, which locks in
the kernel as well, in one run. Then a start with a file for each of many locks: HOLDFAST_BENCH_FILES of them, 100,000 if not said."""
import contextlib
import os
import resource
import time
import urllib.request
from pathlib import Path

import servers
from holdfast_test import keeper as k
from holdfast_test import nsm
from holdfast_test.names import ganesha as handle_of
from rows import shape

FILES = int(os.environ.get("HOLDFAST_BENCH_FILES", "100000"))
AT_MOST_US = 30  # more for one request, one at a time
START_S = 2


def make_files(folder, count):
    """The handles of so many new files."""
    handles = []
    for n in range(count):
        path = folder / str(n // 1000) / str(n)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        handles.append(handle_of(str(path)))
    return handles


@contextlib.contextmanager
def kept(bench, folder, *sets, port):
    """A daemon with a keeper and an export of its own."""
    export = folder / "export"
    handles = make_files(export, servers.GANESHA_FILES)
    socket = str(folder / "keeper")
    with k.Keeper(export, path=socket), servers.holdfast(bench.build, folder / "store", f"keeper.socket={socket}", *sets,
                                                         port=port) as server:
        wait_until_up(server)
        server.arguments = ("--fh", ",".join(fh.hex() for fh in handles))
        yield server


def is_up(server):
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{server.port + 4000}/metrics", timeout=5) as page:
        return b"\nholdfast_coherence_up 1" in page.read()
    return False


def wait_until_up(server, end_s=120):
    end = time.monotonic() + end_s
    while not is_up(server):
        assert time.monotonic() < end, "the keeper is not up"
        time.sleep(0.002)


def measure(bench):
    os.environ["HOLDFAST_KEEPER"] = str(bench.build / "src/keeper/holdfast-keeper")
    rates(bench)
    start(bench)


def rates(bench):
    add = bench.results.add
    with contextlib.ExitStack() as stack:
        every = {
            "ganesha": stack.enter_context(servers.ganesha(bench.directory / "ganesha")),
            "no, off": stack.enter_context(servers.holdfast(bench.build, bench.directory / "no", "locks.durable=no")),
            "no, on": stack.enter_context(kept(bench, bench.directory / "no-kept", "locks.durable=no", port=4046)),
            "yes, off": stack.enter_context(servers.holdfast(bench.build, bench.directory / "yes", port=4047)),
            "yes, on": stack.enter_context(kept(bench, bench.directory / "yes-kept", port=4048)),
        }
        for off, on in (("no, off", "no, on"), ("yes, off", "yes, on")):
            every[off].arguments = every[on].arguments
        many, one = (bench.rates(every, *shape(*s)) for s in ((8, 16), (1, 1)))
    add("LOCK/UNLOCK 8 x 16, durable=no, keeper", many["no, on"], "/s", "Ganesha", many["ganesha"], ">= 5")
    add("LOCK/UNLOCK 8 x 16, durable=no, keeper", many["no, on"], "/s", "without keeper", many["no, off"])
    add("LOCK/UNLOCK 8 x 16, durable, keeper", many["yes, on"], "/s", "without keeper", many["yes, off"], ">= 0.8")
    for durable in ("no", "yes"):
        on, off = 1e6 / one[f"{durable}, on"], 1e6 / one[f"{durable}, off"]
        add(f"1 x 1, durable={durable}, keeper: more than without", on - off, "us", f"{AT_MOST_US} us", AT_MOST_US, "<= 1")


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def lock_all(port, handles):
    with nsm.connect(port=port, timeout=60) as client:
        for fh in handles:
            assert client.lock("holder", fh) == nsm.GRANTED


def start(bench):
    """Daemon and keeper are killed, and both start anew: from the daemon's first call to all files claimed. Where the process may not open so
    many files, fewer are claimed, in as much less time."""
    folder, add = bench.directory / "many", bench.results.add
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES + 1000, max(hard, FILES + 1000)))
    files = min(FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1000)
    at_most_s = START_S * files / FILES
    handles = make_files(folder / "export", files)
    socket, options = str(folder / "keeper"), ("--set", f"files={files + 500}")
    sets = (f"keeper.socket={socket}", f"limits.locks_per_owner={files + 500}")
    try:
        with k.Keeper(folder / "export", path=socket, options=options) as keeper, \
                servers.holdfast(bench.build, folder / "store", *sets) as server:
            wait_until_up(server)
            empty, empty_keeper = server.resident_bytes(), resident(keeper.worker())
            lock_all(server.port, handles)
            add("daemon: memory of a claimed file with a lock", (server.resident_bytes() - empty) / files, "bytes", "files", 1)
            add("keeper: memory of a claimed file", (resident(keeper.worker()) - empty_keeper) / files,
                "bytes", "files", 1)
            server.process.kill()
            server.process.wait()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(socket)
        with k.Keeper(folder / "export", path=socket, options=options):
            began = time.monotonic()
            with servers.holdfast(bench.build, folder / "store", *sets) as server:
                served = time.monotonic()
                wait_until_up(server)
                seconds = time.monotonic() - served
                add(f"start with {files:,} files: until all are claimed", time.monotonic() - began, "s", f"{at_most_s:.2f} s", at_most_s, "< 1")
                add("of which after the daemon answers", seconds, "s", f"{at_most_s:.2f} s", at_most_s)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
