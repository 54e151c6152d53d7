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
    if os.geteuid() != 0:
        raise tap.Skip("needs root: a private network, tap devices, port 111")
    for name in ("qemu-system-x86_64", "busybox", "ganesha.nfsd", "rpcbind", "rpc.statd", "cpio",
                 "depmod", "mke2fs", "tcpdump"):
        image.find(name)
    if not os.path.exists("/dev/net/tun"):
        raise tap.Skip("no /dev/net/tun")
    if os.uname().machine != "x86_64":
        raise tap.Skip("the guests are x86_64")
    for program in image.guest_programs():
        if not program.exists():
            raise tap.Skip(f"{program.name} is not built: no static C library here")


class Lab:
    def __init__(self, name, backend="lmdb", server=True, versions="3"):
        """server=False: only the network; the server is a guest. versions: of NFS."""
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
        self.holdfast = self.ganesha = self.postgres = self.rpcbind = self.keeper = self.samba = None
        if server:
            self.rpcbind = rpcbind.System()
            self.rpcbind.__enter__()
            self.ganesha = servers.Ganesha(self.directory, self.export, versions=versions)
            self.store = self._new_store(backend)

    def _new_store(self, backend):
        if backend == "postgres":
            self.postgres = servers.Postgres()
            return self.postgres.settings()
        path = self.directory / "store"
        path.mkdir()
        return ("store.backend=lmdb", f"store.path={path}")

    def start(self, *sets, **options):
        """Holdfast, on the one store of this lab."""
        self.holdfast = servers.Holdfast(self.directory, self.store, *sets, **options).start()
        return self.holdfast

    def guest(self, name, **options):
        guest = self.guests[name] = Guest(self, name, GUESTS[name], **options)
        return guest

    def explain_hang(self, server):
        """Keeps what each guest waits for, and server() says about it, in the file "hang" of the run."""
        with open(self.directory / "hang", "a", encoding="utf-8") as file:
            print(f"{story.seconds():.2f}", file=file)
            for guest in self.guests.values():
                if guest.up and guest.process.poll() is None:
                    print(f"---- {guest.name}", guest.run("show-waits", check=False), sep="\n", file=file)
            for line in server():
                print(line, file=file)
        story.tell("story", f"a program hangs: see {self.directory}/hang")

    def close(self):
        for guest in self.guests.values():
            guest.stop()
        if self.holdfast and self.holdfast.process.poll() is None:
            self.holdfast.stop()
        if self.keeper:
            self.keeper.__exit__(None, None, None)
        if self.samba:
            self.samba.__exit__()
        for server in (self.ganesha, self.postgres):
            if server:
                server.stop()
        if self.rpcbind:
            self.rpcbind.__exit__()
        self.capture.close()




RELEASE = image.ROOT / "build/src/daemon/holdfastd"


def main(open_lab, words):
    """Enters a network of our own, opens the lab, runs the stories, closes it."""
    try:
        if netns.INSIDE not in os.environ:
            check()
            image.initramfs(HOSTS)  # may download, which it cannot inside
            servers.ganesha_root()
        netns.enter(addresses=())
        if RELEASE.exists():  # what is installed, not what is sanitized, unless told otherwise
            os.environ["HOLDFASTD"] = os.environ.get("HOLDFAST_LAB_DAEMON", str(RELEASE))
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
