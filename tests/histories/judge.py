"""What becomes of a played round: its history is put together (history.py) and checked (hf-check-history), and for each
fault the time to recovery is read off it.
"""
import bisect
import os
import shutil
import subprocess
from dataclasses import dataclass, field

import history

CHECKER = os.environ.get("HOLDFAST_CHECK_HISTORY", "hf-check-history")
KEPT = os.environ.get("HOLDFAST_HISTORIES", "")  # where a history that is not linearizable is kept, with its picture
LINEARIZABLE, VIOLATION, UNDECIDED = 0, 1, 3     # exit statuses of the checker


@dataclass
class Verdict:
    status: int
    said: str
    operations: int                 # that clients completed
    faults: dict                    # how many of each kind
    recoveries: dict = field(default_factory=dict)  # seconds, by kind


@dataclass
class Round:
    config: str
    name: str
    folder: str
    logs: dict      # of each host, one for each of its lives
    restarts: list
    faults: list
    files: list
    programs: dict  # owners outside, by process id

    def judge(self):
        """Checks it and removes it."""
        try:
            path = self.folder + "/history"
            count, grants = history.write(path, self.logs, self.restarts, self.files, self.programs)
            picture = [f"--picture={KEPT}/{self.name}.svg"] if KEPT else []
            done = subprocess.run([CHECKER, *picture, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode == VIOLATION and KEPT:
                shutil.copytree(self.folder, f"{KEPT}/{self.name}", dirs_exist_ok=True)
            return Verdict(done.returncode, done.stdout.decode(), count, self.count_faults(), self.recoveries(grants))
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def count_faults(self):
        counts = {}
        for fault in self.faults:
            counts[fault.kind] = counts.get(fault.kind, 0) + 1
        return counts

    def recoveries(self, grants):
        """From each fault, or its end, to the first lock that is granted to a client that it concerned. grants: of each
        host the moments at which a lock was granted, in order."""
        found = {}
        for fault in self.faults:
            if not fault.is_timed:
                continue
            firsts = [times[at] for times in (grants.get(number, []) for number in fault.clients)
                      if (at := bisect.bisect_right(times, fault.since)) < len(times)]
            if firsts:
                found.setdefault(fault.kind, []).append((min(firsts) - fault.since) / 1e9)
        return found
