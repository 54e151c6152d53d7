#!/usr/bin/env python3
"""Who may look and who may change (SPEC SEC-10): the token, names, the unix socket, the log. Attacks: tests/hostile."""
import os
import socket
import stat
import subprocess
import sys
import tempfile

from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon, run
from world import ADMIN_PORT, SOCKET, Locker, ask, expect_problem, get

TOKEN = "a-token-of-some-length"
END = ("POST", "/api/v1/grace/end")
CHANGES = (END, ("POST", "/api/v1/notifications"), ("DELETE", "/api/v1/locks/1"),
           ("DELETE", "/api/v1/clients/1"), ("DELETE", "/api/v1/files/00"),
           ("POST", "/api/v1/clients/1/check"))
EVERYWHERE = f"admin.listen=0.0.0.0:{ADMIN_PORT}"


class TokenFile:
    def __init__(self, text=TOKEN + "\n"):
        self.text = text

    def __enter__(self):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".token")
        self.file.write(self.text)
        self.file.flush()
        return f"admin.token_file={self.file.name}"

    def __exit__(self, *_):
        self.file.close()


@tap.test
def without_a_token_tcp_may_only_look():
    """Every change over TCP, from another host or from this one, is refused with 403 and says what to do."""
    with Daemon(EVERYWHERE) as daemon:
        for change in CHANGES:
            for host, source in (("192.0.2.1", "192.0.2.2"), ("192.0.2.1", "192.0.2.1"), ("127.0.0.1", None)):
                detail = expect_problem(ask(*change, host=host, source=source, unix=False), 403)
                assert "admin.token_file" in detail and "holdfastctl" in detail
        assert get("status", host="192.0.2.1", source="192.0.2.2")["token_needed"] is False
        line = daemon.wait_for_log("operator refused")
        assert "192.0.2.2" in line and "/api/v1/grace/end" in line, line


@tap.test
def with_a_token_changes_need_it():
    """No token, a wrong one, one that is longer or shorter, another scheme: 401. The right one: done."""
    with TokenFile() as setting, Daemon(setting, EVERYWHERE):
        for change in CHANGES:
            expect_problem(ask(*change, unix=False), 401)
        for value in ("Bearer wrong-token-of-any-length", "Bearer " + TOKEN + "x", "Bearer " + TOKEN[:-1],
                      "Bearer ", "Basic " + TOKEN, TOKEN):
            answer = ask(*END, unix=False, Authorization=value)
            expect_problem(answer, 401)
            assert "Bearer" in answer.headers["WWW-Authenticate"]
        for host, source in (("127.0.0.1", None), ("192.0.2.1", "192.0.2.2")):
            assert ask(*END, host=host, source=source, unix=False, Authorization="Bearer " + TOKEN).status == 200
        assert get("status")["token_needed"] is True


@tap.test
def the_status_tells_whether_a_change_would_be_taken():
    """The page hides its buttons where changes are refused, and asks for a token only where one is missing."""
    with TokenFile() as setting, Daemon(setting):
        assert get("status")["changes"] == "with_token"
        assert get("status", Authorization="Bearer " + TOKEN[:-1])["changes"] == "with_token"
        assert get("status", Authorization="Bearer " + TOKEN)["changes"] == "allowed"
        assert get("status", unix=True)["changes"] == "allowed"
    with Daemon():
        assert get("status", Host="server.example")["changes"] == "refused"
        assert get("status", unix=True)["changes"] == "allowed"


def is_refused(setting, reason):
    """The daemon serves locks all the same, says what is wrong with the file, and takes no change over TCP;
    --check-config says it too, and fails."""
    with Daemon(setting) as daemon, Locker("alpha.example", "192.0.2.1") as alpha:
        line = daemon.wait_for_log("cannot use a token")
        assert "key=admin.token_file" in line and reason in line, line
        assert alpha.lock(b"file") == "granted"
        assert "cannot be used" in expect_problem(ask(*END, unix=False), 403)
        assert ask(*END, unix=True).status == 200
    status, _, log = run("--check-config", "--set", setting)
    assert status == 2 and "admin.token_file" in log and reason in log, (status, log)


@tap.test
def a_token_that_cannot_be_used_does_not_stop_locks():
    """ADM-09: a file that is missing, or a token that is too short: an error that names file and reason."""
    with TokenFile("short\n") as short:
        for setting, reason in ((short, "fewer than 16"), ("admin.token_file=/nonexistent", "No such file")):
            is_refused(setting, reason)


