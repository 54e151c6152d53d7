#!/usr/bin/env python3
"""The commands in the documents. Each block of shell commands is run here, line by line, on a server with clients, or
says why not: the comment before it is `<!-- run -->` or `<!-- not run: reason -->`. Commands within sentences are checked
against what there is: subcommands, options, units, make targets."""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import netns, rpcbind, tap
from holdfast_test.daemon import WAIT_S, program
from holdfast_test.daemon import run as run_daemon
from world import Locker, get

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(page for folder in ("operating", "internals", "reference") for page in sorted((ROOT / "docs" / folder).glob("*.md")))]
BLOCK = re.compile(r"^(?P<mark><!-- [^\n]* -->\n)?```sh\n(?P<text>.*?)^```$", re.M | re.S)

FOLDERS = ("/var/lib/holdfast", "/etc/holdfast", "/srv/backup")

# A unit manager for one unit: what systemctl does to holdfastd, and nothing else.
SYSTEMCTL = """#!/bin/bash
set -eu
verb=$1 unit=${2%.service}
[ "$unit" = holdfastd ] || { echo "Unit $unit.service not found." >&2; exit 5; }
pid=$(cat /run/holdfastd.pid 2>/dev/null || true)
stop() { kill "$pid"; while readlink /proc/$pid/exe >/dev/null; do sleep 0.05; done; rm -f /run/holdfastd.pid; }  # not a zombie's
start() {
    holdfastd >>/run/holdfastd.log 2>&1 & echo $! >/run/holdfastd.pid
    until holdfastctl status >/dev/null 2>&1; do kill -0 $!; sleep 0.05; done
}
case $verb in
start) start ;; stop) stop ;; restart) stop; start ;; reload) kill -HUP "$pid" ;;
status) kill -0 "$pid" ;; *) exit 1 ;;
esac
"""
JOURNALCTL = "#!/bin/sh\necho \"-- $*\"\ncat /run/holdfastd.log\n"


class Machine:
    """A server as the documents mean it: programs in PATH, an rpcbind, the daemon as a unit, its usual directories, and a
    client with a lock and a waiter."""

    def __enter__(self):
        self.bin = tempfile.TemporaryDirectory(prefix="holdfast-")
        for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
            path = Path(self.bin.name, name)
            path.write_text(text)
            path.chmod(0o755)
        Path(self.bin.name, "holdfastd").write_text(f'#!/bin/sh\nexec {program()} --config /etc/holdfast/holdfast.conf "$@"\n')
        Path(self.bin.name, "holdfastd").chmod(0o755)
        os.symlink(os.environ["HOLDFASTCTL"], Path(self.bin.name, "holdfastctl"))
        self.layers = tempfile.TemporaryDirectory(prefix="holdfast-")
        netns.run("mount", "-t", "tmpfs", "tmpfs", self.layers.name)
        for folder in FOLDERS:
            self.make_private(folder)
        Path("/etc/holdfast/holdfast.conf").write_text(
            "[server]\nname=server.example\nuser=\n[notify]\ntimeout=1\nattempts=1\non_failure=keep\n[grace]\nseconds=30\n")
        self.rpcbind = rpcbind.System()
        self.rpcbind.start()
        self.shell("systemctl start holdfastd")
        with Locker("alpha.example", "192.0.2.2") as alpha, Locker("beta.example", "192.0.2.3") as beta:
            assert alpha.lock(b"file") == "granted"
            assert beta.lock(b"file", block=True) == "blocked"
        return self

    def make_private(self, folder):
        """An empty folder that only this mount namespace sees; what is beside it on the host stays visible."""
        parent, name = os.path.split(folder)
        upper, work = (os.path.join(self.layers.name, part + parent.replace("/", "-")) for part in ("upper", "work"))
        os.mkdir(upper)
        os.mkdir(work)
        netns.run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={parent},upperdir={upper},workdir={work}", parent)
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)

    def shell(self, command):
        env = os.environ | {"PATH": self.bin.name + ":" + os.environ["PATH"], "COLUMNS": "200"}
        done = subprocess.run(["bash", "-c", command], env=env, cwd="/", timeout=3 * WAIT_S, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, f"{command}\n{done.stdout.decode()}\n{Path('/run/holdfastd.log').read_text()[-3000:]}"
        return done.stdout.decode()

    def __exit__(self, *_):
        self.shell("systemctl stop holdfastd")
        self.rpcbind.stop()
        for folder in FOLDERS:
            netns.run("umount", "-l", os.path.dirname(folder))
        netns.run("umount", "-l", self.layers.name)
        self.layers.cleanup()
        self.bin.cleanup()


def blocks(document):
    return [(match["mark"] or "", match["text"]) for match in BLOCK.finditer(document.read_text())]


def commands(text):
    """The lines of a block, those that end in a backslash joined."""
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]


