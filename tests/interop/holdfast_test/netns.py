"""A network, a process tree and a /run of our own, so that nothing of the host is seen or touched.

enter() runs the program again inside: port 111 and rpcbind's socket are free there, addresses can be
added, and what a test leaves running ends with it. Run as root; otherwise the program is skipped.

Run as a program it does the same for another: netns.py PROGRAM [ARGUMENT]...
"""
import contextlib
import os
import subprocess
import sys
import tempfile

INSIDE = "HOLDFAST_TEST_NAMESPACE"
UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
           "--propagation", "private"]

# Given to lo beside 127.0.0.1 and ::1: what a test needs to come from, or to, another host.
CROWD = "198.18.0.0/24"  # all of them, for those that need many
ADDRESSES = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2")


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _prepare(addresses):
    run("ip", "link", "set", "lo", "up")
    for address in addresses:
        ipv6 = ":" in address
        run("ip", "address", "add", address + ("/128" if ipv6 else "/32"), "dev", "lo",
            *(["nodad"] if ipv6 else []))
    run("ip", "route", "add", "local", CROWD, "dev", "lo")
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    if os.path.isdir("/var/lib/nfs"):
        run("mount", "-t", "tmpfs", "tmpfs", "/var/lib/nfs")


@contextlib.contextmanager
def file(path, content):
    """Replaces the content of a file of the system, inside the private namespace only."""
    path = os.path.realpath(path)
    handle, own = tempfile.mkstemp(prefix="holdfast-")
    os.write(handle, content.encode())
    os.close(handle)
    os.chmod(own, 0o644)
    run("mount", "--bind", own, path)
    try:
        yield
    finally:
        run("umount", path)
        os.unlink(own)


@contextlib.contextmanager
def names(text):
    """A private /etc/hosts, and no name server."""
    with file("/etc/hosts", f"127.0.0.1 localhost\n{text}\n"), \
            file("/etc/nsswitch.conf", "hosts: files\n"):
        yield


class Neighbour:
    """Another host: a network, a /run and a /var/lib/nfs of its own, joined to this one by a cable.

        with Neighbour("10.9.0.1", "10.9.0.2") as client:     # here, there
            client.run("rpcinfo", "-p")
    """

    def __init__(self, here, there, name="there"):
        self.here, self.there, self.name = here, there, name
        self.started = []

    def __enter__(self):
        script = ("mount -t tmpfs tmpfs /run && mkdir /run/rpcbind && "
                  "mount -t tmpfs tmpfs /var/lib/nfs && ip link set lo up && "
                  f"hostname {self.name} && echo ready && exec sleep infinity")
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--propagation", "private", "sh", "-c", script],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self.process.stdout.readline() == b"ready\n"
        self.inside = ["nsenter", "-t", str(self.process.pid), "--net", "--mount", "--uts"]
        cable = f"hf{self.process.pid}"
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0",
            "netns", str(self.process.pid))
        run("ip", "address", "add", self.here + "/24", "dev", cable)
        run("ip", "link", "set", cable, "up")
        self.run("ip", "address", "add", self.there + "/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        return self

    def run(self, *command):
        """Runs a command there; what it printed."""
        done = subprocess.run([*self.inside, *command], stdin=subprocess.DEVNULL, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"{command}: {done.stdout.decode()}"
        return done.stdout.decode()

    def start(self, *command, **options):
        """Starts a program there; ended with the block."""
        process = subprocess.Popen([*self.inside, *command], stdin=subprocess.DEVNULL, **options)
        self.started.append(process)
        return process

    def __exit__(self, *_):
        for process in reversed([*self.started, self.process]):
            if process.poll() is None:
                process.kill()
            process.wait()


def _refusal():
    """Why there can be no namespace here; None if there can."""
    try:
        done = subprocess.run([*UNSHARE, "true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        return f"unshare: {error.strerror}"
    return done.stdout.decode().strip().replace("\n", " ") if done.returncode else None


def enter(command=None, addresses=ADDRESSES):
    """Returns inside the namespace; outside, becomes the same program in there, and never returns."""
    if INSIDE in os.environ:
        if os.environ[INSIDE] != "ready":
            _prepare(addresses)
            os.environ[INSIDE] = "ready"
        if command:
            os.execvp(command[0], command)
        return
    refusal = _refusal()
    if refusal:
        print(f"1..0 # SKIP needs a private network: {refusal}", flush=True)
        sys.exit(0)
    os.environ[INSIDE] = "new"
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, *sys.argv])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    enter(sys.argv[1:])
