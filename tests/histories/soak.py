"""Histories for a given time with each configuration, every round checked while the next is played; and a report: per
configuration how many operations were checked and what went wrong, and per kind of fault the time to recovery.
"""
import json
import multiprocessing
import os
import statistics
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor

from judge import KEPT, LINEARIZABLE, UNDECIDED
from services import CONFIGURATIONS
from world import World

ROUND_S = 15


class Tally:
    """Of one configuration."""

    def __init__(self, config):
        self.config, self.seconds = config, 0.0
        self.operations = self.undecided = self.violations = self.rounds = 0
        self.faults, self.recoveries = {}, {}

    def add(self, name, verdict):
        self.rounds += 1
        for kind, n in verdict.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + n
        for kind, times in verdict.recoveries.items():
            self.recoveries.setdefault(kind, []).extend(times)
        if verdict.status == LINEARIZABLE:
            self.operations += verdict.operations
        elif verdict.status == UNDECIDED:
            self.undecided += verdict.operations
        else:
            self.violations += 1
            print(f"{self.config}, {name}:\n{verdict.said}", flush=True)
        print(f"# {self.config}, {name}: {verdict.operations} operations, {sum(verdict.faults.values())} faults; "
              f"{verdict.said.splitlines()[-1][2:]}", flush=True)


def judge(played):
    return played.judge()


def run_configuration(config, seconds, seed):
    tally, began, worlds, pending = Tally(config), time.monotonic(), 0, []

    def collect(most):
        while len(pending) > most:
            name, future = pending.pop(0)
            tally.add(name, future.result())

    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as judges:
        while time.monotonic() - began < seconds:
            worlds += 1
            try:
                with World(config, f"{seed}-{config}-{worlds}", **CONFIGURATIONS[config][0].world) as world:
                    while (left := seconds - (time.monotonic() - began)) > 0:
                        played = world.play(min(ROUND_S, max(5, left)))
                        pending.append((played.name, judges.submit(judge, played)))
                        collect(1)
            except (AssertionError, subprocess.TimeoutExpired) as failure:  # not by the checker: a world that broke
                tally.violations += 1
                print(f"{config}, world {worlds}: {failure}", flush=True)
        collect(0)
    tally.seconds = time.monotonic() - began
    return tally


# ---- the report ----

def quantile(times, q):
    return sorted(times)[min(len(times) - 1, int(q * len(times)))]


def family(config):
    """Configurations that recover alike are shown together."""
    return "clients only" if config.endswith("-no") else config.split("-")[0]


def recovery_table(tallies):
    """Median, 99th percentile and most, in seconds, and of how many."""
    found = {}
    for t in tallies:
        for kind, times in t.recoveries.items():
            found.setdefault(kind, {}).setdefault(family(t.config), []).extend(times)
    families = list(dict.fromkeys(family(t.config) for t in tallies))
    lines = ["| fault | " + " | ".join(families) + " |", "|---|" + "---|" * len(families)]
    for kind in sorted(found):
        cells = [f"{statistics.median(times):.2f} / {quantile(times, 0.99):.2f} / {max(times):.2f} ({len(times)})"
                 if (times := found[kind].get(name)) else "–" for name in families]
        lines.append(f"| `{kind}` | " + " | ".join(cells) + " |")
    return lines


def report(tallies):
    lines = ["| configuration | minutes | operations checked | per second | undecided | faults | violations |",
             "|---|---|---|---|---|---|---|"]
    for t in tallies:
        lines.append(f"| `{t.config}` | {t.seconds / 60:.1f} | {t.operations:,} | {t.operations / t.seconds:,.0f} | "
                     f"{t.undecided:,} | {sum(t.faults.values()):,} | {t.violations} |")
    return "\n".join([*lines, "", *recovery_table(tallies)])


def run(configs, seconds, seed):
    """The exit status."""
    seed = seed or f"soak-{int(time.time())}"
    tallies = []
    for config in configs:
        tallies.append(run_configuration(config, seconds, seed))
        print(report(tallies[-1:]), flush=True)
        if KEPT:
            with open(os.path.join(KEPT, "tallies.jsonl"), "a") as file:
                file.write(json.dumps(vars(tallies[-1])) + "\n")
    print("\n" + report(tallies), flush=True)
    return 1 if any(t.violations for t in tallies) else 0
