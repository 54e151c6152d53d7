"""A daemon that comes back: the same store and settings over any number of starts and kills.

    with Server() as server:
        ...
        server.kill()          # kill -9
        server.start()
"""
import contextlib
import os
import shutil
import signal
import tempfile

from . import netns
from .daemon import Daemon


@contextlib.contextmanager
def small_disk(megabytes):
    """A directory on a file system of its own, that can be filled."""
    path = tempfile.mkdtemp(prefix="holdfast-")
    netns.run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", path)
    try:
        yield path
    finally:
        netns.run("umount", path)
        os.rmdir(path)


def fill(path):
    """A file that takes all the room there is."""
    try:
        with open(path, "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    except OSError:
        pass  # full


class Server:
    def __init__(self, *sets, path=None, env=None):
        self.own = path is None
        self.path = path or tempfile.mkdtemp(prefix="holdfast-")
        self.sets = ["store.backend=lmdb", f"store.path={self.path}", *sets]
        self.env = env
        self.daemon = None

    def start(self, *more, wait=True):
        self.daemon = Daemon(*self.sets, *more, env=self.env).start(wait)
        return self.daemon

    def kill(self):
        self.daemon.kill()

    def stop(self):
        self.daemon.end()

    def restart(self, *more):
        """As after a crash."""
        self.kill()
        return self.start(*more)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, failure, *_):
        try:
            if self.daemon.process.poll() is None:
                if failure:
                    self.daemon.stop(signal.SIGKILL)
                    self.daemon.check_sanitizers()
                else:
                    self.stop()
        finally:
            if self.own:
                shutil.rmtree(self.path, ignore_errors=True)
