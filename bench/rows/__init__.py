"""What `make bench` measures, a file for each kind of row; and the means they share.

What is compared is measured in turns (A, B, A, B, ...), and the medians count: the machine may be noisy,
but it is as noisy for all.
"""
import contextlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path


def shape(connections, in_flight):
    return "--connections", connections, "--in-flight", in_flight


def in_turns(rounds, measures):
    """Each of the named functions, one after the other, so many times: the median of each."""
    figures = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            figures[name].append(measure())
    return {name: statistics.median(values) for name, values in figures.items()}


# A process of its own, so that a shim can be preloaded into it.
FLUSHES = """
import os, sys, time
count, data = 0, b"x" * 4096
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600)
os.pwrite(fd, data * 256, 0)
os.fsync(fd)
start = time.monotonic()
while time.monotonic() < start + 1:
    os.pwrite(fd, data, 4096 * (count % 256))
    os.fdatasync(fd)
    count += 1
print(count / (time.monotonic() - start))
"""


def fdatasync_rate(directory, environment=None):
    """Pages a second that reach the disk one after the other."""
    done = subprocess.run([sys.executable, "-c", FLUSHES, str(Path(directory, "sync"))], stdout=subprocess.PIPE, check=True,
                          env={**os.environ, **(environment or {})})
    return float(done.stdout)


class Bench:
    def __init__(self, build, directory, seconds, rounds, results, store_delays=None, beside=None):
        self.build, self.directory = build, directory
        self.seconds, self.rounds, self.results = seconds, rounds, results
        self.store_delays = store_delays  # milliseconds; None: those that the rows choose
        self.beside = beside  # another holdfastd to compare with; None: none

    def _command(self, server, *arguments):
        return [str(word) for word in (self.build / "bench/holdfast-bench", "--port", server.port, "--json",
                                       "--seconds", self.seconds, *server.arguments, *arguments)]

    def load(self, server, *arguments):
        """One run of the load generator: its figures."""
        done = subprocess.run(self._command(server, *arguments), stdout=subprocess.PIPE, timeout=600, check=True)
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def loading(self, server, *arguments):
        """The load generator runs meanwhile, and longer than any one measurement."""
        with subprocess.Popen(self._command(server, "--seconds", 600, *arguments), stdout=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.kill()

    def rate(self, server, *arguments):
        return self.load(server, *arguments)["per_second"]

    def rates(self, servers, *arguments):
        """Requests a second of each of the named servers, in turns."""
        return in_turns(self.rounds, {name: lambda server=server: self.rate(server, *arguments)
                                      for name, server in servers.items()})
