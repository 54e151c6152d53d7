"""One bridge in the private namespace, the server's addresses on it, a tap device for each guest."""
import signal
import subprocess

from . import story
from .image import find

BRIDGE = "lab0"
SERVER, SECOND, SERVER6 = "192.0.2.1", "192.0.2.2", "2001:db8::1"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.PIPE,
                   stderr=subprocess.STDOUT)


def open_bridge():
    ip("link", "add", BRIDGE, "type", "bridge", "forward_delay", "0")
    ip("link", "set", BRIDGE, "up")
    for address in (SERVER, SECOND):
        ip("address", "add", address + "/24", "dev", BRIDGE)
    ip("address", "add", SERVER6 + "/64", "dev", BRIDGE, "nodad")


class Cable:
    """The link of one guest; cut() is a partition."""

    def __init__(self, name):
        self.name, self.device = name, "tap-" + name
        ip("tuntap", "add", "dev", self.device, "mode", "tap")
        ip("link", "set", self.device, "master", BRIDGE)
        self.mend()

    def cut(self):
        story.tell("network", f"the link of {self.name} is cut")
        ip("link", "set", self.device, "down")

    def mend(self):
        ip("link", "set", self.device, "up")


class Capture:
    """Records everything on the bridge, to find out later why a story failed."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [find("tcpdump"), "-i", BRIDGE, "-s", "600", "-U", "-Z", "root", "-w", str(path)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def close(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