@tap.test
def a_token_file_that_others_can_read_is_not_used():
    """Mode 0644, 0604 or 0620: an error that says what to do. 0600 and 0640 are good."""
    for mode, good in ((0o644, False), (0o604, False), (0o620, False), (0o600, True), (0o640, True)):
        with TokenFile() as setting:
            os.chmod(setting.partition("=")[2], mode)
            if not good:
                is_refused(setting, "chmod 0600")
                continue
            with Daemon(setting):
                assert ask(*END, unix=False, Authorization="Bearer " + TOKEN).status == 200


# ---- levels ----

READ_TOKEN = "a-token-for-readers"
FILE_LISTS = ("locks?file=66", "locks?path=/x", "locks?sort=file", "locks?sort=-file", "waiters?file=66", "waiters?path=/x",
              "reservations?file=66", "reservations?path=/x")


def as_reader(path, **headers):
    return ask("GET", "/api/v1/" + path, unix=False, **headers)


@tap.test
def each_level_sees_and_does_what_the_table_says():
    """ADM-09: a reader sees locks without their files, told apart by numbers; with the reading token, or the other one,
    also the files; only the other one changes something."""
    with TokenFile(READ_TOKEN + "\n") as reading, TokenFile() as setting, \
            Daemon(setting, reading.replace("token_file", "read_token_file")), Locker("alpha.example", "192.0.2.1") as alpha:
        for name in (b"file", b"file", b"other"):
            assert alpha.lock(name, svid=1) == "granted"
            assert alpha.lock(name, svid=2, block=True) == "blocked"
        locks, waiters = (as_reader(kind).json[kind] for kind in ("locks", "waiters"))
        assert {row["path_status"] for row in locks + waiters} == {"hidden"}
        assert {row["path"] for row in locks + waiters} == {None}
        assert len({row["file"] for row in locks}) == 2 and {row["file"] for row in locks} == {row["file"] for row in waiters}
        assert b"66696c65" not in as_reader("locks").body, "a handle"
        for path in FILE_LISTS:
            assert "shown with a token" in expect_problem(as_reader(path), 401), path
        for text in (b"file".hex(), "666"):  # a search is no way round: it looks at files only where they are shown
            assert as_reader(f"locks?search={text}").json["locks"] == as_reader(f"waiters?search={text}").json["waiters"] == []
        for token, level in ((READ_TOKEN, "with_token"), (TOKEN, "allowed")):
            headers = {"Authorization": "Bearer " + token}
            assert {row["file"] for row in as_reader("locks", **headers).json["locks"]} == {b"file".hex(), b"other".hex()}
            assert as_reader("locks?file=66", **headers).status == 200
            assert len(as_reader(f"locks?search={b'file'.hex()}", **headers).json["locks"]) == 1
            status = as_reader("status", **headers).json
            assert (status["files"], status["changes"]) == ("allowed", level)
        assert as_reader("status").json["files"] == "with_token"
        for change in CHANGES + (("GET", "/api/v1/backup"),):
            expect_problem(ask(*change, unix=False, Authorization="Bearer " + READ_TOKEN), 401)


@tap.test
def a_session_stands_for_a_token_until_the_daemon_ends():
    """ADM-09: the id of a session is worth as much as the token it was begun with, or less if asked so; in this process
    only, and until it is ended. A reader gets none."""
    with TokenFile() as setting, Daemon(setting) as daemon:
        expect_problem(ask("POST", "/api/v1/session", unix=False), 401)
        token = {"Authorization": "Bearer " + TOKEN}
        begun = ask("POST", "/api/v1/session", unix=False, **token)
        assert begun.status == 201 and begun.json["level"] == "changes", begun.body
        assert begun.json["page"] == f"http://127.0.0.1:{ADMIN_PORT}/"
        whole = {"Authorization": "Bearer " + begun.json["session"]}
        less = ask("POST", "/api/v1/session", '{"level": "files"}', unix=False, **token).json
        reading = {"Authorization": "Bearer " + less["session"]}
        assert ask(*END, unix=False, **whole).status == 200
        expect_problem(ask(*END, unix=False, Origin="http://evil.example", **whole), 403)
        assert as_reader("locks?file=66", **reading).status == 200
        expect_problem(ask(*END, unix=False, **reading), 401)
        expect_problem(ask("POST", "/api/v1/session", '{"level": "changes"}', unix=False, **reading), 401)
        expect_problem(ask("POST", "/api/v1/session", '{"level": "everything"}', unix=False, **token), 400)
        assert ask("DELETE", "/api/v1/session", unix=False, **reading).status == 200
        expect_problem(as_reader("locks?file=66", **reading), 401)
        assert "level=changes" in daemon.wait_for_log("operator: session")
        by_root = ask("POST", "/api/v1/session", unix=True).json
        assert by_root["level"] == "changes"
    with TokenFile() as setting, Daemon(setting):
        expect_problem(ask(*END, unix=False, **whole), 401)
        assert get("status", **whole)["files"] == "with_token"


