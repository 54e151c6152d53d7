#!/usr/bin/env python3
"""The history (ADM-11): which client held or waited for which file, and when; over restarts; who may see it."""
import os
import pathlib
import re
import subprocess
import time

from holdfast_test import netns, tap
from holdfast_test.daemon import wait_until
from holdfast_test.store import Server
from world import Host, Locker, ask, expect_problem, get

ALL = ("history.longer_than=0", "notify.timeout=1", "notify.attempts=1", "notify.retry_for=0")
FILE = b"nightly.db"


def ctl(*arguments, zone="UTC"):
    done = subprocess.run([os.environ["HOLDFASTCTL"], "--wide", *arguments], stdin=subprocess.DEVNULL, timeout=30,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"TZ": zone})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def entries(**query):
    answer = ask("GET", "/api/v1/history?" + "&".join(f"{k}={v}" for k, v in query.items()), unix=True)
    assert answer.status == 200, answer.body
    return answer.json["entries"]


def eventually(n, **query):
    """Lines are written off the path of requests: waits until there are n, and returns them."""
    wait_until(lambda: len(entries(**query)) >= n, f"{n} entries")
    found = entries(**query)
    assert len(found) == n, found
    return found


def handed_over(alpha, beta):
    """alpha holds the file, beta waits for it, gets it and unlocks it."""
    assert alpha.lock(FILE) == "granted"
    assert beta.lock(FILE, block=True) == "blocked"
    assert alpha.unlock(FILE) == "granted"
    wait_until(lambda: beta.lock(FILE, block=True) == "granted", "beta has the lock")
    assert beta.unlock(FILE) == "granted"


@tap.test
def it_tells_who_held_and_who_waited():
    """ADM-11: given a lock that passes from one client to another: three entries, in the order in which they ended."""
    with Server(*ALL), Host("192.0.2.2"), Host("192.0.2.3"), \
            Locker("alpha.example", "192.0.2.2") as alpha, Locker("beta.example", "192.0.2.3") as beta:
        handed_over(alpha, beta)
        held, waited, then = eventually(3, file=FILE.hex())
        assert (held["kind"], held["client"]["name"], held["what"]) == ("lock", "alpha.example", "unlocked"), held
        assert (waited["kind"], waited["client"]["name"], waited["what"]) == ("wait", "beta.example", "granted"), waited
        assert (then["kind"], then["client"]["name"], then["what"]) == ("lock", "beta.example", "unlocked"), then
        assert held["client"]["address"] == "192.0.2.2" and held["mode"] == "exclusive", held
        assert held["range"] == {"first": "0", "last": None} and held["owner"]["text"] == "1@alpha.example", held
        assert held["from"] <= held["to"] <= then["to"], (held, then)
        assert [e["client"]["name"] for e in entries(client="192.0.2.3") if e["client"]] == ["beta.example"] * 2


@tap.test
def it_outlives_restarts_and_shows_losses_file_by_file():
    """ADM-11, ADM-06: given locks of before a kill: the one that is unlocked after the restart was held since then, and the one that is not
    reclaimed is named with its file, however short it was held."""
    with Server(*ALL) as server:
        with Locker("alpha.example", "192.0.2.2") as alpha:
            assert alpha.lock(FILE) == "granted" and alpha.lock(b"lost.db") == "granted"
        server.kill()
        server.start("grace.seconds=2", "notify.on_failure=keep", "history.longer_than=3600000", *ALL[1:])
        with Locker("alpha.example", "192.0.2.2") as alpha:
            assert alpha.lock(FILE, reclaim=True) == "granted"
            wait_until(lambda: any(e["what"].startswith("lost") for e in entries(file=b"lost.db".hex())), "the loss")
            lost = [e for e in entries(file=b"lost.db".hex()) if e["kind"] == "lock"]
            assert len(lost) == 1 and lost[0]["what"] == "lost: not reclaimed in time", lost
            assert b"lost.db".hex() in ctl("losses")[1] and FILE.hex() not in ctl("losses")[1], ctl("losses")[1]
            assert alpha.unlock(FILE) == "granted"
            assert not [e for e in entries(file=FILE.hex()) if e["kind"] == "lock"], "too short for history.longer_than"
        noted = [e["what"] for e in entries() if e["kind"] == "note"]
        assert "grace period begins" in noted and "grace period is over" in noted, noted


