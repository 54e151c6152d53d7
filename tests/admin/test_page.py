#!/usr/bin/env python3
"""The live page (ADM-05) in Debian's Chromium, driven by playwright-core (tests/page), while clients are played here.
Screenshots are kept in page-test/ of the build directory."""
import http.server
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from demo_process import PAGE_PORT, Demo
from holdfast_test import netns, rpcbind, tap
from holdfast_test.daemon import Daemon
from world import ADMIN_PORT, Host, Locker, ask

SOURCES = Path(__file__).parents[1] / "page"
FOLDER = Path(os.environ.get("HOLDFAST_BUILD", "/tmp")) / "page-test"
TOKEN = "the-token-of-this-page"
PLAN, LATE, OLD_1, OLD_2 = b"plan" * 4, b"late" * 4, b"old1" * 4, b"old2" * 4
PATHS = {PLAN: "/export/projects/plan.txt", LATE: "/export/projects/late.txt"}


def prepare():
    """Before the network is private: installs playwright-core as the lock file has it. The reason why not, or
    None."""
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


class Server:
    """The daemon on a store of its own, with a token and with paths for the given file handles."""

    def __init__(self, paths, *settings, token=True):
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-")
        here = Path(self.folder.name)
        (here / "map").write_text("".join(f"{fh.hex()} {path}\n" for fh, path in paths.items()))
        (here / "store").mkdir()
        self.settings = ["store.backend=lmdb", f"store.path={here}/store", f"admin.fh_map={here}/map", *settings]
        if token:
            (here / "token").write_text(TOKEN + "\n")
            (here / "token").chmod(0o600)
            self.settings.append(f"admin.token_file={here}/token")

    def __enter__(self):
        self.daemon = Daemon(*self.settings).start()
        return self

    def restart(self):
        self.daemon = Daemon(*self.settings).start()

    def __exit__(self, *failure):
        try:
            self.daemon.__exit__(*failure)
        finally:
            self.folder.cleanup()


def session():
    """As holdfastctl page has it from the daemon: the page shows the files of locks."""
    return "/#session=" + ask("POST", "/api/v1/session", '{"level": "files"}').json["session"]


