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


@tap.test
def a_token_that_cannot_be_used_stops_the_start():
    """A file that is missing, or a token that is too short: an error that names file and reason."""
    with TokenFile("short\n") as short:
        for setting, reason in ((short, "fewer than 16"), ("admin.token_file=/nonexistent", "No such file")):
            status, _, log = run("--set", "store.backend=memory", "--set", "rpcbind.mode=none", "--set", setting)
            assert status == 1 and "admin.token_file" in log and reason in log, log


@tap.test
def a_token_file_that_others_can_read_stops_the_start():
    """Mode 0644, 0604 or 0620: an error that says what to do. 0600 and 0640 are good."""
    for mode, good in ((0o644, False), (0o604, False), (0o620, False), (0o600, True), (0o640, True)):
        with TokenFile() as setting:
            os.chmod(setting.partition("=")[2], mode)
            if good:
                with Daemon(setting):
                    continue
            status, _, log = run("--set", "store.backend=memory", "--set", "rpcbind.mode=none", "--set", setting)
            assert status == 1 and "admin.token_file" in log and "chmod 0600" in log, log


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
