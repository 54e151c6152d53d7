"""The lab as a whole: opened once for all stories of a program, closed by the ids of its processes."""
import os
import shutil

from holdfast_test import netns, rpcbind, tap

from . import image, network, servers, story
from .guest import Guest

GUESTS = {"alpha": 11, "beta": 12, "gamma": 13, "delta": 14}
HOSTS = "".join(f"192.0.2.{number} {name}.example {name}\n2001:db8::{number} {name}.example\n"
                for name, number in GUESTS.items())
HOSTS += "192.0.2.1 server.example server\n"


def check():
    """Raises Skip where the lab cannot be."""
    for name in ("qemu-system-x86_64", "busybox", "ganesha.nfsd", "rpcbind", "rpc.statd", "cpio",
                 "depmod", "mke2fs", "tcpdump"):
        image.find(name)
    if not os.path.exists("/dev/net/tun"):
        raise tap.Skip("no /dev/net/tun")


class Lab:
    def __init__(self, name, backend="lmdb"):
        self.directory = image.CACHE / "runs" / name
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.export = self.directory / "export"
        self.export.mkdir()
        self.export.chmod(0o777)
        story.begin(self.directory / "story.txt")
        self.archive = image.initramfs(HOSTS)
        network.open_bridge()
        self.capture = network.Capture(self.directory / "bridge.pcap")
        self.guests = {}
        self.rpcbind = rpcbind.System()
        self.rpcbind.__enter__()
        self.ganesha = servers.Ganesha(self.directory, self.export)
        self.postgres = servers.Postgres() if backend == "postgres" else None
        self.holdfast = None
        self.stores = 0
        self.new_store()

    def new_store(self):
        """An empty store for a story of its own."""
        if self.postgres:
            self.store = self.postgres.settings()
        else:
            self.stores += 1
            path = self.directory / f"store-{self.stores}"
            path.mkdir()
            self.store = ("store.backend=lmdb", f"store.path={path}")

    def start(self, *sets, **options):
        """Holdfast on the store it had, or on a new one."""
        self.holdfast = servers.Holdfast(self.directory, self.store, *sets, **options).start()
        return self.holdfast

    def guest(self, name, **options):
        guest = self.guests[name] = Guest(self, name, GUESTS[name], **options)
        return guest

    def close(self):
        for guest in self.guests.values():
            guest.stop()
        if self.holdfast and self.holdfast.process.poll() is None:
            self.holdfast.stop()
        self.ganesha.stop()
        if self.postgres:
            self.postgres.stop()
        self.rpcbind.__exit__()
        self.capture.close()




RELEASE = image.ROOT / "build/src/daemon/holdfastd"


def main(open_lab, words):
    """Enters a network of our own, opens the lab, runs the stories, closes it."""
    try:
        if netns.INSIDE not in os.environ:
            check()
            image.initramfs(HOSTS)  # may download, which it cannot inside
        netns.enter(addresses=())
        if RELEASE.exists() and "HOLDFAST_LAB_DAEMON" not in os.environ:
            os.environ["HOLDFASTD"] = str(RELEASE)  # what is installed, not what is sanitized
        lab = open_lab()
    except tap.Skip as why:
        tap.skip_all(str(why))
    try:
        tap.main(words)
    except SystemExit as end:
        if end.code:
            print(f"# what all parties logged, and a capture: {lab.directory}", flush=True)
        raise
    finally:
        lab.close()
