#!/usr/bin/env python3
"""The live page in Debian's Chromium, driven by playwright-core (tests/page): three clients, waiters
and a grace period running. Screenshots are kept in page-test/ of the build directory."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon
from world import ADMIN_PORT, Host, Locker

SOURCES = Path(__file__).parents[1] / "page"
FOLDER = Path(os.environ.get("HOLDFAST_BUILD", "/tmp")) / "page-test"
PLAN, LATE, OLD_1, OLD_2 = b"plan" * 4, b"late" * 4, b"old1" * 4, b"old2" * 4
MAP = f"{PLAN.hex()} /export/projects/plan.txt\n{LATE.hex()} /export/projects/late.txt\n"


def prepare():
    """Before there is no network: playwright-core, as the lock file has it. Why not, or None."""
    for program in ("node", "npm", "chromium"):
        if not shutil.which(program):
            return f"{program} is not installed"
    FOLDER.mkdir(exist_ok=True)
    changed = False
    for name in ("package.json", "package-lock.json"):
        wanted = (SOURCES / name).read_bytes()
        if not (FOLDER / name).exists() or (FOLDER / name).read_bytes() != wanted:
            (FOLDER / name).write_bytes(wanted)
            changed = True
    if changed or not (FOLDER / "node_modules/playwright-core").is_dir():
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            (FOLDER / "package-lock.json").unlink()
            return "npm cannot install playwright-core: " + done.stdout.decode().strip().splitlines()[-1]
    return None


class World:
    """The lock clients, and what they do when the page's driver asks for it."""

    def __init__(self):
        self.alpha = Locker("alpha.example", "192.0.2.1")
        self.beta = Locker("beta.example", "192.0.2.2")
        self.gamma = Locker("gamma.example", "192.0.2.3")

    def close(self):
        for locker in (self.alpha, self.beta, self.gamma):
            locker.client.close()

    def before_the_restart(self):
        for file in (PLAN, OLD_1):
            assert self.alpha.lock(file, svid=10) == "granted"
        assert self.beta.lock(OLD_2, svid=20) == "granted"

    def after_it(self):
        assert self.alpha.lock(PLAN, svid=10, reclaim=True) == "granted"
        assert self.beta.lock(PLAN, svid=20, offset=0, length=100, block=True) == "blocked"
        assert self.gamma.lock(PLAN, svid=30, offset=50, length=10, exclusive=False, block=True) == "blocked"

    def obey(self, word):
        if word == "traffic":
            for number in range(200):
                self.gamma.lock(b"busy", svid=number)
                self.gamma.unlock(b"busy", svid=number)
        elif word == "lock":
            assert self.gamma.lock(LATE, svid=77, offset=1 << 40, length=4096) == "granted"
        elif word == "hostile name":
            with Locker(b"<img src=x onerror=alert(1)>", "192.0.2.3") as hostile:
                assert hostile.lock(b"hostile") == "granted"
        else:
            raise AssertionError(word)


def drive(world):
    """Runs the driver to its end; returns its stories."""
    driver = subprocess.Popen(["node", SOURCES / "drive.mjs", f"http://127.0.0.1:{ADMIN_PORT}", FOLDER],
                              cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
    stories = []
    for line in driver.stdout:
        kind, _, rest = line.strip().partition(": ")
        if kind == "now":
            world.obey(rest)
            driver.stdin.write("done\n")
            driver.stdin.flush()
        elif kind == "ok":
            stories.append(rest)
        elif kind == "shot":
            tap.note(f"screenshot {FOLDER / rest}")
    _, errors = driver.communicate()
    assert driver.returncode == 0, f"after {stories[-1:]}: {errors}"
    return stories


@tap.test
def the_page_shows_and_steers():
    """Given a restart with grace, waiters and clients told and untold, the page shows it all and obeys."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        (Path(folder) / "map").write_text(MAP)
        settings = ("store.backend=lmdb", f"store.path={folder}/store", f"admin.fh_map={folder}/map",
                    "grace.mode=conflict", "notify.on_failure=keep", "notify.timeout=1")
        os.mkdir(f"{folder}/store")
        with Daemon(*settings):
            world = World()
            world.before_the_restart()
            world.close()
        with Host("192.0.2.2"), Daemon(*settings):
            world = World()
            world.after_it()
            stories = drive(world)
            world.close()
        for story in stories:
            tap.comment(story)
        assert len(stories) == 13, stories


if __name__ == "__main__":
    if netns.INSIDE not in os.environ:
        refusal = prepare()
        if refusal:
            tap.skip_all(refusal)
    netns.enter()
    tap.main()
