"""Hosts on one network: each a network namespace with a /run of its own, plugged into a switch.

    with Switch() as switch, Node(switch, "alpha", 11) as alpha:      # 192.0.2.11, 2001:db8::11
        alpha.run("ip", "address")
        alpha.unplug(); alpha.plug()

The switch is a bridge in the namespace of the test, which has 192.0.2.254 and 2001:db8::254 itself: it is the client.
"""
import errno
import signal
import socket
import subprocess

from holdfast_test import netns

CLIENT, CLIENT6 = "192.0.2.254", "2001:db8::254"


def address4(number):
    return f"192.0.2.{number}"


def address6(number):
    return f"2001:db8::{number}"


class Switch:
    bridge = "switch"

    def __enter__(self):
        netns.run("ip", "link", "add", "name", self.bridge, "type", "bridge")
        netns.run("ip", "address", "add", CLIENT + "/24", "dev", self.bridge)
        netns.run("ip", "address", "add", CLIENT6 + "/64", "dev", self.bridge, "nodad")
        netns.run("ip", "link", "set", self.bridge, "up")
        return self

    def __exit__(self, *_):
        netns.run("ip", "link", "del", self.bridge)


class Node:
    """A host. What is started in it ends with it."""

    def __init__(self, switch, name, number):
        self.switch, self.name, self.number = switch, name, number
        self.address, self.address6 = address4(number), address6(number)
        self.cable = "to-" + name
        self.started = []

    def __enter__(self):
        script = ("mount -t tmpfs tmpfs /run && mkdir /run/rpcbind /run/holdfast && ip link set lo up && "
                  f"hostname {self.name} && echo ready && exec sleep infinity")
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--propagation", "private", "sh", "-c", script],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self.process.stdout.readline() == b"ready\n"
        self.inside = ["nsenter", "-t", str(self.process.pid), "--net", "--mount", "--uts"]
        netns.run("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", str(self.process.pid))
        netns.run("ip", "link", "set", self.cable, "master", self.switch.bridge)
        self.run("ip", "address", "add", self.address + "/24", "dev", "eth0")
        self.run("ip", "address", "add", self.address6 + "/64", "dev", "eth0", "nodad")
        self.run("ip", "link", "set", "eth0", "up")
        self.plug()
        return self

    def plug(self):
        netns.run("ip", "link", "set", self.cable, "up")

    def unplug(self):
        """As if its cable was cut: the other hosts do not reach it, and it sees no carrier."""
        netns.run("ip", "link", "set", self.cable, "down")

    def hardware(self):
        return self.run("ip", "-o", "link", "show", "eth0").split("link/ether ")[1].split()[0]

    def run(self, *command, check=True, env=None):
        """Runs a command there; what it printed."""
        done = subprocess.run([*self.inside, *command], stdin=subprocess.DEVNULL, timeout=60, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert not check or done.returncode == 0, f"{command}: {done.stdout.decode()}"
        return done.stdout.decode()

    def start(self, *command, **options):
        process = subprocess.Popen([*self.inside, *command], **{"stdin": subprocess.DEVNULL, **options})
        self.started.append(process)
        return process

    def has(self, address):
        return bool(self.run("ip", "-o", "address", "show", "to", address))

    def __exit__(self, *_):
        for process in reversed(self.started):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        netns.run("ip", "link", "del", self.cable)
        self.process.kill()
        self.process.wait()


class Tap:
    """Every frame that a node sends, from here on: what is on its cable, seen from the switch."""
    ALL, OUTGOING = 3, 4  # ETH_P_ALL; sent by this end of the cable, so to the node

    def __init__(self, node):
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(self.ALL))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.sock.bind((node.cable, self.ALL))
        self.sock.setblocking(False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def frames(self):
        """What has arrived since the last call."""
        found = []
        while True:
            try:
                frame, (_, _, kind, _, _) = self.sock.recvfrom(65536)
            except BlockingIOError:
                return found
            except OSError as error:
                if error.errno != errno.ENETDOWN:  # said once when the cable was unplugged
                    raise
                continue
            if kind != self.OUTGOING:
                found.append(frame)

    def from_address(self, *addresses):
        """Those with one of these addresses as their source: IPv4, IPv6, ARP, neighbour advertisements."""
        wanted = [socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text) for text in addresses]
        return [frame for frame in self.frames() if _source(frame) in wanted or _advertised(frame) in wanted]


def _source(frame):
    kind = int.from_bytes(frame[12:14], "big")
    return {0x0800: frame[26:30], 0x86dd: frame[22:38], 0x0806: frame[28:32]}.get(kind)


def _advertised(frame):
    """The target of a neighbour advertisement, which a host may send from another of its addresses."""
    is_icmp6 = frame[12:14] == b"\x86\xdd" and frame[20] == 58
    return frame[62:78] if is_icmp6 and frame[54] == 136 else None
