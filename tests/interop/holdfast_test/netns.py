"""A network, a process tree and a /run of our own, so that nothing of the host is seen or touched.

enter() runs the program again inside: port 111 and rpcbind's socket are free there, addresses can be
added, and what a test leaves running ends with it. Run as root; otherwise the program is skipped.

Run as a program it does the same for another: netns.py PROGRAM [ARGUMENT]...
"""
import os
import subprocess
import sys

INSIDE = "HOLDFAST_TEST_NAMESPACE"
UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
           "--propagation", "private"]

# Given to lo beside 127.0.0.1 and ::1: what a test needs to come from, or to, another host.
ADDRESSES = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2")


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def _prepare(addresses):
    run("ip", "link", "set", "lo", "up")
    for address in addresses:
        ipv6 = ":" in address
        run("ip", "address", "add", address + ("/128" if ipv6 else "/32"), "dev", "lo",
            *(["nodad"] if ipv6 else []))
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    if os.path.isdir("/var/lib/nfs"):
        run("mount", "-t", "tmpfs", "tmpfs", "/var/lib/nfs")


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
