#!/usr/bin/env python3
"""test_mixed.py [WORD...]: one truth for every byte, with real kernels (COH-10 to COH-13, COH-15).

alpha is an NFSv3 client of Ganesha, with Holdfast and its keeper as lock manager; beta an NFSv4 client of the same Ganesha; programs of the
server and an SMB client of Samba lock the same files. delta is a server with the kernel's own nfsd and lockd, and Holdfast beside them.
"""
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "interop"), str(Path(__file__).parent)]

from holdfast_lab import image, story  # noqa: E402
from holdfast_lab.lab import HOSTS, Lab, main  # noqa: E402
from holdfast_test import tap  # noqa: E402
from holdfast_test.keeper import Keeper, program  # noqa: E402
from holdfast_test.samba import Samba, Smb  # noqa: E402

lab = None
RESULTS = 4  # of each world between two kills
KILLS = 4
HANG_S = 180
READY = "the kernel holds what clients hold"


class Local:
    """The application of the guests (locker.c), on the server itself."""

    def __init__(self, file):
        self.process = subprocess.Popen([image.guest_programs()[1], lab.export / file], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        assert self.process.stdout.readline() == "open\n"

    def say(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def expect(self, answer):
        said = self.next()
        assert said == answer, f"a program at the server says {said!r}, not {answer!r}"

    def ask(self, command, answer):
        self.say(command)
        self.expect(answer)

    def wait_for(self, command):
        self.ask(command, "waiting")

    def next(self, _within=None):
        return self.process.stdout.readline().rstrip("\n")

    def end(self):
        self.process.kill()
        self.process.wait()


class SmbApp:
    """The same words, for an SMB client. SMB has no way to ask who holds a lock."""

    def __init__(self, file):
        self.client, self.answers = Smb(file), []

    def say(self, command):
        verb, *words = command.split()
        mode = {"set": {"r": 0, "w": 1}, "wait": {"r": 0, "w": 1}}.get(verb, {}).get(words[0], 2)
        self.client.begin(mode, *map(int, words[-2:]), wait=verb == "wait")
        self.right = "freed" if verb == "free" else "granted"
        if verb == "wait":
            self.answers.append("waiting")

    def next(self, _within=None):
        if self.answers:
            return self.answers.pop(0)
        return self.right if self.client.end() == "ok" else "refused EAGAIN"

    expect, ask, wait_for = Local.expect, Local.ask, Local.wait_for

    def end(self):
        self.client.__exit__()


def begin(file):
    """The worlds on one file, each with an application."""
    alpha, beta = lab.guests["alpha"], lab.guests["beta"]
    for guest, options, path in ((alpha, "vers=3,tcp,noac", None), (beta, "vers=4.1,noac", "/export")):
        guest.wait_until_up()
        if not guest.mounted:
            guest.mount(options=options, path=path)
    (lab.export / file).touch()
    (lab.export / file).chmod(0o666)
    return {"v3": alpha.app("a", file), "v4": beta.app("b", file), "local": Local(file), "smb": SmbApp(file)}


@tap.test
def each_world_meets_the_other():
    """COH-10, COH-11, COH-12: v3, v4, SMB and local programs, each as holder and as requester: exclusive and shared, disjoint ranges, waiting;
    F_GETLK of NFSv3 names the holder's range, and that of a local program ours."""
    apps = begin("matrix")
    try:
        for first, holder in apps.items():
            for second, asker in apps.items():
                if first == second:
                    continue
                story.tell("lab", f"{first} holds, {second} asks")
                holder.ask("set w 0 100", "granted")
                asker.ask("set w 0 100", "refused EAGAIN")
                asker.ask("set r 99 1", "refused EAGAIN")
                asker.ask("set w 100 10", "granted")
                asker.ask("free 100 10", "freed")
                if second in ("v3", "local"):  # Ganesha's own test does not see others, and SMB has none
                    asker.say("get w 50 100")
                    said = asker.next()
                    assert said.startswith("held w 0 100"), f"TEST names it: {said}"
                asker.wait_for("wait w 0 100")
                holder.ask("free 0 100", "freed")
                begun = time.monotonic()
                asker.expect("granted")
                tap.note(f"lab: {second} waited behind {first}: granted {time.monotonic() - begun:.2f} s after the release")
                holder.ask("set r 0 1", "refused EAGAIN")
                asker.ask("free 0 100", "freed")
                holder.ask("set r 0 100", "granted")
                asker.ask("set r 0 100", "granted")
                asker.ask("free 0 100", "freed")
                asker.ask("set w 0 1", "refused EAGAIN")
                holder.ask("free 0 100", "freed")
    finally:
        for app in apps.values():
            app.end()


class Worker:
    """add-with-sqlite in a guest, and the lines it has printed."""

    def __init__(self, guest):
        self.guest, self.lines, self.ended = guest, [], False
        _, said = guest.start(f"add-with-sqlite /mnt/shop.db {guest.name}")
        self.thread = threading.Thread(target=self._read, args=(said,), daemon=True)
        self.thread.start()

    def _read(self, said):
        while not self.ended:
            kind, text = said.get()
            self.ended = kind == "="
            self.lines.append(text if kind == ":" else f"(ended {text})")

    def done(self, word):
        return [line for line in self.lines if line.startswith(word + " ")]

    def wait_for_more(self, count):
        wanted, end = len(self.lines) + count, time.monotonic() + HANG_S
        while len(self.lines) < wanted:
            assert time.monotonic() < end and not self.ended, f"{self.guest.name} hangs: {self.lines[-5:]}"
            time.sleep(0.05)

    def stop(self):
        self.guest.run("touch /tmp/enough")
        self.thread.join(HANG_S)
        assert self.ended, f"{self.guest.name} hangs: {self.lines[-5:]}"


class LocalWorker:
    """add-with-sqlite on the server."""

    def __init__(self, database):
        script = (image.GUEST / "add-with-sqlite").read_text().replace("/tmp/enough", str(lab.directory / "enough"))
        script = script.replace("done\n", "    sleep 1\ndone\n")  # SQLite asks again and again: a slow guest must get a turn
        self.process = subprocess.Popen(["sh", "-c", script, "add", database, "local"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        self.lines = []
        self.thread = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.thread.start()

    def done(self, word):
        return [line for line in self.lines if line.startswith(word + " ")]

    def stop(self):
        (lab.directory / "enough").touch()
        self.thread.join(HANG_S)


@tap.test
def sqlite_counts_in_three_worlds():
    """COH-13: one database, added to by an NFSv3 guest, an NFSv4 guest and the server itself, while holdfastd and the keeper's worker are killed
    in turn: each transaction that was committed is there once, and the database is whole."""
    begun = begin("empty")
    for app in begun.values():
        app.end()
    path = lab.export / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE counter (total INTEGER); INSERT INTO counter VALUES (0);"
                               "CREATE TABLE added (who TEXT, number INTEGER);")
    path.chmod(0o666)
    workers = [Worker(lab.guests[name]) for name in ("alpha", "beta")]
    local = LocalWorker(str(path))
    for turn in range(KILLS):
        for worker in workers:
            worker.wait_for_more(RESULTS)
        if turn % 2:
            story.tell("keeper", "kill -9")
            lab.keeper.kill_worker()
            continue
        lab.holdfast.crash()
        start_holdfast()
    for worker in workers:
        worker.wait_for_more(RESULTS)
    for worker in (*workers, local):
        worker.stop()
    counts = {"alpha": len(workers[0].done("added")), "beta": len(workers[1].done("added")), "local": len(local.done("added"))}
    failed = sum(len(worker.done("failed")) for worker in (*workers, local))
    with contextlib.closing(sqlite3.connect(path)) as database:
        total, = database.execute("SELECT total FROM counter").fetchone()
        there = dict(database.execute("SELECT who, count(*) FROM added GROUP BY who").fetchall())
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    tap.note(f"lab: SQLite: {counts} transactions, {failed} failed, through {KILLS} kills")
    assert there == counts and total == sum(counts.values()), (total, there, counts)
    assert min(counts.values()) > 0 and failed == 0


@tap.test
def no_increment_is_lost_by_real_clients():
    """COH-04, COH-13: a kernel of NFSv3, one of NFSv4 and a program of the server add to one number under a lock as fast as they can,
    while daemon and keeper are killed."""
    apps = begin("number")
    apps.pop("smb").end()
    try:
        for app in apps.values():
            app.say("churn 30")
        for turn in range(8):
            time.sleep(2)
            if turn % 2:
                lab.keeper.kill_worker()
            else:
                lab.holdfast.crash()
                start_holdfast()
        said = {world: app.next(HANG_S).split() for world, app in apps.items()}
        apps["local"].say("number")
        number = int(apps["local"].next().split()[1])
        tap.note(f"lab: increments: {', '.join(f'{world} {words[1]}' for world, words in said.items())}")
        assert all(words[0] == "churned" and words[5] == "0" for words in said.values()), said
        assert number == sum(int(words[1]) for words in said.values()), (number, said)
    finally:
        for app in apps.values():
            app.end()


@tap.test
def ganesha_is_restarted_alone():
    """GRC-04: its NFSv4 client's lock is gone from the kernel until it is reclaimed. New NFSv3 locks are held back meanwhile, as the package's
    drop-in has it: an NFSv3 client that asks for the same bytes waits, and is refused in the end."""
    def grace_hold(seconds):
        subprocess.run([os.environ["HOLDFASTCTL"], "--socket", lab.directory / "admin", "grace", "hold", str(seconds)], check=True)

    apps = begin("restart")
    v3, v4, local = (apps[name] for name in ("v3", "v4", "local"))
    try:
        v4.ask("set w 0 100", "granted")
        grace_hold(600)
        lab.ganesha.stop()
        local.ask("get w 0 100", "nobody")
        lab.ganesha.start()
        v3.say("set w 0 100")
        end = time.monotonic() + HANG_S
        while True:
            local.say("get w 0 100")
            if local.next().startswith("held w 0 100"):
                break
            assert time.monotonic() < end, "the NFSv4 client does not reclaim"
            time.sleep(0.1)
        grace_hold(0)
        v3.expect("refused EAGAIN", HANG_S)
        local.ask("set r 0 1", "refused EAGAIN")
        v4.ask("free 0 100", "freed")
        v3.ask("set w 0 100", "granted")
    finally:
        for app in apps.values():
            app.end()


# ---- beside the kernel's nfsd ----

SERVED = "/var/lib/nfs/export"
PROGRAMS = [image.ROOT / "build/src" / name for name in ("daemon/holdfastd", "keeper/holdfast-keeper")]
START = ("mkdir -p /run/keeper /var/lib/nfs/store; "
         f"(holdfast-keeper --config '' --user 0 --socket /run/keeper/socket --export {SERVED} >/tmp/keeper.log 2>&1 &); "
         "(holdfastd --set store.path=/var/lib/nfs/store --set rpcbind.mode=system --set server.user= --set server.name=delta.example "
         "--set keeper.socket=/run/keeper/socket --set log.level=debug >/tmp/holdfastd.log 2>&1 &); ")
FORGET = "for version in 1 3 4; do rpcinfo -d 100021 $version; done; "


def until(guest, condition, what):
    try:
        guest.run(f"for i in $(seq 200); do {condition} && exit 0; sleep 0.2; done; exit 1", within=90)
    except AssertionError as why:
        raise AssertionError(f"not so in time: {what}: {why}") from None


@tap.test
def holdfast_serves_locks_beside_the_kernel_s_nfsd():
    """COH-15: nfsd serves v3 and v4, and its lockd has program 100021. The operator removes that registration, and Holdfast serves the
    locks of v3: they and those of nfsd's v4 clients meet. When nfsd is started again lockd is registered again, and Holdfast says so;
    removed once more, Holdfast is registered by itself."""
    if not all(program.exists() for program in PROGRAMS):
        raise tap.Skip("needs build/, without sanitizers: make build")
    alpha, beta = lab.guests["alpha"], lab.guests["beta"]
    delta = lab.guest("delta", role="server", archive=image.initramfs(HOSTS, *map(str, PROGRAMS)))
    delta.boot(grace=5)
    delta.run("rpc.nfsd 0; rpc.nfsd 2; echo Y >/proc/fs/nfsd/v4_end_grace; killall rpc.statd")
    delta.run(f"touch {SERVED}/file; chmod 666 {SERVED}/file")
    assert "nlockmgr" in delta.run("rpcinfo -p")
    delta.run(START)
    until(delta, "grep -q 'program 100021 version . is already served' /tmp/holdfastd.log", "it does not take what is another's")
    delta.run("killall holdfastd holdfast-keeper; while pidof holdfastd holdfast-keeper; do sleep 0.1; done")
    delta.run(f"{FORGET} {START}")
    until(delta, f"grep -q '{READY}' /tmp/holdfastd.log", "it serves")
    ports = delta.run("rpcinfo -p | grep 100021")
    assert ports.count(" 4045 ") == 6, ports
    for guest, options in ((alpha, "vers=3,tcp"), (beta, "vers=4.1")):
        guest.wait_until_up()
        guest.mount(delta.address, at="/nfsd", path=SERVED, options=options)
    a, b = alpha.app("a", "file", at="/nfsd"), beta.app("b", "file", at="/nfsd")
    a.ask("set w 0 100", "granted")
    b.ask("set w 0 100", "refused EAGAIN")
    b.ask("set w 200 10", "granted")
    a.ask("set w 200 10", "refused EAGAIN")
    a.say("get w 150 100")
    assert a.next().startswith("held w 200 10")
    a.wait_for("wait w 200 10")
    b.ask("free 200 10", "freed")
    a.expect("granted")
    b.wait_for("wait w 0 100")
    a.ask("free 0 100", "freed")
    b.expect("granted")
    assert "client registered client=alpha.example" in delta.run("cat /tmp/holdfastd.log")
    delta.run("rpc.nfsd 0; rpc.nfsd 2")
    until(delta, "grep -q 'another process has registered our program' /tmp/holdfastd.log", "lockd is back, and that is said")
    delta.run(FORGET)
    until(delta, "[ $(rpcinfo -p | grep 100021 | grep -c ' 4045 ') = 6 ]", "registered again")
    for app in (a, b):
        app.end()


def start_holdfast():
    lab.start("grace.mode=conflict", f"keeper.socket={lab.keeper.path}", f"admin.socket={lab.directory}/admin").wait_for_log(READY)


def opened():
    global lab
    if not Path(program()).exists():
        raise tap.Skip("holdfast-keeper is not built")
    lab = Lab("mixed", versions="3, 4")
    lab.keeper = Keeper(lab.export, path=str(lab.directory / "keeper"))
    lab.keeper.__enter__()
    lab.samba = Samba(lab.directory / "samba", lab.export)
    lab.samba.__enter__()
    start_holdfast()
    for name in ("alpha", "beta"):
        lab.guest(name).boot(wait=False)
    lab.ganesha.wait()
    return lab


if __name__ == "__main__":
    os.environ.setdefault("HOLDFASTCTL", str(image.ROOT / "build/src/ctl/holdfastctl"))
    os.environ.setdefault("HOLDFAST_KEEPER", str(image.ROOT / "build/src/keeper/holdfast-keeper"))
    if not sys.argv[1:] and os.environ.get("HOLDFAST_LAB") != "all":
        tap.skip_all("a part of make lab")  # `make test` has suites mixed and worlds, without guests
    main(opened, sys.argv[1:])