def drive(scenario, obey, host="127.0.0.1", port=ADMIN_PORT, behind=None):
    """Runs a scenario of tests/page to its end; obey is called with each word it asks for."""
    behind = session() if behind is None else behind
    driver = subprocess.Popen(["node", SOURCES / "drive.mjs", scenario, f"http://{host}:{port}{behind}", FOLDER],
                              cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
    stories = []
    for line in driver.stdout:
        kind, _, rest = line.strip().partition(": ")
        if kind == "now":
            obey(rest)
            driver.stdin.write("done\n")
            driver.stdin.flush()
        elif kind == "ok":
            stories.append(rest)
        elif kind == "note":
            tap.note(rest)
        elif kind == "shot":
            tap.comment(f"screenshot {FOLDER / rest}")
    _, errors = driver.communicate()
    assert driver.returncode == 0, f"after {stories[-1:]}: {errors}"
    for story in stories:
        tap.comment(story)
    assert stories[-1] == "no error in the console", stories


class Three:
    """Three clients: what they hold before a restart, after it, and do when they are asked to."""

    def __enter__(self):
        self.alpha = Locker("alpha.example", "192.0.2.1")
        self.beta = Locker("beta.example", "192.0.2.2")
        self.gamma = Locker("gamma.example", "192.0.2.3")
        return self

    def __exit__(self, *_):
        for locker in (self.alpha, self.beta, self.gamma):
            locker.client.close()

    def before_the_restart(self):
        for fh in (PLAN, OLD_1):
            assert self.alpha.lock(fh, svid=10) == "granted"
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


@tap.test
def few_locks_are_shown_and_steered():
    """ADM-05abd: Given a restart with grace, waiters and clients told and untold, the page shows it all and obeys."""
    with Server(PATHS, "grace.mode=conflict", "notify.on_failure=keep", "notify.timeout=1") as server:
        with Three() as clients:
            clients.before_the_restart()
        assert server.daemon.stop() == 0
        with Host("192.0.2.2"):
            server.restart()
            with Three() as clients:
                clients.after_it()
                drive("few", clients.obey)


@tap.test
def a_daemon_that_is_gone_is_noticed():
    """Given a page that is open, when the daemon dies or hangs, the page is grey under a red banner until it is back."""
    with Server(PATHS, "grace.mode=conflict") as server, Locker("alpha.example", "192.0.2.1") as alpha:
        assert alpha.lock(PLAN, svid=10) == "granted"

        def obey(word):
            if word == "kill":
                server.daemon.stop(signal.SIGKILL)
            elif word == "start":
                server.restart()
            else:
                server.daemon.send_signal({"hang": signal.SIGSTOP, "go on": signal.SIGCONT}[word])

        drive("gone", obey)


@tap.test
def crowds_and_long_names_fit():
    """Given 50 locks, 27 waiters on three files and long names, the page is readable, wide and narrow."""
    build, ledger, report = b"build" * 4, b"ledger" * 4, b"report" * 4
    plain = {b"file%04d" % n * 2: f"/export/home/user{n % 7}/mail/box-{n}.mbox" for n in range(45)}
    long_name = "render-node-0042.cluster-b.building-7.engineering.example.com"
    long_path = "/export/projects/a-very-long-project-name/with/many/folders/inside/it/and-more/of-them/final-report.odt"
    paths = {build: "/export/ci/build.lock", ledger: "/export/finance/ledger.db", report: long_path, **plain}
    with Server(paths) as server:
        addresses = ("192.0.2.1", "192.0.2.2", "192.0.2.3")
        lockers = [Locker(f"node-{n:02}.example", addresses[n % 3]) for n in range(22)]
        render = Locker(long_name, "192.0.2.3")
        assert lockers[0].lock(build, svid=500) == "granted"
        assert render.lock(report, svid=8) == "granted"
        for n in range(3):
            assert lockers[n + 1].lock(ledger, svid=60 + n, offset=100 * n, length=100, exclusive=n == 0) == "granted"
        for n, fh in enumerate(plain):
            assert lockers[n % 20].lock(fh, svid=1000 + n, exclusive=n % 3 > 0) == "granted"
        for n in range(1, 22):
            assert lockers[n].lock(build, svid=700 + n, block=True) == "blocked"
        assert render.lock(build, svid=8, block=True) == "blocked"
        for n in range(4):
            assert lockers[4 + n].lock(ledger, svid=80, offset=50 * n, length=10, block=True) == "blocked"
        assert lockers[9].lock(report, svid=90, block=True) == "blocked"
        drive("crowded", None)
        for locker in (*lockers, render):
            locker.client.close()


@tap.test
def ten_thousand_locks_stay_quick():
    """Given 10,000 locks of 20 clients, the page sorts, pages and searches, and loads no more than it shows."""
    paths = {b"data%05d" % n: f"/export/data/{n:05}" for n in range(10000)}
    with Server(paths, "store.backend=memory") as server:
        lockers = [Locker(f"worker-{n:02}.example", ("192.0.2.1", "192.0.2.2", "192.0.2.3")[n % 3]) for n in range(20)]
        for n, fh in enumerate(paths):
            assert lockers[n % 20].lock(fh, svid=n) == "granted"
        for n, fh in enumerate(list(paths)[4711:4713]):
            for waiter in range(1, 5):
                assert lockers[(4711 + n + waiter) % 20].lock(fh, svid=20000, block=True) == "blocked"
        drive("thousands", None)
        for locker in lockers:
            locker.client.close()


@tap.test
def where_changes_are_refused_there_is_no_button():
    """Given no token, and a way to the page by which changes are refused, it has no buttons, and says what to do."""
    with Server(PATHS, token=False), Locker("alpha.example", "192.0.2.1") as alpha:
        assert alpha.lock(PLAN, svid=10) == "granted"
        drive("read_only", None, host="server.example", behind="")


@tap.test
def the_token_is_sent_once():
    """ADM-09: without a session the page shows no file. The token that is typed goes to the daemon once, for a session,
    and no request after that has it: not while another program listens in the daemon's place."""
    with Server(PATHS) as server, Locker("alpha.example", "192.0.2.1") as alpha, Locker("beta.example", "192.0.2.2") as beta:
        assert alpha.lock(PLAN, svid=10) == "granted"
        assert beta.lock(PLAN, svid=20, block=True) == "blocked"
        does = {"kill": lambda: server.daemon.stop(signal.SIGKILL), "start": server.restart}
        drive("log_in", lambda word: does[word](), behind="")


@tap.test
def troubles_stand_at_the_top():
    """ADM-06, ADM-07: given locks that were lost, a limit that was reached and an rpcbind that stops: all are shown; the
    loss until it is acknowledged, rpcbind until it is back."""
    with rpcbind.System() as system, Server(PATHS, "limits.locks_per_client=2", "grace.seconds=1", "notify.on_failure=keep",
                                            "rpcbind.mode=system") as server:
        does = {"stop rpcbind": system.stop, "start rpcbind": system.start}
        with Locker("alpha.example", "192.0.2.2") as alpha:
            assert alpha.lock(PLAN) == alpha.lock(LATE) == "granted"
        server.daemon.stop(signal.SIGKILL)
        server.restart()
        server.daemon.wait_for_log("grace period is over")
        with Locker("alpha.example", "192.0.2.2") as alpha:
            assert [alpha.lock(fh) for fh in (PLAN, LATE, OLD_1)] == ["granted", "granted", "denied_nolocks"]
            drive("troubles", lambda word: does[word]())


class StandbyProxy:
    """The daemon, seen through a proxy that says of it that it stands by: the page is what is tested here. All but the status comes
    late, as on a busy machine, so that a story that takes the parts of the page for one fails each time."""

    def __enter__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                time.sleep(0 if self.path == "/api/v1/status" else 0.5)
                path = "/api/v1/status" if self.path == "/api/v1/cluster" else self.path
                answer = urllib.request.urlopen(f"http://127.0.0.1:{ADMIN_PORT}{path}")
                body = answer.read()
                if self.path == "/api/v1/status":
                    body = json.dumps(json.loads(body) | {"role": "standby", "node": "beta.example", "active_node": "server.example"}).encode()
                elif self.path == "/api/v1/cluster":
                    body = json.dumps(CLUSTER).encode()
                self.send_response(200)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self.server.server_address[1]

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


CLUSTER = {"service": "home", "node": "beta.example", "role": "standby", "owner": "server.example", "taken": "2026-11-18T03:12:00Z",
           "lease": "7", "lease_left_seconds": 0, "takeovers": 2, "losses": 0, "expiries": 0, "alarms": 0, "last_takeover_seconds": 0.4,
           "last_silence_seconds": 1, "nodes": [
               {"name": "server.example", "version": "0.1.0", "owner": True, "role": None, "seen_seconds_ago": 0.3},
               {"name": "beta.example", "version": "0.1.0", "owner": False, "role": "standby", "seen_seconds_ago": 0}]}


@tap.test
def a_node_that_stands_by_leads_to_the_active_one():
    """ADM-05c: the page of a standby shows no empty lists; it says that it stands by, which node serves, and links to it."""
    with Server(PATHS), StandbyProxy() as port:
        drive("standby", None, port=port, behind="")


@tap.test
def where_no_lock_is_held_the_page_teaches():
    """ADM-05a: a fresh server has no locks; the page says how clients find it, and what to try."""
    with Server(PATHS):
        drive("empty", None)


@tap.test
def a_tour_of_the_demonstration():
    """Given the demonstration, when its daemon is killed and started: the pictures of the README."""
    with Demo() as demo:
        drive("tour", lambda word: demo.press_enter(), port=PAGE_PORT, behind="")


if __name__ == "__main__":
    if netns.INSIDE not in os.environ:
        refusal = prepare()
        if refusal:
            tap.skip_all(refusal)
    netns.enter()
    tap.main()
