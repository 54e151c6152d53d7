"""Programs of others that lock in guests until /tmp/enough is there, and what they leave: a result that is wrong if a lock was held
twice, or lost, only once.
"""
import sqlite3
import threading
import time

from . import story

RECOVERY = 90   # seconds, and a failure beyond: a client's own pauses, on a busy machine
MORE = 6       # results between two faults


class Worker:
    """A program in a guest, and the lines it has printed."""

    @staticmethod
    def explain():
        """Keeps what is known when it hangs."""

    def __init__(self, guest, command):
        self.guest, self.command = guest, command
        self.lines, self.status = [], None
        _, said = guest.start(command)
        self.thread = threading.Thread(target=self._read, args=(said,), daemon=True)
        self.thread.start()

    def _read(self, said):
        while True:
            kind, text = said.get()
            if kind == "=":
                self.status = text
                return
            self.lines.append(text)
            story.tell(self.guest.name, f"{self.command.split()[0]}: {text}", aloud=False)

    def done(self, word):
        """The numbers of what it says it has done."""
        return [int(line.split()[1]) for line in self.lines if line.startswith(word + " ")]

    def wait_for_more(self, count=MORE):
        """It goes on: so many results from now."""
        wanted, end = len(self.lines) + count, time.monotonic() + RECOVERY
        while len(self.lines) < wanted and self.status is None:
            if time.monotonic() > end:
                self.explain()
                raise AssertionError(f"{self.guest.name}: {self.command} hangs: {self.lines[-5:]}")
            time.sleep(0.05)

    def wait(self):
        self.thread.join(RECOVERY)
        assert self.status == "0", f"{self.guest.name}: {self.command}: status {self.status}: {self.lines[-5:]}"


def enough(workers):
    for worker in workers:
        worker.guest.run("touch /tmp/enough")
    for worker in workers:
        worker.wait()


def check_counter(path, acknowledged, in_doubt=()):
    """in_doubt: may be there or not."""
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA journal_mode").fetchall() == [("delete",)]
    rows = database.execute("SELECT guest, number FROM added").fetchall()
    total, = database.execute("SELECT total FROM counter").fetchone()
    database.close()
    assert len(rows) == len(set(rows)) == total, f"{total} counted, {len(rows)} rows, {len(set(rows))} different"
    assert acknowledged <= set(rows), f"acknowledged and lost: {sorted(acknowledged - set(rows))}"
    assert set(rows) - acknowledged <= set(in_doubt), f"not acknowledged: {sorted(set(rows) - acknowledged)}"
