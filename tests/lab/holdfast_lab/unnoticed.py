"""Applications of two guests that hold a lock, wait for it, take turns at another, and use SQLite, while what serves their locks goes away
again and again; and what the bridge may not carry meanwhile (recovery.notify=needed).

    apps = Applications(lab, alpha, beta, "unnoticed")
    for ...:
        apps.fault_begins()
        ...
        apps.fault_ends()       # the longest time until both guests had new results is kept
    apps.end("restarts")        # the waiter is served; nothing was counted twice or lost; the capture is clean
"""
import os
import sqlite3
import subprocess
import time

from holdfast_test import tap

from . import story
from .image import find
from .worker import RECOVERY, Worker, check_counter, enough

TIMES = int(os.environ.get("HOLDFAST_LAB_RESTARTS") or "12")
NEEDED = ("recovery.notify=needed", "notify.timeout=2", "notify.on_failure=release")
CHURN_S = 3600  # longer than any run: /tmp/enough ends it
ASKED_AGAIN = 40  # a Linux kernel repeats a waiting request every 30 s
IN_FLIGHT = 2  # of two more results the first may have been on its way before the fault


def unwanted(*guests):
    """What no guest may be sent, or send, while restarts go unnoticed: filters of tshark."""
    here = " || ".join(f"ip.dst == {guest.address}" for guest in guests)
    return {"SM_NOTIFY": f"rpc.program == 100024 && rpc.procedure == 6 && rpc.msgtyp == 0 && ({here})",
            "a reclaim": "nlm.reclaim == 1", "DENIED_GRACE_PERIOD": "nlm.stat == 4"}


def captured(lab, what):
    """How many packets of the lab's capture a filter lets through."""
    said = subprocess.run([find("tshark"), "-r", lab.directory / "bridge.pcap", "-Y", what], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    return len(said.stdout.splitlines())


class Applications:
    def __init__(self, lab, alpha, beta, name, worker=Worker):
        self.lab, self.guests, self.longest, self.faults, self.began = lab, (alpha, beta), 0, 0, time.monotonic()
        self.database = lab.export / f"{name}.db"
        with sqlite3.connect(self.database) as database:
            database.executescript("CREATE TABLE counter(total); INSERT INTO counter VALUES(0); CREATE TABLE added(guest, number);")
        self.database.chmod(0o666)
        self.holder, self.waiter = beta.app("holder", name), alpha.app("waiter", name)
        self.holder.ask("set w 500 1", "granted", RECOVERY)
        self.waiter.wait_for("wait w 500 1")
        self.turns = [guest.app(f"turns{guest.name}", f"{name}-turns") for guest in self.guests]
        self.workers = [worker(guest, f"add-with-sqlite /mnt/{self.database.name} {guest.name}") for guest in self.guests]
        for app in self.turns:
            app.say(f"churn {CHURN_S}")

    def go_on(self, results):
        """Each guest has so many more results of SQLite."""
        for worker in self.workers:
            worker.wait_for_more(results)

    def fault_begins(self):
        """All are at work."""
        self.go_on(1)
        self.watch = story.Watch()

    def fault_ends(self):
        """All are at work again."""
        self.go_on(IN_FLIGHT)
        self.longest, self.faults = max(self.longest, self.watch.took), self.faults + 1

    def end(self, what):
        took = time.monotonic() - self.began
        enough(self.workers)
        answers = [app.next(RECOVERY).split() for app in self.turns]
        assert all(a[0] == "churned" and a[5] == "0" for a in answers), answers
        count = sum(int(a[1]) for a in answers)
        self.turns[0].ask("number", f"number {count}")
        acknowledged = {(worker.guest.name, number) for worker in self.workers for number in worker.done("added")}
        assert sum(len(worker.lines) for worker in self.workers) == len(acknowledged), [worker.lines[-5:] for worker in self.workers]
        check_counter(self.database, acknowledged)
        self.waiter.still_waits()
        watch = story.Watch()
        self.holder.ask("free 500 1", "freed", RECOVERY)
        self.waiter.expect("granted", ASKED_AGAIN)
        granted = watch.took
        assert captured(self.lab, "rpc.program == 100021 && rpc.msgtyp == 0") > 0, "nothing was captured"
        found = {what: n for what, filter in unwanted(*self.guests).items() if (n := captured(self.lab, filter))}
        assert not found, found
        tap.note(f"lab: {self.faults} {what} in {took:.0f} s: {count} turns at a lock, longest {max(int(a[3]) for a in answers) / 1000:.1f} s; "
                 f"{len(acknowledged)} transactions of SQLite, at most {self.longest:.1f} s until both guests had two more; the waiter was "
                 f"served {granted:.1f} s after the unlock; no SM_NOTIFY, no reclaim, no DENIED_GRACE_PERIOD on the bridge")
