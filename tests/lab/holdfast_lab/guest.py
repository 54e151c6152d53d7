"""A virtual machine with a Linux kernel, and the applications in it.

The host speaks to guest/agent.c over a second serial line, which works with the network cut. A hard
crash is the end of its qemu: nothing in the guest gets to say good-bye.
"""
import itertools
import os
import queue
import shlex
import signal
import socket
import subprocess
import threading
import time

from . import image, network, story

COMMAND_S = 40  # beyond any healthy command on a busy machine
# A healthy boot takes 10 s of the emulator's processor time; on a machine with a load of 35 it took more than 90 s.
BOOT_PROCESSOR_S, BOOT_S = 60, 600
MEMORY_MIB = 256
# What an emulated processor can do without: it boots in two thirds of the time.
BOOT_OPTIONS = ("console=ttyS0 quiet panic=1 rdinit=/init mitigations=off nokaslr audit=0 "
                "tsc=reliable no_timer_check random.trust_cpu=on")


def bring_up(guests):
    """With cables mended; those that are off are booted."""
    for guest in guests:
        guest.cable.mend()
        if guest.process.poll() is not None:
            guest.boot(wait=False)
    for guest in guests:
        guest.wait_until_up()


class Guest:
    def __init__(self, lab, name, number, role="client", archive=None):
        self.lab, self.name, self.number, self.role = lab, name, number, role
        self.host_name = f"{name}.example"
        self.address, self.address6 = f"192.0.2.{number}", f"2001:db8::{number}"
        self.archive = archive or lab.archive
        self.cable = network.Cable(name)
        self.disk = lab.directory / f"{name}.disk"
        image.disk(self.disk)
        self.process = None
        self.boots = 0

    # ---- life ----

    def boot(self, wait=True, **words):
        self.boots += 1
        self.up = self.mounted = False
        self.watch = story.Watch()
        control = f"/run/{self.name}-{self.boots}.sock"
        vmlinuz, _ = image.kernel()
        words = {"name": self.host_name, "number": self.number, "role": self.role, **words}
        append = " ".join([BOOT_OPTIONS,
                           *(f"lab.{key}={value}" for key, value in words.items())])
        self.process = subprocess.Popen(
            [image.find("qemu-system-x86_64"), "-accel", "tcg", "-cpu", image.processor(), "-m", str(MEMORY_MIB),
             "-nodefaults", "-display", "none", "-no-reboot", "-kernel", str(vmlinuz),
             "-initrd", str(self.archive), "-append", append,
             "-serial", f"file:{self.lab.directory}/{self.name}-console-{self.boots}.log",
             "-serial", f"unix:{control},server=on,wait=off",
             "-netdev", f"tap,id=net,ifname={self.cable.device},script=no,downscript=no",
             "-device", f"virtio-net-pci,netdev=net,mac=52:54:00:00:00:{self.number:02x}",
             "-drive", f"file={self.disk},format=raw,if=virtio,cache=writethrough"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(self.lab.directory / f"{self.name}-qemu.log", "ab"))
        self.jobs = {}
        self.tags = itertools.count(1)
        self.line = self._connect(control)
        ready = self.jobs["agent"] = queue.Queue()
        threading.Thread(target=self._read, args=(self.line, self.jobs), daemon=True).start()
        self._ready = ready
        if wait:
            self.wait_until_up()
        return self

    def wait_until_up(self):
        if self.up:
            return
        end = time.monotonic() + BOOT_S
        while not self.up:
            try:
                self._ready.get(timeout=1)
                self.up = True
            except queue.Empty:
                used = self._processor_s()
                assert used < BOOT_PROCESSOR_S and time.monotonic() < end, \
                    f"{self.name} does not boot: see its console log; {used:.0f} s of processor time"

    def _processor_s(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _connect(self, path):
        end = time.monotonic() + 10
        while True:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(path)
                return line
            except OSError:
                line.close()
                assert time.monotonic() < end and self.process.poll() is None, \
                    f"qemu of {self.name} does not start"
                time.sleep(0.05)

    def crash(self):
        """Power off, without warning."""
        story.tell(self.name, "power off")
        self.stop()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.line.close()

    # ---- its programs ----

    def _read(self, line, jobs):
        try:
            with line.makefile("r", encoding="utf-8", errors="replace") as lines:
                for text in lines:
                    tag, _, rest = text.rstrip("\r\n").partition(" ")
                    if tag == "agent":
                        self.boot_s = self.watch.took
                        story.tell(self.name, f"is up, {self.boot_s:.1f} s after power on")
                    if tag in jobs:
                        jobs[tag].put((rest[:1], rest[2:]))
        except (OSError, ValueError):
            pass  # the machine is off

    def _send(self, text):
        self.line.sendall((text + "\n").encode())

    def start(self, command):
        """Starts a program in the guest: (tag, queue of what it says)."""
        tag = f"t{next(self.tags)}"
        said = self.jobs[tag] = queue.Queue()
        self._send(f"run {tag} {command}")
        return tag, said

    def run(self, command, within=COMMAND_S, check=True):
        """Runs a command to its end: what it printed."""
        _, said = self.start(command)
        lines, end = [], time.monotonic() + within
        while True:
            try:
                kind, text = said.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{self.name}: {command}: no end in {within} s, said: "
                                     + " / ".join(lines)) from None
            if kind == "=":
                break
            lines.append(text)
        story.tell(self.name, f"$ {command}: {text} {' / '.join(lines)}", aloud=False)
        assert not check or text == "0", f"{self.name}: {command}: {text}: {' / '.join(lines)}"
        return "\n".join(lines)

    def mount(self, server=network.SERVER, at="/mnt", path=None, options="vers=3,tcp"):
        host = f"[{server}]" if ":" in server else server
        self.run(f"mkdir -p {at}")
        self.run(f"mount.nfs {host}:{shlex.quote(str(path or self.lab.export))} {at} "
                 f"-o {options},lock,hard")
        self.mounted = True
        return self

    def app(self, name, file, at="/mnt"):
        return App(self, name, f"{at}/{file}")


class App:
    """A locker process in a guest: it gets commands and reports their results."""

    def __init__(self, guest, name, path):
        self.guest, self.who = guest, f"{guest.name}/{name}"
        self.tag, self.said = guest.start(f"exec locker {path}")
        self.expect("open")

    def say(self, command):
        story.tell(self.who, command)
        self.guest._send(f"in {self.tag} {command}")

    def next(self, within=COMMAND_S):
        """The next line it prints; None if it prints nothing."""
        try:
            kind, text = self.said.get(timeout=within)
        except queue.Empty:
            return None
        story.tell(self.who, "    " + (text if kind == ":" else f"(ended: {text})"))
        return text

    def expect(self, answer, within=COMMAND_S):
        got = self.next(within)
        assert got == answer, f"{self.who} says {got!r}, not {answer!r} (within {within} s)"

    def ask(self, command, answer, within=COMMAND_S):
        self.say(command)
        self.expect(answer, within)

    def wait_for(self, command):
        """Begins a blocking request and makes sure that it blocks."""
        self.ask(command, "waiting")
        self.still_waits()

    def still_waits(self, seconds=1.0):
        got = self.next(seconds)
        assert got is None, f"{self.who} should wait, but says {got!r}"

    def interrupt(self):
        story.tell(self.who, "gets a signal")
        self.guest._send(f"sig {self.tag} 10")

    def end(self):
        """Ends the process; its locks go with it."""
        self.guest._send(f"sig {self.tag} 9")
        while (text := self.said.get(timeout=COMMAND_S)) and text[0] != "=":
            pass
