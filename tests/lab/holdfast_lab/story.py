"""What happened at which second: on the screen as TAP comments, and in a file that is kept."""
import threading
import time

_lock = threading.Lock()
_start = time.monotonic()
_file = None


def begin(path):
    global _file
    _file = open(path, "w", encoding="utf-8")


def seconds():
    return time.monotonic() - _start


def tell(who, what, aloud=True):
    """aloud=False: only in the file."""
    line = f"{seconds():7.2f}  {who:14} " + " / ".join(what.rstrip().splitlines())
    with _lock:
        if _file:
            _file.write(line + "\n")
            _file.flush()
        if aloud:
            print("# " + line, flush=True)


class Watch:
    """A stopwatch: with Watch() as w: ...; w.took"""

    def __init__(self):
        self.start = time.monotonic()

    @property
    def took(self):
        return time.monotonic() - self.start