@tap.test
def our_own_page_changes_with_the_token():
    """A browser that shows our page sends its Origin, which is what Host says."""
    ours = f"127.0.0.1:{ADMIN_PORT}"
    with TokenFile() as setting, Daemon(setting):
        for host in (ours, "localhost", "proxy.example:8443"):
            assert ask(*END, unix=False, Host=host, Origin="http://" + host,
                       Authorization="Bearer " + TOKEN).status == 200


@tap.test
def looks_are_answered_under_our_own_names():
    """localhost, a loopback address, the address asked, and server.name, with any port or none."""
    with Daemon(EVERYWHERE):
        for host in ("localhost", "LOCALHOST:9999", "127.0.0.1", "127.0.0.1:8049", "[::1]:8049", "server.example",
                     "Server.Example:8049", "server"):
            assert ask("GET", "/healthz", Host=host).status == 200, host
        assert ask("GET", "/healthz", host="192.0.2.1", Host="192.0.2.1").status == 200


@tap.test
def the_unix_socket_trusts_root_and_itself():
    """Root may change there, with or without a token configured; another user may only look."""
    as_nobody = """if True:
        import os
        from world import ask
        os.setuid(65534)
        print(ask("GET", "/api/v1/status", unix=True).status, ask("POST", "/api/v1/grace/end", unix=True).status)
    """
    with TokenFile() as setting:
        for settings, refusal in (([], 403), ([setting], 401)):
            with Daemon(*settings) as daemon:
                assert ask(*END, unix=True).status == 200
                done = subprocess.run([sys.executable, "-c", as_nobody], stdout=subprocess.PIPE, check=True,
                                      cwd=os.path.dirname(os.path.abspath(__file__)))
                assert done.stdout.split() == [b"200", b"%d" % refusal], done.stdout
                assert "uid 65534" in daemon.wait_for_log("operator refused")
        assert not os.path.exists(SOCKET), "left behind"


@tap.test
def the_log_says_who_did_what():
    """Each change leaves a line with who, what and to whom."""
    with TokenFile() as setting, Daemon(setting) as daemon, Locker("alpha.example", "192.0.2.1") as alpha:
        assert alpha.lock(b"file") == "granted"
        lock = get("locks")["locks"][0]["id"]
        ask("DELETE", f"/api/v1/locks/{lock}", unix=False, Authorization="Bearer " + TOKEN)
        line = daemon.wait_for_log("does=")
        assert "who=127.0.0.1:" in line and "release lock" in line and lock in line, line
        client = get("clients")["clients"][0]["id"]
        ask("DELETE", f"/api/v1/clients/{client}", unix=True)
        assert f"uid {os.getuid()} pid" in daemon.wait_for_log("does=", times=2)


@tap.test
def a_stale_socket_is_replaced_and_a_live_one_left_alone():
    """What a killed daemon left is taken over; where one listens, the second does without."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "admin.sock")
        left = socket.socket(socket.AF_UNIX)
        left.bind(path)
        left.close()
        with Daemon(f"admin.socket={path}"):
            assert stat.S_ISSOCK(os.stat(path).st_mode)
            with Daemon(f"admin.socket={path}", "server.port=4046", "admin.listen=") as second:
                assert path in second.wait_for_log("no administration here")


@tap.test
def off_means_off():
    """With neither address nor socket, nothing listens, and nothing is timed."""
    with Daemon("admin.listen=", "admin.socket=") as daemon:
        try:
            ask("GET", "/healthz")
        except ConnectionError:
            pass
        else:
            raise AssertionError("a server listens")
        assert not os.path.exists(SOCKET) and "administration" not in daemon.log()


if __name__ == "__main__":
    netns.enter()
    tap.main()
