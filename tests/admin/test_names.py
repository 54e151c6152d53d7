#!/usr/bin/env python3
"""Files have names (NAM-01): REST, holdfastctl and the log by path, with the real holdfast-namesd, and with namers that
hang, die and lie."""
import contextlib
import os
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon, wait_until
from holdfast_test.names import Namesd, PlayedNamer, ganesha, nfsd, unfs3
from schema import Description
from world import SOCKET, Locker, ask, expect_problem, get

CTL = os.environ.get("HOLDFASTCTL", "holdfastctl")
OK, REFUSED, USAGE, UNREACHABLE, NOT_FOUND = range(5)
SETTINGS = ("server.listen=192.0.2.1,127.0.0.1",)


def ctl(*arguments):
    done = subprocess.run([CTL, *arguments], stdin=subprocess.DEVNULL, timeout=60, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Scene:
    """alpha holds mail.db by Ganesha's handle, beta waits for it; gamma holds plan.txt by nfsd's and log.txt by
    unfs3's."""

    def __init__(self, *settings):
        self.settings = settings

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.export = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-names-")))
        self.mail, self.plan, self.log = (self.export / name for name in ("mail.db", "plan.txt", "log.txt"))
        for path in (self.mail, self.plan, self.log):
            path.touch()
        self.daemon = self.stack.enter_context(Daemon(*SETTINGS, *self.settings))
        self.alpha = self.stack.enter_context(Locker("alpha.example", "192.0.2.3"))
        self.beta = self.stack.enter_context(Locker("beta.example", "192.0.2.2"))
        self.fh = ganesha(str(self.mail))
        assert self.alpha.lock(self.fh, svid=7) == "granted"
        assert self.beta.lock(self.fh, svid=8, block=True) == "blocked"
        assert self.alpha.lock(nfsd(str(self.plan)), svid=9) == "granted"
        assert self.alpha.lock(unfs3(str(self.log)), svid=9) == "granted"
        return self

    def namesd(self):
        return Namesd(self.export)

    def __exit__(self, *failure):
        self.stack.__exit__(*failure)


def paths(rows):
    return sorted(str(row["path"]) for row in rows)


def by_path(kind, path):
    return get(f"{kind}?path={quote(os.fsencode(path))}")


@tap.test
def every_row_shows_its_path():
    """NAM-01: the first list already has them, for handles of each kind; the description of the API says so."""
    with Scene() as scene, scene.namesd():
        description = Description(get("openapi.json"))
        locks = get("locks")
        assert paths(locks["locks"]) == sorted(map(str, (scene.mail, scene.plan, scene.log))), locks
        assert {row["path_status"] for row in locks["locks"]} == {"named"}
        assert paths(get("waiters")["waiters"]) == [str(scene.mail)]
        assert scene.beta.share(nfsd(str(scene.plan))) == "granted"
        assert paths(get("reservations")["reservations"]) == [str(scene.plan)]
        by_file = get("locks?sort=file")["locks"]
        assert [row["path"] for row in by_file] == sorted(map(str, (scene.mail, scene.plan, scene.log)))
        assert paths(get("locks?file=PLAN")["locks"]) == [str(scene.plan)]
        for path in ("locks", "waiters", "reservations", "status"):
            schema = description.schema("GET", f"/api/v1/{path}", 200, "application/json")
            description.check(get(path), schema)
        assert get("status")["names"] == {"namer": "up", "map": False, "reason": None}


@tap.test
def rows_are_found_by_path():
    """NAM-01: ?path= is exactly one file's, of locks, waiters and reservations, sorted or not; how many rows have no
    name is said."""
    with Scene() as scene, scene.namesd():
        lock, = by_path("locks", scene.mail)["locks"]
        assert lock["client"]["name"] == "alpha.example" and lock["file"] == scene.fh.hex()
        waiter, = by_path("waiters", scene.mail)["waiters"]
        assert waiter["blocked_by"] == lock["id"]
        assert by_path("reservations", scene.mail)["reservations"] == []
        for other in (scene.export, f"{scene.mail}x", str(scene.mail)[:-1], "/"):
            assert by_path("locks", other)["locks"] == [], other
        sorted_one = get(f"locks?path={quote(str(scene.plan))}&sort=-held")
        assert paths(sorted_one["locks"]) == [str(scene.plan)] and sorted_one["total"] == 1
        assert scene.alpha.lock(b"no such handle", svid=1) == "granted"
        assert by_path("locks", scene.mail)["unnamed"] == 1
        for wrong in ("mail.db", "", "/" + "x" * 5000):
            expect_problem(ask("GET", f"/api/v1/locks?path={wrong}"), 400)


@tap.test
def names_with_any_bytes_are_shown_and_found():
    """NAM-01: line breaks, terminal escapes, bytes that are no UTF-8: shown quoted, found by the bytes themselves and by
    what is shown."""
    with Scene() as scene, scene.namesd():
        for name in (b"a\nb", b"\x1b[31mred", b"\xff", b"100% & more?=#", b"back\\slash", "übel ".encode()):
            raw = os.fsencode(scene.export) + b"/" + name
            os.close(os.open(raw, os.O_CREAT))
            assert scene.beta.lock(ganesha(os.fsdecode(raw)), svid=len(name)) == "granted"
            row, = get("locks?path=" + quote(raw))["locks"]
            assert "\n" not in row["path"] and "\x1b" not in row["path"]
            assert [again["id"] for again in get("locks?path=" + quote(row["path"]))["locks"]] == [row["id"]]


@tap.test
def files_are_released_by_path():
    """NAM-01: every lock and waiter of the file, and of no other; the log names the path and the operator. A path that
    no locked file has is a 404."""
    with Scene() as scene, scene.namesd():
        assert scene.alpha.lock(nfsd(str(scene.mail)), svid=7, offset=5) == "granted"  # by two servers
        expect_problem(ask("DELETE", "/api/v1/files?path=/nowhere"), 404)
        expect_problem(ask("DELETE", "/api/v1/files?path=mail.db"), 400)
        expect_problem(ask("DELETE", "/api/v1/files"), 400)
        answer = ask("DELETE", "/api/v1/files?path=" + quote(str(scene.mail)))
        assert answer.status == 200 and answer.json["released"] == 3, answer.body
        assert paths(get("locks")["locks"]) == sorted(map(str, (scene.log, scene.plan)))
        assert get("waiters")["waiters"] == []
        line = scene.daemon.wait_for_log('does="release file"')
        assert f"to={scene.mail}" in line and "uid 0" in line, line
        assert paths(get("locks")["locks"]) == sorted(map(str, (scene.log, scene.plan)))
        assert ask("DELETE", "/api/v1/files/" + nfsd(str(scene.plan)).hex()).status == 200
        line = scene.daemon.wait_for_log('does="release file"', times=2)
        assert f"path={scene.plan}" in line, line
        expect_problem(ask("DELETE", "/api/v1/files?path=" + quote(str(scene.log)), host="127.0.0.1", unix=False), 403)


@tap.test
def holdfastctl_takes_paths():
    """NAM-01: locks, waiters and release --file /PATH; a word without a slash still matches any part."""
    with Scene() as scene, scene.namesd():
        status, out, err = ctl("locks", "--file", str(scene.mail))
        assert status == OK and err == "" and str(scene.mail) in out and str(scene.plan) not in out, out + err
        status, out, err = ctl("waiters", "--file", str(scene.mail))
        assert status == OK and "beta.example" in out and "alpha.example" in out, out
        status, out, err = ctl("locks", "--file", "plan")
        assert status == OK and str(scene.plan) in out and str(scene.mail) not in out, out
        assert "file names      known" in ctl("status")[1]
        status, out, err = ctl("release", "--yes", "--file", str(scene.export / "nothing"))
        assert status == NOT_FOUND, f"{status} {out} {err}"
        status, out, err = ctl("release", "--yes", "--file", str(scene.mail))
        assert status == OK and "Released 2" in out, f"{status} {out} {err}"
        assert ctl("release", "--yes", "--file", "relative/path")[0] == USAGE


@tap.test
def the_log_names_the_file_of_a_callback_that_failed():
    """NAM-01: beta waits for mail.db and cannot be called back: the line has the path, which was asked for then. With no
    namer, and with one that hangs, it has the handle."""
    quick = ("notify.timeout=1", "notify.attempts=1")
    failed = "GRANTED callback failed"
    with Scene(*quick) as scene, scene.namesd():
        assert scene.alpha.unlock(scene.fh, svid=7) == "granted"
        line = scene.daemon.wait_for_log(failed)
        assert f"path={scene.mail}" in line, scene.daemon.log()
    with Scene(*quick) as scene:
        assert scene.alpha.unlock(scene.fh, svid=7) == "granted"
        assert f"file={scene.fh.hex()}" in scene.daemon.wait_for_log(failed)
    with PlayedNamer(lambda number, handle: None), Scene(*quick) as scene:
        assert scene.alpha.unlock(scene.fh, svid=7) == "granted"
        assert f"file={scene.fh.hex()}" in scene.daemon.wait_for_log(failed)


@tap.test
def without_a_namer_a_path_is_refused():
    """NAM-01: an empty table would read as "no lock": the command fails and says that no names are configured."""
    for settings in ((), ("names.socket=",)):
        with Scene(*settings) as scene:
            for command in (("locks", "--file", "/srv/x"), ("waiters", "--file", "/srv/x"),
                            ("release", "--yes", "--file", "/srv/x")):
                status, out, err = ctl(*command)
                assert status == REFUSED and out == "" and "No names of files are configured" in err, (command, err)
            expect_problem(ask("GET", "/api/v1/locks?path=/srv/x"), 409)
            expect_problem(ask("DELETE", "/api/v1/files?path=/srv/x"), 409)
            assert {row["path_status"] for row in get("locks")["locks"]} == {"unnamed"}
            assert get("status")["names"]["namer"] == "none"
            assert "file names" not in ctl("status")[1]
            assert "no names of files" not in scene.daemon.log()


@tap.test
def the_map_serves_as_well():
    """NAM-01: with admin.fh_map and no namer, paths filter and release, too."""
    with tempfile.NamedTemporaryFile("w", suffix=".map") as file:
        file.write("0a0b /srv/two words\n")
        file.flush()
        with Scene(f"admin.fh_map={file.name}") as scene:
            assert scene.alpha.lock(b"\x0a\x0b") == "granted"
            assert paths(by_path("locks", "/srv/two words")["locks"]) == ["/srv/two words"]
            status, out, err = ctl("release", "--yes", "--file", "/srv/two words")
            assert status == OK and "Released 1" in out, f"{status} {out} {err}"


@tap.test
def a_renamed_file_shows_its_new_name_soon():
    """NAM-01: within the two seconds that a name is kept; a deleted one has none, and is said to be deleted."""
    with Scene() as scene, scene.namesd():
        assert str(scene.mail) in paths(get("locks")["locks"])
        moved = scene.export / "moved.db"
        start = time.monotonic()
        os.rename(scene.mail, moved)
        wait_until(lambda: str(moved) in paths(get("locks")["locks"]), "the new name")
        tap.note(f"renamed: the new name is shown after {time.monotonic() - start:.1f} s")
        assert len(by_path("locks", moved)["locks"]) == 1 and by_path("locks", scene.mail)["locks"] == []
        with open(moved):
            os.unlink(moved)
            wait_until(lambda: "deleted" in {row["path_status"] for row in get("locks")["locks"]}, "it is deleted")
            assert "(deleted)" in ctl("locks", "--wide")[1]


@tap.test
def a_namer_that_comes_late_and_goes_costs_names_only():
    """NAM-01: started after the daemon it is found; killed, the next list has no names; started again, it has."""
    with Scene() as scene:
        assert paths(get("locks")["locks"]) == ["None"] * 3
        with scene.namesd() as namesd:
            wait_until(lambda: str(scene.mail) in paths(get("locks")["locks"]), "names")
            namesd.kill()
            scene.daemon.wait_for_log("no names of files")
            detail = expect_problem(ask("GET", "/api/v1/locks?path=/x"), 503)
            assert "namer" in detail, detail
            assert get("status")["names"]["namer"] == "down"
            assert "file names      none" in ctl("status")[1]
        assert scene.beta.lock(b"lock without names", svid=3) == "granted"
        with scene.namesd():
            wait_until(lambda: str(scene.mail) in paths(get("locks")["locks"]), "names again")


def locks_fast(scene, what):
    """A list and a lock in the presence of a bad namer; how long the list took."""
    start = time.monotonic()
    rows = get("locks")["locks"]
    took = time.monotonic() - start
    assert len(rows) >= 3
    start = time.monotonic()
    assert scene.beta.lock(b"while the namer is bad", svid=3) == "granted"
    assert time.monotonic() - start < 1.5, what
    return rows, took


@tap.test
def a_namer_that_hangs_delays_one_list_and_no_lock():
    """NAM-01: a list waits two seconds at most, then shows handles; locks are served meanwhile; the next list does not
    wait for a namer that is known to hang."""
    for greeting in (b"holdfast-names 1\n", None):  # it hangs after, or before its greeting
        with PlayedNamer(lambda number, handle: None, greeting=greeting), Scene() as scene:
            with contextlib.ExitStack() as stack:
                slow = stack.enter_context(subprocess.Popen(
                    ["curl", "-sS", "--max-time", "20", "--unix-socket", SOCKET, "http://localhost/api/v1/locks"], stdout=subprocess.PIPE))
                for svid in range(100):
                    assert scene.beta.lock(b"lock meanwhile", svid=3, offset=svid, length=1) == "granted"
                assert b'"locks"' in slow.communicate(timeout=20)[0]
            scene.daemon.wait_for_log('reason="it does not answer"')
            rows, took = locks_fast(scene, "the list after that")
            assert paths(rows) == ["None"] * len(rows) and took < 1.5, took
            expect_problem(ask("GET", "/api/v1/locks?path=/x"), 503)


@tap.test
def a_namer_that_lies_is_cut_off_or_quoted():
    """NAM-01: what makes no sense costs the namer its connection; what could fool a terminal is quoted; the daemon
    serves on."""
    lies = {
        "no such id": lambda number, handle: b"4711 named /x\n",
        "no answer": lambda number, handle: b"what?\n",
        "relative": lambda number, handle: number + b" named etc/passwd\n",
        "endless": lambda number, handle: number + b" named /" + b"x" * 100000,
        "too long": lambda number, handle: number + b" named /" + b"x" * 5000 + b"\n",
        "bytes": lambda number, handle: os.urandom(2000) + b"\n",
        "twice": lambda number, handle: (number + b" unknown\n") * 2,
    }
    for what, answer in lies.items():
        with PlayedNamer(answer) as namer, Scene() as scene:
            rows, _ = locks_fast(scene, what)
            assert paths(rows) == ["None"] * 3, (what, rows)
            line = scene.daemon.wait_for_log("no names of files")
            assert "makes no sense" in line or "does not answer" in line, line
            assert namer.connections >= 1
    with PlayedNamer(lambda number, handle: number + b" named /\x1b[2J\xe2\x80\xae\xff\n"), Scene() as scene:
        rows, _ = locks_fast(scene, "escapes")
        assert paths(rows) == ["/\\x1b[2J\\xe2\\x80\\xae\\xff"] * 3, rows
    with PlayedNamer(None, greeting=b"holdfast-names 2\n"), Scene() as scene:
        assert paths(locks_fast(scene, "version")[0]) == ["None"] * 3


@tap.test
def a_namer_that_dies_in_the_middle_is_tried_again_later():
    """NAM-01: each connection ends after three answers; the daemon does not hammer it, and locks go on."""
    def answer(number, handle):
        if len(namer.asked) % 4 == 3:
            raise EOFError
        return number + b" named /" + handle.hex().encode() + b"\n"

    with PlayedNamer(answer) as namer, Scene() as scene:
        for _ in range(20):
            locks_fast(scene, "a dying namer")
        assert namer.connections <= 4, f"{namer.connections} connections"
        wait_until(lambda: get("locks") and namer.connections >= 2, "it is tried again")


@tap.test
def answers_come_in_any_order():
    """NAM-02: a file server that is its own namer may answer later questions first."""
    kept = []

    def answer(number, handle):
        kept.append(number + b" named /" + handle.hex().encode() + b"\n")
        if len(kept) < 3:
            return None
        return b"".join(reversed(kept))

    with PlayedNamer(answer), Scene():
        rows = get("locks")["locks"]
        assert paths(rows) == sorted("/" + row["file"] for row in rows), rows


@tap.test
def a_namer_that_leaves_one_question_out_is_cut_off():
    """NAM-01: it answers all but one, again and again: a search for a path ends all the same."""
    def answer(number, handle):
        return None if handle == scene.fh else number + b" unknown\n"

    with PlayedNamer(answer), Scene() as scene:
        start = time.monotonic()
        answer = get("locks?path=/x")
        assert answer["locks"] == [] and answer["unnamed"] == 3, answer
        assert "does not answer" in scene.daemon.wait_for_log("no names of files")
        tap.note(f"a question that is never answered ends a search after {time.monotonic() - start:.1f} s")


@tap.test
def thousands_of_files_are_named_and_searched():
    """NAM-01: 5,000 locked files: one list names them all, ?path= finds one of them, a release takes it; the namer is
    asked once for each file; no lock waits."""
    def answer(number, handle):
        return number + b" named /srv/" + (handle if handle.startswith(b"file-") else handle.hex().encode()) + b"\n"

    with PlayedNamer(answer) as namer, Scene() as scene:
        for i in range(5000):
            assert scene.beta.lock(b"file-%d" % i, svid=1) == "granted"
        start = time.monotonic()
        rows = get("locks?limit=10000")["locks"]
        tap.note(f"5,003 locks listed with their names in {time.monotonic() - start:.2f} s")
        named = {row["path"] for row in rows}
        assert {f"/srv/file-{i}" for i in range(5000)} <= named and len(named) == 5003, len(named)
        assert len(namer.asked) == 5003, len(namer.asked)
        start = time.monotonic()
        assert paths(by_path("locks", "/srv/file-4321")["locks"]) == ["/srv/file-4321"]
        tap.note(f"one of 5,003 files found by its path in {time.monotonic() - start:.2f} s")
        answer = ask("DELETE", "/api/v1/files?path=/srv/file-4321")
        assert answer.json["released"] == 1, answer.body
        page = get("locks?limit=10&sort=-file")
        expected = sorted((f"/srv/file-{i}" for i in range(5000) if i != 4321), reverse=True)
        assert [row["path"] for row in page["locks"]] == expected[:10] and page["total"] == 5002, page


@tap.test
def a_stop_while_a_list_waits_for_names():
    """NAM-01: the daemon stops at once, although a list and a release wait for a namer that hangs."""
    with PlayedNamer(lambda number, handle: None), Scene() as scene, contextlib.ExitStack() as stack:
        for command in (["curl", "-sS", "--max-time", "20", "http://127.0.0.1:8049/api/v1/locks"],
                        ["curl", "-sS", "--max-time", "20", "-X", "DELETE", "--unix-socket", "/run/holdfast/admin.sock",
                         "http://localhost/api/v1/files?path=/x"]):
            stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_until(lambda: get("status")["names"]["namer"] == "up", "a list asks")
        assert scene.daemon.stop() == 0
        scene.daemon.lines.clear()
        scene.daemon.start()


@tap.test
def a_release_by_path_takes_every_handle_of_the_file():
    """NAM-01, ADM-08: given locks by 200 handles of which the core cannot know that they are one file, a release by its path leaves
    none of them, and says how many there were."""
    with PlayedNamer(lambda number, handle: number + b" named " + (b"/one" if handle.startswith(b"one") else b"/other") + b"\n"), \
            Scene() as scene:
        for number in range(200):
            assert scene.alpha.lock(b"one %03d" % number, svid=1000 + number) == "granted"
        answer = ask("DELETE", "/api/v1/files?path=/one")
        assert answer.status == 200 and answer.json["released"] == 200, answer.body
        assert by_path("locks", "/one")["locks"] == []


@tap.test
def handles_of_two_exports_are_one_file():
    """COH-05: given Ganesha's handles of one file by 200 exports: one lock, one row, and a release by the path takes it and its
    waiter."""
    with Scene() as scene, scene.namesd():
        for export in range(1, 201):
            handle = scene.fh[:2] + export.to_bytes(2, "little") + scene.fh[4:]
            assert scene.beta.lock(handle, svid=1000 + export) == "denied"
            assert scene.alpha.lock(handle, svid=7) == "granted"  # the owner's own lock
        assert len(by_path("locks", scene.mail)["locks"]) == 1
        answer = ask("DELETE", f"/api/v1/files?path={quote(str(scene.mail))}")
        assert answer.status == 200 and answer.json["released"] == 2, answer.body


if __name__ == "__main__":
    netns.enter()
    tap.main()
