"""More and more locks in one store, of one client, each on a file of its own and with an owner of its own: what they
take in memory and on the disk, how fast a request is beside them, how long a restart takes to load them, and how long
it takes to release them all when their client does not come back."""
import json
import subprocess
import time
import urllib.request

from scaling import OnLooker, Server, free_bytes, quiet, store_bytes
from scaling.played import wait_until_over
from holdfast_test.daemon import PORT

COUNTS = (1000, 10000, 100000, 1000000, 10000000)
NEEDED = 1000  # bytes a lock, of the daemon and of the page cache together: a point that does not fit is left out
GRACE_S = 1


def measure(bench, counts):
    for count in counts:
        if count * NEEDED > free_bytes():
            print(f"{count:,} locks: left out, the machine has {free_bytes() >> 20:,} MiB free", flush=True)
            return
        yield point(bench, count)


def load(bench, *arguments):
    done = subprocess.run([str(word) for word in (bench.program("holdfast-bench"), "--port", PORT, "--json",
                                                  *arguments)], stdout=subprocess.PIPE, check=True, timeout=600)
    return json.loads(done.stdout)


def locks_held():
    with urllib.request.urlopen("http://127.0.0.1:8049/api/v1/status", timeout=20) as answer:
        return json.load(answer)["counts"]["locks"]


def point(bench, count):
    store = bench.directory / f"locks{count}"
    store.mkdir()
    server = Server(store).start()
    empty, began = server.resident_bytes(), time.monotonic()
    load(bench, "--held", count, "--requests", 10)
    lock_s, held = time.monotonic() - began, server.resident_bytes()
    lock_cpu_s, on_disk = server.cpu_s(), store_bytes(store)
    beside = load(bench, "--mix", "test", "--connections", 8, "--in-flight", 16, "--seconds", 1)
    alone = quiet(bench)
    server.kill()
    server = Server(store, f"grace.seconds={GRACE_S}").start()
    loaded, load_cpu_s = server.resident_bytes(), server.cpu_s()
    with OnLooker(bench) as looker:
        over = server.wait_long("grace period is over")
        wait_until_over(lambda: locks_held() == 0, 300)
        released = time.monotonic()
    figures = {
        "locks": count, "lock_s": lock_s, "lock_cpu_s": lock_cpu_s, "empty_bytes": empty,
        "resident_bytes": held, "bytes_a_lock": (held - empty) / count, "loaded_bytes": loaded,
        "store_bytes": on_disk, "per_second": beside["per_second"], "load_s": server.started_s,
        "load_cpu_s": load_cpu_s, "release_s": released - over, "quiet": alone, "meanwhile": looker.figures,
    }
    began = time.monotonic()
    assert server.stop() == 0
    return {**figures, "stop_s": time.monotonic() - began}