@tap.test
def an_operator_asks_what_was_at_three_twelve():
    """ADM-11: given a lock of a moment ago and one that is still held: --at shows both for a moment in which both were held."""
    with Server(*ALL), Locker("alpha.example", "192.0.2.2") as alpha, Locker("beta.example", "192.0.2.3") as beta:
        assert alpha.lock(FILE, length=1) == "granted" and beta.lock(FILE, offset=5, length=1) == "granted"
        time.sleep(1.1)  # --at has seconds
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        time.sleep(1.1)
        assert alpha.unlock(FILE, length=1) == "granted"
        assert alpha.lock(FILE, offset=9, length=1) == "granted"  # later
        eventually(1, file=FILE.hex())
        status, out, err = ctl("history", "--at", moment)
        assert status == 0, err
        rows = [line for line in out.splitlines() if "example" in line]
        assert len(rows) == 2, out
        assert "alpha.example" in rows[0] and "unlocked" in rows[0], out
        assert "beta.example" in rows[1] and "still held" in rows[1], out
        status, out, _ = ctl("history", "--at", moment, "--client", "beta.example")
        assert status == 0 and "alpha" not in out and "beta.example" in out, out
        for part in ("nightly.db".encode().hex()[4:10], FILE.hex()[:6] + "*"):
            status, out, err = ctl("history", "--at", moment, "--file", part)
            assert status == 0 and len([line for line in out.splitlines() if "example" in line]) == 2, (part, out)
        status, out, err = ctl("history", "--since", "2001-01-01", "--client", "beta")
        assert status == 0 and "beta.example" in out and "alpha" not in out, out
        assert "the history begins at" in err and "nothing that ended before is kept" in err, err
        began = next(lock["acquired_at"] for lock in get("locks")["locks"] if lock["range"]["first"] == "5")
        status, out, _ = ctl("history", "--until", began[:19].replace("T", " "))  # what began within that second is part of it
        assert status == 0 and "beta.example" in out, (began, out)
        status, out, _ = ctl("history", "--until", "2001-01-01 00:00")
        assert status == 0 and "example" not in out, out
        assert re.search(r"^\d\d:\d\d:\d\d ", ctl("history")[1], re.M), "times of today have no date"
        for bad in (["--at", "soon"], ["--at", "03:12", "--since", "1h"], ["--since", "25:99"], ["nonsense"],
                    ["--since", "2001-01-02", "--until", "2001-01-01"]):
            assert ctl("history", *bad)[0] == 2, bad


@tap.test
def what_an_operator_did_is_in_it():
    """ADM-11: given a release by the operator: the lock's end says so, and a note says who did it."""
    with Server(*ALL), Locker("alpha.example", "192.0.2.2") as alpha:
        assert alpha.lock(FILE) == "granted"
        assert ctl("release", "--file", FILE.hex(), "--yes")[0] == 0
        wait_until(lambda: any(e["what"] == "release file" for e in entries()), "the note")
        assert [e["what"] for e in entries(file=FILE.hex()) if e["kind"] == "lock"] == ["released by the operator"]
        note = next(e for e in entries() if e["what"] == "release file")
        assert "uid 0" in note["text"], note
        ctl("check", "alpha.example")
        ctl("notify", "alpha.example")
        assert alpha.lock(FILE) == "granted" and ctl("release", "--client", "alpha.example", "--yes")[0] == 0
        wait_until(lambda: any(e["what"] == "release client" for e in entries()), "the note")
        notes = [e["text"] for e in entries() if e["what"] in ("check client", "notify client", "release client")]
        assert len(notes) == 3 and all(text.startswith("alpha.example (192.0.2.2), by uid 0") for text in notes), notes


@tap.test
def only_those_who_may_see_files_see_it():
    """ADM-09: it tells which files are locked, so a reader without a token is refused; bad questions get a clear answer."""
    with Server(*ALL):
        assert ask("GET", "/api/v1/history", unix=False).status in (401, 403)
        for query, word in (("since=yesterday", "UTC"), ("limit=0", "10000"), ("limit=10001", "10000"), ("until=2026", "UTC"), ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "later"),
                            ("file=" + "a" * 5000, "path"), ("wrong=1", "no key")):
            assert word in expect_problem(ask("GET", "/api/v1/history?" + query, unix=True), 400), query


@tap.test
def without_a_history_it_says_so():
    """ADM-10: given a history without an entry, or history.path empty, an empty table does not pass for "nothing was locked"."""
    with Server(*ALL):
        status, out, err = ctl("history", "--at", "1m")
        assert status == 0 and "no entry yet" in err, (out, err)
    with Server("history.path=") as server:
        assert "history.path" in expect_problem(ask("GET", "/api/v1/history", unix=True), 409)
        with Locker("alpha.example", "192.0.2.2") as alpha:
            assert alpha.lock(FILE) == "granted" and alpha.unlock(FILE) == "granted"
        assert not list(pathlib.Path(server.path).glob("history*"))


if __name__ == "__main__":
    netns.enter()
    tap.main()
