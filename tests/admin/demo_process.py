"""The demonstration (demo/run) as a process: with a page at PAGE_PORT, and a temporary folder that must be empty at its end."""
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from holdfast_test.daemon import program

RUN = Path(__file__).parents[2] / "demo/run"
PAGE_PORT = 8050
CTL = os.environ.get("HOLDFASTCTL", "build-asan/src/ctl/holdfastctl")


def heed_interrupts():
    """As for a command that is typed: a shell lets those that it starts in the background ignore SIGINT, and with them the tests."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Demo:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-")

    def __enter__(self):
        self.process = subprocess.Popen(
            [RUN, "--daemon", program(), "--ctl", CTL, "--page-port", str(PAGE_PORT)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {"TMPDIR": self.folder.name},
            preexec_fn=heed_interrupts)
        self.output = ""
        while "Ctrl-C" not in self.output:
            line = self.process.stdout.readline()
            assert line, self.output
            self.output += line
        return self

    def press_enter(self):
        """Kills the daemon and starts it again."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __exit__(self, failure, *_):
        self.process.send_signal(signal.SIGINT)
        self.output += self.process.communicate(timeout=60)[0]
        self.left_behind = os.listdir(self.folder.name)
        self.folder.cleanup()
        if not failure:
            assert self.process.returncode == 0, self.output
