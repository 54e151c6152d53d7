#!/usr/bin/env python3
"""The demonstration (demo/run): it comes up, shows a living system, and leaves nothing behind."""
import http.client
import json
import subprocess
import sys
from pathlib import Path

from demo_process import CTL, PAGE_PORT, RUN, Demo
from holdfast_test import netns, tap
from holdfast_test.daemon import wait_until


def get(path):
    connection = http.client.HTTPConnection("127.0.0.1", PAGE_PORT, timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse().read()
    connection.close()
    return answer


def rows(name):
    return json.loads(get(f"/api/v1/{name}"))[name]


def status():
    return json.loads(get("/api/v1/status"))


def processes_with(word):
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in entry.read_bytes():
                found.append(entry.parent.name)
        except OSError:
            pass
    return found


@tap.test
def a_client_that_crashes_while_the_daemon_is_down_goes_on():
    """Given a client whose connection has broken already, and no daemon to tell of its reboot, it tries again; its thread
    does not end in a traceback."""
    sys.path.insert(0, str(RUN.parent))
    from players import Client, Stopped

    class Stage:
        port, checks = 4999, 0

        def check(self):
            self.checks += 1
            if self.checks == 5:
                raise Stopped

    client = Client("render-7.example", "127.0.1.8", Stage())
    client.boot()
    client.crash()
    assert (client.client, client.held, client.host) == (None, [], None)
    try:
        client.reboot()
    except Stopped:
        pass
    finally:
        client.host.__exit__(None)
    assert client.stage.checks == 5


@tap.test
def a_living_system_is_shown():
    """Clients hold and wait, with paths; the page is there; Enter restarts the daemon, and locks are reclaimed."""
    with Demo() as demo:
        wait_until(lambda: status()["counts"]["locks"] >= 8 and status()["counts"]["waiters"] >= 2, "locks and waiters")
        assert b"<title>Holdfast</title>" in get("/")
        assert {"/export/ci/build.lock", "/export/finance/ledger.db"} <= {lock["path"] for lock in rows("locks")}
        wait_until(lambda: any(w["path"] == "/export/ci/build.lock" and w["blocked_by"] for w in rows("waiters")), "a queue")
        first = {lock["owner"]["svid"] for lock in rows("locks") if lock["path"] == "/export/ci/build.lock"}
        wait_until(lambda: {lock["owner"]["svid"] for lock in rows("locks") if lock["path"] == "/export/ci/build.lock"} - first,
                   "a waiter is granted")
        socket = next(word for word in demo.output.split() if word.endswith("admin.sock"))
        shown = subprocess.run([CTL, "--socket", socket, "locks"], stdout=subprocess.PIPE, check=True).stdout.decode()
        assert "mail.example" in shown or "build-" in shown, shown

        before = after = status()
        demo.press_enter()

        def is_back():
            nonlocal after
            try:
                after = status()
            except (OSError, http.client.HTTPException):
                pass  # it is down for a moment
            return after["state"] is not None and after["epoch"] != before["epoch"]  # null: the store is being loaded

        wait_until(is_back, "the daemon is back")
        assert after["grace"]["active"], "the laptop's lock is unclaimed for 15 s at least"

        def the_living_have_reclaimed():
            # The laptop cannot be reached, and render-7 may have crashed by then.
            waiting = {lock["client"]["name"] for lock in rows("locks") if lock["unreclaimed"]}
            return waiting <= {"closed-laptop.example", "render-7.example"} and status()["grace"]["reclaimed"] > 0

        wait_until(the_living_have_reclaimed, "locks are reclaimed")
    assert "the daemon is killed" in demo.output and demo.left_behind == [], (demo.output, demo.left_behind)
    assert processes_with(demo.folder.name) == []


@tap.test
def a_client_crashes_and_comes_back():
    """The client that crashes keeps its locks until it is back and says so; then the waiter has its lock."""
    with Demo() as demo:
        for words in ("render-7.example crashes with 8 locks", "render-7.example is back"):
            while words not in demo.output:
                demo.output += demo.process.stdout.readline()
            held = [lock for lock in rows("locks") if lock["client"]["name"] == "render-7.example"]
            if "crashes" in words:
                assert len(held) == 8, held
        wait_until(lambda: not [lock for lock in rows("locks") if lock["client"]["name"] == "render-7.example"],
                   "its locks are freed")
        wait_until(lambda: [lock for lock in rows("locks") if lock["client"]["name"] == "viewer.example"], "the waiter is granted")


if __name__ == "__main__":
    netns.enter()
    tap.main()
