"""What `make bench` measures, a file for each kind of row; and the means they share.

What is compared is measured in turns (A, B, A, B, ...), and the medians count: the machine may be noisy,
but it is as noisy for all.
"""
import json
import statistics
import subprocess


def shape(connections, in_flight):
    return "--connections", connections, "--in-flight", in_flight


def in_turns(rounds, measures):
    """Each of the named functions, one after the other, so many times: the median of each."""
    figures = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            figures[name].append(measure())
    return {name: statistics.median(values) for name, values in figures.items()}


class Bench:
    def __init__(self, build, directory, seconds, rounds, results):
        self.build, self.directory = build, directory
        self.seconds, self.rounds, self.results = seconds, rounds, results

    def load(self, server, *arguments):
        """One run of the load generator: its figures."""
        command = [self.build / "bench/holdfast-bench", "--port", server.port, "--json",
                   "--seconds", self.seconds, *server.arguments, *arguments]
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, timeout=600,
                              check=True)
        return json.loads(done.stdout)

    def rate(self, server, *arguments):
        return self.load(server, *arguments)["per_second"]

    def rates(self, servers, *arguments):
        """Requests a second of each of the named servers, in turns."""
        return in_turns(self.rounds, {name: lambda server=server: self.rate(server, *arguments)
                                      for name, server in servers.items()})