@tap.test
def every_block_is_run_or_says_why_not():
    """Given all documents: no block of commands without a mark, and each reason is one."""
    seen = 0
    for document in DOCUMENTS:
        for mark, text in blocks(document):
            seen += 1
            assert re.fullmatch(r"<!-- (run|not run: \S.{9,}) -->\n", mark), f"{document.name}: {mark!r} before\n{text}"
    assert seen > 12, seen


@tap.test
def the_blocks_marked_so_run():
    """Given a server: each of their commands ends with status 0."""
    ran = 0
    for document in DOCUMENTS:
        if not any(mark == "<!-- run -->\n" for mark, _ in blocks(document)):
            continue
        with Machine() as machine:
            for mark, text in blocks(document):
                for command in commands(text) if mark == "<!-- run -->\n" else ():
                    machine.shell(command)
                    ran += 1
                    if "holdfastctl backup" in command:  # the document restores this one
                        machine.shell("cp $(ls -t /srv/backup/* | head -1) /srv/backup/holdfast.1205")
            assert get("status")["counts"]["locks"] == 1, f"{document.name}: a command lost the lock"
    tap.note(f"{ran} commands")
    assert ran >= 15, ran


# ---- commands within sentences ----

def spoken(word):
    """Every `word ...` in the documents' text, without its name, and where."""
    for document in DOCUMENTS:
        if document.name == "SPEC.md":  # also names what is planned
            continue
        prose = BLOCK.sub("", document.read_text())
        for code in re.findall(r"`([^`\n]+)`", prose):
            for command in re.split(r"\s*(?:;|&&)\s*", code):
                if command.split()[:1] == [word]:
                    yield document.name, command.split()[1:]


def options(text):
    return set(re.findall(r"--[a-z-]+", text))


@tap.test
def spoken_holdfastctl_is_there():
    """Given holdfastctl with a word: a command of its help; and its options are options."""
    said = subprocess.run([os.environ["HOLDFASTCTL"], "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    known = set(re.findall(r"^  ([a-z]+) ", said, re.M))
    seen = 0
    for where, words in spoken("holdfastctl"):
        names = [w for w in words if not w.startswith("-")]
        seen += 1
        assert not names or names[0] in known, f"{where}: holdfastctl {' '.join(words)}"
        assert options(" ".join(words)) <= options(said), f"{where}: holdfastctl {' '.join(words)}"
    assert seen > 20 and "losses" in known


@tap.test
def spoken_holdfastd_is_there():
    """Given holdfastd with an option: the option is in its help."""
    known = options(run_daemon("--help")[1])
    seen = 0
    for where, words in spoken("holdfastd"):
        seen += 1
        assert options(" ".join(words)) <= known, f"{where}: holdfastd {' '.join(words)}"
    assert seen > 3


@tap.test
def spoken_units_are_there():
    """Given systemctl or journalctl -u: the unit is one that we install, or a known one of another package."""
    ours = {path.name.split(".")[0] for path in (ROOT / "packaging").glob("*.service*")}
    others = {"rpcbind", "rpc-statd", "nfs-server", "nfs-ganesha", "nfs-ganesha-lock"}
    seen = 0
    for word in ("systemctl", "journalctl"):
        for where, words in spoken(word):
            units = words[words.index("-u") + 1:][:1] if "-u" in words else \
                [w for w in words[1:] if not w.startswith("-") and w not in ("disable", "enable")] if word == "systemctl" else []
            seen += len(units)
            for unit in units:
                template = re.sub(r"@.+", "@", unit.removesuffix(".service"))  # an instance of it
                assert template in ours | others, f"{where}: {word} {' '.join(words)}"
    assert seen > 5 and "holdfastd" in ours, (seen, ours)


@tap.test
def spoken_make_targets_are_there():
    """Given make with a target: the Makefile has it."""
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    seen = 0
    for where, words in spoken("make"):
        for target in (w for w in words if re.fullmatch("[a-z-]+", w)):
            seen += 1
            assert target in known, f"{where}: make {target}"
    assert seen > 5


if __name__ == "__main__":
    netns.enter()
    tap.main()
