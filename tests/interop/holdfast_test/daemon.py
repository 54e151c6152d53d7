"""The daemon under test: started with given settings, waited for, stopped, and its log looked at.

    with Daemon("rpcbind.mode=embedded") as daemon:
        ...
        daemon.wait_for_log("ready")

Leaving the block stops it by SIGTERM and insists on exit status 0 and on silence of the sanitizers.
The program is named by the environment, HOLDFASTD; by hand it is that of build-asan.
"""
import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

BUILT = Path(__file__).parents[3] / "build-asan/src/daemon/holdfastd"
PORT = 4045
WAIT_S = 20  # beyond any start or stop of a healthy daemon: reaching it is a failure
# No daemon may ever log these. The last one is for builds without sanitizers, in which such a call only fails.
SANITIZERS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:", "invariant broken",
              "system call outside the filter")

# Which users this host has must not decide what is tested: as started, unless a test says otherwise. Played clients often cannot be
# told of a restart; grace ends as soon as that is clear, unless a test is about what it protects (notify.on_failure=keep, the default).
DEFAULTS = ("store.backend=memory", "server.name=server.example", "rpcbind.mode=none", "server.user=", "notify.on_failure=release")


def program():
    return os.environ.get("HOLDFASTD", str(BUILT))


def take_release_build():
    """From here on the program is an optimised one, if there is one: for what is timed or counted."""
    beside = Path(__file__).parents[3] / "build/src/daemon/holdfastd"
    if "HOLDFASTD_RELEASE" not in os.environ and beside.exists():
        os.environ["HOLDFASTD_RELEASE"] = str(beside)
    if "HOLDFASTD_RELEASE" in os.environ:
        os.environ["HOLDFASTD"] = os.environ["HOLDFASTD_RELEASE"]


def run(*arguments):
    """Runs the program to its end: (exit status, standard output, standard error)."""
    done = subprocess.run([program(), *arguments], stdin=subprocess.DEVNULL, timeout=WAIT_S,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Daemon:
    def __init__(self, *sets, config=None, env=None, max_files=None, under=()):
        self.command = [*under, program()]  # under: a program that watches it
        if max_files:
            self.command = ["prlimit", f"--nofile={max_files}:{max_files}", *self.command]
        if config:
            self.command += ["--config", config]
        for assignment in (*DEFAULTS, *sets):
            self.command += ["--set", assignment]
        self.env = os.environ | (env or {})
        self.lines = []
        self.news = threading.Condition()
        self.reads, self.parked = threading.Event(), threading.Event()
        self.reads.set()

    # ---- life ----

    def start(self, wait=True):
        self.process_started = time.monotonic()
        self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        if wait:
            try:
                self.wait_for_log("ready")
            except AssertionError:
                if self.lines[-1:] != ["(end of log)"]:
                    self.kill_unready()
                raise
        return self

    def kill_unready(self):
        """One that is not ready in time would keep store and port, and every later start of the test would fail for that."""
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, failure, *_):
        if self.process.poll() is None:
            status = self.stop()
            if not failure:
                assert status == 0, f"exit status {status}\n{self.log()}"
        elif not failure:
            raise AssertionError(f"it ended by itself: {self.process.returncode}\n{self.log()}")
        self.check_sanitizers()

    def send_signal(self, number):
        self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        """Stops it and returns the exit status."""
        self.send_signal(number)
        return self.wait()

    def kill(self):
        """kill -9."""
        self.stop(signal.SIGKILL)
        self.check_sanitizers()

    def end(self):
        """Stops it in order."""
        status = self.stop()
        self.check_sanitizers()
        assert status == 0, f"exit status {status}\n{self.log()}"

    def wait(self):
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("it does not stop\n" + self.log()) from None
        finally:
            self.reader.join()
        return self.process.returncode

    # ---- log ----

    @contextlib.contextmanager
    def unread(self):
        """Its standard error is a full pipe that is not read, as with a terminal or a journal that hangs."""
        self.parked.clear()
        self.reads.clear()
        pipe = os.open(f"/proc/{self.process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, b"\n")  # what the reader waits for
            assert self.parked.wait(WAIT_S)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(pipe, b" " * 4095 + b"\n")
            yield
        finally:
            os.close(pipe)
            self.reads.set()

    def _read_log(self):
        for line in self.process.stderr:
            if not self.reads.is_set():
                self.parked.set()
                self.reads.wait()
            with self.news:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.lines.append("(end of log)")
            self.news.notify_all()

    def log(self):
        with self.news:
            return "\n".join(self.lines)

    def wait_for_log(self, text, times=1):
        """Waits until so many lines hold the text; returns the last of them."""
        def found():
            hits = [line for line in self.lines if text in line]
            return hits[times - 1:times] or (self.lines[-1:] == ["(end of log)"] and [None])

        with self.news:
            hits = self.news.wait_for(found, WAIT_S)
        if not hits or hits[0] is None:
            raise AssertionError(f'no "{text}" in its log:\n{self.log()}')
        return hits[0]

    def check_sanitizers(self):
        log = self.log()
        for word in SANITIZERS:
            assert word not in log, f"{word} in its log:\n{log}"

    # ---- what it uses ----

    def memory_kib(self):
        """Resident memory."""
        with open(f"/proc/{self.process.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        raise AssertionError("no VmRSS")


def wait_until(condition, what):
    """For what happens in another process soon, with no way to be told."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "not so in time: " + what
        time.sleep(0.01)
