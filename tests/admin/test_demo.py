#!/usr/bin/env python3
"""The demonstration (demo/run): it comes up, shows a living system, and leaves nothing behind."""
import http.client
import json
import subprocess
from pathlib import Path

from demo_process import CTL, PAGE_PORT, Demo
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
            return after["epoch"] != before["epoch"]

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
