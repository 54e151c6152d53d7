"""What `make scale` measures, a file for each curve; and the means they share.

A point of a curve is a dictionary: what was varied, and what was measured. Times are seconds of the clock, so a
quiet machine is needed for them; bytes and counts need none.
"""
import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from holdfast_test.crowd import SERVER, processor
from holdfast_test.daemon import PORT, Daemon

WAIT_S = 600
MANY = 100000000  # a limit that is never reached
LIMITS = tuple(f"limits.{name}={MANY}" for name in ("locks", "locks_per_client", "locks_per_file", "locks_per_host",
                                                    "locks_per_owner")) + (
    "limits.clients=1000000", "limits.clients_per_host=1000000")
# Who looks on: another client, that asks for what no disk is needed for, as often as this a second.
ON_LOOKER = ("--host", SERVER, "--mix", "test", "--connections", 8, "--in-flight", 1, "--rate", 200)


class Bench:
    def __init__(self, build, directory):
        self.build, self.directory = build, directory

    def program(self, name):
        return str(self.build / "bench" / name)


class Server(Daemon):
    """A life of the daemon. started_s is how long it took from the start of the process to its first answer."""

    def __init__(self, store, *sets, **options):
        super().__init__("store.backend=lmdb", f"store.path={store}", "admin.socket=", "log.level=info", *LIMITS,
                         *sets, **options)

    def start(self, wait=True):
        began = time.monotonic()
        super().start(wait=False)
        self.wait_long("ready")
        self.started_s = time.monotonic() - began
        return self

    def wait_long(self, text):
        """Waits for a line of the log; its time on the monotonic clock, seen a moment later."""
        with self.news:
            found = self.news.wait_for(lambda: any(text in line or line == "(end of log)" for line in self.lines),
                                       WAIT_S)
        assert found and text in self.log(), f'no "{text}" in its log:\n{self.log()[-4000:]}'
        return time.monotonic()

    def wait(self):
        """A store of ten million locks takes long to close."""
        self.process.wait(WAIT_S)
        return super().wait()

    def resident_bytes(self):
        return self.memory_kib() * 1024

    def peak_bytes(self):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) * 1024

    def cpu_s(self):
        """Processor time of the loop's thread, which does all but write to the disk."""
        return processor(self.process.pid)[0]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.wait()


class OnLooker:
    """The load generator as another client: with OnLooker(bench) as o: ...; then o.figures."""

    def __init__(self, bench):
        self.command = [bench.program("holdfast-bench"), "--port", PORT, "--json", "--seconds", WAIT_S * 2,
                        "--warmup", 0, *ON_LOOKER]
        self.figures = {}

    def __enter__(self):
        self.process = subprocess.Popen([str(word) for word in self.command], stdout=subprocess.PIPE,
                                        preexec_fn=first)
        return self

    def __exit__(self, failure, *_):
        time.sleep(0 if failure else 0.05)  # a few answers, even if all was over at once
        self.process.terminate()
        out, _ = self.process.communicate(timeout=WAIT_S)
        if not failure:
            assert self.process.returncode == 0, "the other client was not served"
            self.figures = json.loads(out)


def store_bytes(store):
    """What its files take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in Path(store).iterdir())


def quiet(bench, seconds=1):
    """The same client while nothing else happens."""
    with OnLooker(bench) as looker:
        time.sleep(seconds)
    return looker.figures


def free_bytes():
    text = Path("/proc/meminfo").read_text()
    return int(text.partition("MemAvailable:")[2].split()[0]) * 1024


def first():
    """Before the clients that are played: they stand for machines of their own, and must not delay who looks on."""
    with contextlib.suppress(OSError):
        os.nice(-5)
