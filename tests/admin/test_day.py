#!/usr/bin/env python3
"""An operator's day, from the installation to the restored backup, with the commands an operator types and what they
print (ADM-04, ADM-06, GRC-02, NAM-01). The files and their names are real: the clients' handles are those that NFS-Ganesha and
the kernel's nfsd would give them, and holdfast-namesd finds the paths. The transcript is kept in day.txt of the build directory."""
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import netns, nlm, tap
from holdfast_test.daemon import WAIT_S, wait_until
from holdfast_test.names import Namesd, ganesha, nfsd
from world import NLM, NSM, Host, Locker, get

BUILD = Path(os.environ.get("HOLDFAST_BUILD", Path(__file__).resolve().parents[2] / "build-asan"))
EXPORT = "/srv/export"
PLAN, MAIL = f"{EXPORT}/projects/plan.txt", f"{EXPORT}/mail.db"
CONFIG = """[server]
name=server.example
user=
listen=192.0.2.1,127.0.0.1
[rpcbind]
mode=embedded
[store]
path={root}/var/lib/holdfast
"""


class Day:
    """One machine: what is installed, and what was typed and printed so far."""

    def __init__(self, root):
        self.root, self.transcript, self.daemon = Path(root), [], None

    def say(self, text):
        self.transcript.append(f"\n# {text}")

    def type(self, command, expect=0):
        """A command at the operator's terminal; what it printed."""
        env = os.environ | {"PATH": f"{self.bin}:{self.sbin}:{os.environ['PATH']}", "COLUMNS": "120"}
        done = subprocess.run(command, shell=True, env=env, stdin=subprocess.DEVNULL, timeout=3 * WAIT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = done.stdout.decode()
        self.transcript.append(f"$ {command}\n{said}".rstrip())
        assert done.returncode == expect, f"{command}: {done.returncode}\n{said}"
        return said

    def install(self):
        subprocess.run(["meson", "install", "-C", str(BUILD), "--no-rebuild", "--quiet", "--destdir", str(self.root)],
                       check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.sbin = next(self.root.rglob("holdfastd")).parent
        self.bin = next(self.root.rglob("bin/holdfastctl")).parent
        (self.root / "var/lib/holdfast").mkdir(parents=True)
        (self.root / "etc").mkdir(exist_ok=True)
        self.config = self.root / "etc/holdfast.conf"
        self.config.write_text(CONFIG.format(root=self.root))

    def export(self):
        """The directory that is served, where an operator would have it: in the private namespace only."""
        (self.root / "srv").mkdir()
        netns.run("mount", "--bind", self.root / "srv", "/srv")
        for path in (PLAN, MAIL):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(path).touch()
        self.plan, self.mail = ganesha(PLAN), nfsd(MAIL, root=EXPORT)

    def names(self):
        """The installed holdfast-namesd."""
        self.transcript.append(f"$ holdfast-namesd --export {EXPORT} &")
        namesd = Namesd(EXPORT)
        namesd.command[0] = self.sbin / "holdfast-namesd"
        return namesd

    def start(self, config=None):
        log = open(self.root / "log", "ab")
        self.transcript.append(f"$ holdfastd --config {config or self.config} &")
        self.daemon = subprocess.Popen([self.sbin / "holdfastd", "--config", config or self.config],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.answers, "the daemon serves")

    def answers(self):
        assert self.daemon.poll() is None, (self.root / "log").read_text()
        try:
            return bool(get("status"))
        except ConnectionError:
            return False

    def kill(self):
        self.transcript.append("$ kill -9 $(pidof holdfastd)")
        self.daemon.kill()
        self.daemon.wait()

    def stop(self):
        self.transcript.append("$ kill $(pidof holdfastd)")
        self.daemon.terminate()
        assert self.daemon.wait(WAIT_S) == 0


def locks_are_seen_by_path(day):
    day.say("A client locks two files, another waits for both: which, by path")
    with Locker("alpha.example", "192.0.2.2") as alpha, Locker("beta.example", "192.0.2.3") as beta:
        for file in (day.plan, day.mail):
            assert alpha.lock(file) == "granted"
            assert beta.lock(file, block=True) == "blocked"
    said = day.type("holdfastctl locks")
    assert PLAN in said and MAIL in said, said
    said = day.type(f"holdfastctl locks --file {PLAN}")
    assert re.search(rf"alpha\.example.*{PLAN}", said) and MAIL not in said, said
    said = day.type(f"holdfastctl waiters --file {PLAN}")
    assert re.search(rf"beta\.example.*{PLAN}.*alpha\.example", said), said


def death_then_release(day, beta_host):
    day.say("alpha dies for good. The operator releases one file by its path; beta asks again, and has it")
    said = day.type(f"holdfastctl release --file {PLAN} --yes")
    assert "Released 2" in said, said
    assert "alpha.example" not in day.type(f"holdfastctl locks --file {PLAN}")
    with Locker("beta.example", "192.0.2.3") as beta:
        assert beta.lock(day.plan, block=True) == "granted"
    day.say("... and then whatever else alpha held: beta, which waits for it, is told that it has it")
    said = day.type("holdfastctl release --client alpha.example --yes")
    assert re.search(rf"beta\.example.*{MAIL}", said), said
    wait_until(lambda: beta_host.count(NLM, nlm.GRANTED) == 1, "beta is called back")
    said = day.type("holdfastctl locks")
    assert said.count("beta.example (") == 2 and "alpha.example" not in said, said


def crash_without_loss(day, beta_host):
    day.say("The daemon is killed. It comes back, notifies beta, and beta reclaims: nothing is lost")
    day.kill()
    day.start()
    wait_until(lambda: beta_host.count(NSM, 6) > 0, "beta is notified")
    with Locker("beta.example", "192.0.2.3") as beta:
        for file in (day.plan, day.mail):
            assert beta.lock(file, reclaim=True) == "granted"
    wait_until(lambda: not get("grace")["active"], "grace ends with the last reclaim")
    assert "No lock was lost" in day.type("holdfastctl losses")
    assert "LOST" not in day.type("holdfastctl status")


def backup_elsewhere(day, elsewhere):
    day.say("A backup, restored on another store; beta's locks are there, and can be reclaimed")
    day.type(f"holdfastctl backup {day.root}/backup")
    day.stop()
    digest = re.search(r"digest\s+(\d+)", day.type(f"holdfastd --config {day.config} --verify-store"))[1]
    config = Path(elsewhere, "holdfast.conf")
    config.write_text(CONFIG.format(root=day.root).replace(f"path={day.root}/var/lib/holdfast", f"path={elsewhere}/store"))
    os.mkdir(Path(elsewhere, "store"))
    said = day.type(f"holdfastd --config {config} --restore {shlex.quote(str(day.root / 'backup'))}")
    assert digest in said, "not the same records"
    day.start(config)
    said = day.type("holdfastctl locks")
    assert said.count("beta.example (") == 2 and PLAN in said and MAIL in said, said
    with Locker("beta.example", "192.0.2.3") as beta, Locker("gamma.example", "192.0.2.2") as gamma:
        for file in (day.plan, day.mail):
            assert gamma.lock(file) == "denied_grace_period"
            assert beta.lock(file, reclaim=True) == "granted"
        day.say("Locks that were taken after the backup are unknown here, so grace lasts its full time, or until it is ended")
        assert get("grace")["active"]
        day.type("holdfastctl --yes grace end")
        assert gamma.lock(day.plan) == "denied", "beta holds it here, too"
    assert "beta.example" not in day.type("holdfastctl losses"), "beta has reclaimed what it held"
    day.stop()


@tap.test
def a_whole_day():
    """Install, look, lock, see the path, release by path after a death, crash without loss, back up, restore elsewhere."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as root, tempfile.TemporaryDirectory(prefix="holdfast-") as elsewhere, \
            netns.names("192.0.2.1 server.example"), Host("192.0.2.3") as beta_host:
        day = Day(root)
        day.install()
        day.export()
        try:
            day.say("Installed: is the configuration good, does the host fit?")
            assert "good" in day.type(f"holdfastd --config {day.config} --check-config")
            day.start()
            said = day.type("holdfastctl doctor || true")
            assert "FAIL" not in said, said
            assert "embedded" in day.type("holdfastctl status")
            with day.names():
                locks_are_seen_by_path(day)
                death_then_release(day, beta_host)
                crash_without_loss(day, beta_host)
                backup_elsewhere(day, elsewhere)
        finally:
            if day.daemon and day.daemon.poll() is None:
                day.daemon.kill()
                day.daemon.wait()
            netns.run("umount", "--lazy", "/srv")
            text = "\n".join(day.transcript).replace(root, "").replace(elsewhere, "/elsewhere")
            (BUILD / "day.txt").write_text(text + "\n")
        log = (day.root / "log").read_text()
        assert "Sanitizer" not in log and "invariant broken" not in log, log
    tap.note(f"the transcript is {BUILD / 'day.txt'}")


if __name__ == "__main__":
    netns.enter()
    tap.main()
