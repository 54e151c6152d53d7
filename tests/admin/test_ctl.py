#!/usr/bin/env python3
"""holdfastctl (ADM-04): each command, its tables, its JSON, its exit codes; check against hosts dead and alive."""
import contextlib
import http.server
import json
import os
import pty
import re
import socket
import subprocess
import tempfile
import threading
import unicodedata
import urllib.parse
from pathlib import Path

from ctl_program import CTL, NOT_FOUND, OK, REFUSED, TROUBLE, UNREACHABLE, USAGE, ctl, ctl_ok, on_terminal
from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon
from world import NLM, NSM, Host, Locker, ask, get, monitor

COMPLETION = Path(__file__).parents[2] / "packaging/completion/holdfastctl.bash"
FILE = b"\x01\x02file-of-test"


class Scene:
    """alpha holds the file, beta waits for it."""

    def __enter__(self):
        self.daemon = Daemon("rpcbind.mode=embedded", "server.listen=192.0.2.1,127.0.0.1",
                             "notify.timeout=1").start()
        self.alpha = Locker("alpha.example", "192.0.2.3")
        self.beta = Locker("beta.example", "192.0.2.2")
        assert self.alpha.lock(FILE, svid=7) == "granted"
        assert self.beta.lock(FILE, svid=8, block=True) == "blocked"
        return self

    def __exit__(self, *failure):
        self.alpha.client.close()
        self.beta.client.close()
        self.daemon.__exit__(*failure)


@tap.test
def status_clients_locks_and_waiters():
    """ADM-04: status, clients, locks and waiters show the scene, in tables and in JSON."""
    with Scene() as scene:
        assert "server.example" in (out := ctl_ok("status")) and "1 on 1 files, 1 waiting" in out, out
        out = ctl_ok("clients")
        assert "alpha.example" in out and "192.0.2.2" in out and out.startswith("ID")
        out = ctl_ok("locks")
        assert FILE.hex() in out and "whole file" in out and "7@alpha.example" in out, out
        out = ctl_ok("waiters")
        head, row = out.splitlines()
        assert head.split()[:3] == ["CLIENT", "OWNER", "WAITED"] and "HELD BY" in head, out
        assert row.startswith("beta.example (192.0.2.2)  8@beta.example") and FILE.hex() in row, out
        assert "exclusive  alpha.example (192.0.2.3)" in row and "behind" not in row, out
        assert json.loads(ctl_ok("--json", "waiters"))[0]["blocker"]["client"]["name"] == "alpha.example"
        assert "alpha.example" in ctl_ok("waiters", "--client", "beta", "--owner", "8")  # filters choose waiters
        assert json.loads(ctl_ok("status", "--json"))["counts"]["locks"] == 1
        assert json.loads(ctl_ok("--json", "waiters"))[0]["client"]["name"] == "beta.example"
        assert len(json.loads(ctl_ok("locks", "--json", "--client", "alpha"))) == 1
        assert json.loads(ctl_ok("locks", "--json", "--owner", "8@beta")) == []
        assert scene.alpha.lock(b"\x01\x02another-file", svid=7) == "granted"
        assert len(json.loads(ctl_ok("locks", "--json", "--file", "0102", "--limit", "2"))) == 2
        assert len(json.loads(ctl_ok("locks", "--json", "--file", "0102", "--limit", "1"))) == 1
        for url in ("http://127.0.0.1:8049", "http://127.0.0.1:8049/"):  # as the README and a browser write it
            assert "alpha.example" in ctl_ok("--url", url, "clients")


@contextlib.contextmanager
def answering(pages):
    """The URL of a server that is no holdfastd: pages of a list, by their cursor."""
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            cursor = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get("cursor", ["0"])[0]
            body = json.dumps(pages[cursor]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@tap.test
def a_list_of_several_pages():
    """ADM-04: ages are told in two units, of which the second is less than one of the first; and rows that are left out are
    counted over all pages."""
    lock = {"id": "1", "client": {"id": "1", "name": "alpha"}, "owner": {"svid": 1, "text": "", "handle": "aa"}, "file": "0a",
            "range": {"first": "0"}, "mode": "exclusive", "export": "default", "waiters": 0}
    ages = {59: "59s", 3599: "59m 59s", 7500: "2h 05m", 180000: "2d 02h"}
    rows = [lock | {"held_seconds": age} for age in ages]
    pages = {"0": {"locks": rows[:2], "unnamed": 2, "next": "7"}, "7": {"locks": rows[2:], "unnamed": 1, "next": None}}
    with answering(pages) as url:
        status, out, err = ctl("--url", url, "locks")
    assert status == OK and all(age in out for age in ages.values()), (out, err)
    assert "no path is known for their file: 3 locks" in err, err


@tap.test
def a_long_path_is_cut_between_two_characters():
    """ADM-04: of a path that is too long for a line its beginning and its end are shown, whole characters of them."""
    lock = {"id": "1", "client": {"id": "1", "name": "alpha"}, "owner": {"svid": 1, "text": "", "handle": "aa"}, "file": "0a",
            "range": {"first": "0"}, "mode": "exclusive", "export": "default", "waiters": 0, "held_seconds": 1, "path_status": "named"}
    rows = [lock | {"path": "/" + "x" * more + "\u20ac" * 200 + "y" * other} for more in range(3) for other in range(3)]
    with answering({"0": {"locks": rows, "unnamed": 0, "next": None}}) as url:
        done = subprocess.run([CTL, "--url", url, "locks", "--wide"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    shown = re.findall(r"/x*\u20ac+\.\.\.\u20ac+y*", done.stdout.decode())  # which fails where a character was cut
    assert len(shown) == len(rows), done.stdout
    assert all(70 < len(path) < 120 for path in shown), shown


@tap.test
def grace_is_held_for_a_number_of_seconds():
    """ADM-04: no number, none at all or too long a one is not taken for the end of holding."""
    with Daemon():
        for seconds in ("", "x", "1x", "-1", "10000"):
            assert ctl("grace", "hold", seconds)[0] == USAGE, seconds


@tap.test
def why_ends_in_a_long_chain():
    """Given 300 owners, each of which waits for the next, `why` shows the first of them and says that there are more."""
    with Daemon(), Locker("alpha.example", "192.0.2.2") as alpha:
        for number in range(300):
            assert alpha.lock(b"chain %03d" % number, svid=1 + number) == "granted"
        for number in range(299):
            assert alpha.lock(b"chain %03d" % (number + 1), svid=1 + number, block=True) == "blocked"
        out = ctl_ok("why", b"chain 001".hex())
        assert "the chain is longer than is shown" in out and out.count("its owner waits itself") < 60, out[-2000:]
        assert max(map(len, out.splitlines())) < 400


@tap.test
def why_leads_to_the_root():
    """ADM-04: `why` follows a wait over an owner that waits itself, names every lock in the way and the whole queue, and tells
    what to do; for a client, a path or a handle; in JSON too."""
    with Scene() as scene, Locker("gamma.example", "192.0.2.1") as gamma:
        other = b"other-file"
        for svid in range(20, 26):
            assert gamma.lock(other, svid=svid, exclusive=False) == "granted"
        assert scene.alpha.lock(other, svid=7, block=True) == "blocked"
        assert gamma.lock(FILE, svid=30, block=True) == "blocked"
        out = ctl_ok("why", "beta.example")
        assert re.search(rf"^{FILE.hex()}\n  held:\n    lock \d+  alpha.example \(192.0.2.3\)  7@alpha.example  whole file, "
                         r"exclusive  held \d+s, last heard from \d+s ago\n", out), out
        assert re.search(rf"its owner waits itself, for {other.hex()}  whole file, exclusive  waited \d+s:\n", out), out
        roots = re.findall(r"^      lock (\d+)  gamma.example \(192.0.2.1\)  2\d@gamma.example  whole file, shared", out, re.M)
        assert len(roots) == 6, out
        assert re.search(r"    1  beta.example .*\n    2  gamma.example \(192.0.2.1\)  30@gamma.example", out), out
        assert f"holdfastctl release --lock {roots[0]}\n" in out and "alpha" not in out.partition("what you can do")[2], out
        ageless = [re.sub(r"\b\d+s\b", "", ctl_ok("why", word)) for word in (FILE.hex(), "192.0.2.2")]
        assert ageless[0] == ageless[1], ageless
        assert "and 5 more in the way" in ctl_ok("why", other.hex(), "--limit", "1")
        said = json.loads(ctl_ok("why", other.hex(), "--json"))
        assert [len(row["blockers"]) for row in said[0]] == [6] and said[0][0]["client"]["name"] == "alpha.example", said
        status, out, err = ctl("why", "delta.example")
        assert (status, out) == (NOT_FOUND, "") and "delta.example" in err, err
        assert ctl("why")[0] == USAGE


@tap.test
def tables_are_aligned():
    """Every column begins at the same place in each line."""
    with Scene():
        head, *rows = ctl_ok("clients").splitlines()
        for title in ("NAME", "ADDRESS", "BY", "LOCKS", "NOTICE"):
            at = head.index(title)
            assert all(row[at - 1] == " " and row[at] != " " for row in rows), (title, head, rows)


@tap.test
def tables_fit_the_terminal():
    """On a narrow terminal long texts lose their middle; --wide, --json and a pipe have all of them."""
    name = "render-node-0042.cluster-b.building-7.engineering.example.com"
    handle = bytes(range(64))
    with Daemon(), Locker(name, "192.0.2.2") as locker, Locker("straße-käse-日本語-" + "x" * 40 + ".example", "192.0.2.3") as other:
        assert locker.lock(handle, svid=5) == "granted" and other.lock(b"other", svid=6) == "granted"
        assert locker.lock(b"other", svid=7, block=True) == "blocked"
        for command in ("locks", "clients", "waiters"):
            for columns in (100, 140):
                lines = on_terminal(columns, command).splitlines()
                assert all(columns_of(line) <= columns for line in lines), "\n".join(lines)
        out = on_terminal(120, "locks")
        assert name not in out and re.search(r"render-\S*….*2\.0\.2\.2\)|render-\S*…\S* \(192\.0\.2\.2\)", out), out
        assert [lock["id"] for lock in get("locks")["locks"] if lock["id"] not in out] == [], out
        for whole in (on_terminal(120, "locks", "--wide"), on_terminal(500, "locks"), on_terminal(80, "--json", "locks"), ctl_ok("locks")):
            assert name in whole and handle.hex() in whole, whole
        assert "~" in on_terminal(100, "locks", LC_ALL="C")


def columns_of(line):
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


@tap.test
def colours_only_on_a_terminal():
    """On a terminal there are colours, unless NO_COLOR is set; in a pipe there are none."""
    def on_terminal(**env):
        master, slave = pty.openpty()
        subprocess.run([CTL, "status"], stdin=subprocess.DEVNULL, stdout=slave, check=True, env=os.environ | env)
        os.close(slave)
        text = os.read(master, 65536)
        os.close(master)
        return text

    with Scene():
        assert b"\033[32m" in on_terminal()
        assert b"\033[" not in on_terminal(NO_COLOR="1")
        assert "\033" not in ctl_ok("status")


@tap.test
def hostile_names_do_not_steer_the_terminal():
    """A name with escape sequences is shown without them."""
    with Daemon(), Locker(b"\033[31mred\033]0;title\007", "192.0.2.1") as client:
        assert client.lock(FILE) == "granted"
        assert "\033" not in ctl_ok("clients") and "\007" not in ctl_ok("locks")
    c1 = "".join(map(chr, range(0x80, 0xa0)))  # control characters of two bytes in UTF-8; 0x9b begins a sequence as ESC [ does
    lock = {"id": "1", "client": {"id": "1", "name": f"red{c1}"}, "owner": {"svid": 1, "text": "", "handle": "aa"}, "file": "0a",
            "range": {"first": "0"}, "mode": "exclusive", "export": "default", "waiters": 0, "held_seconds": 1}
    with answering({"0": {"locks": [lock], "unnamed": 0, "next": None}}) as url:
        out = ctl_ok("--url", url, "locks")
    assert "red" + "??" * len(c1) in out and not set(c1) & set(out), out


@tap.test
def watch_shows_it_again():
    """--watch prints it again until it is stopped."""
    with Scene():
        watching = subprocess.Popen([CTL, "--watch", "status"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        seen = b""
        while seen.count(b"server.example") < 2:
            seen += os.read(watching.stdout.fileno(), 4096)
        watching.terminate()
        watching.wait()
        watching.stdout.close()


@tap.test
def release_asks_and_tells():
    """Without --yes and without a terminal: refused. With --yes: released, and the waiter that was granted is
    named."""
    with Host("192.0.2.2"), Scene():
        lock = get("locks")["locks"][0]["id"]
        status, _, err = ctl("release", "--lock", lock)
        assert status == REFUSED and "--yes" in err and get("locks")["locks"][0]["id"] == lock
        out = ctl_ok("release", "--lock", lock, "--yes")
        assert "Released 1." in out and "Granted to: beta.example (192.0.2.2)" in out, out
        assert ctl("release", "--lock", lock, "--yes")[0] == NOT_FOUND
        assert "Released" in ctl_ok("release", "--client", "beta.example", "--yes")
        assert ctl("release", "--client", "nobody", "--yes")[0] == NOT_FOUND


@tap.test
def release_does_not_widen_what_was_asked():
    """Given a filter that release does not have, it refuses: it would release more than was meant."""
    with Scene():
        for narrower in (("--address", "192.0.2.9"), ("--share", "other"), ("--limit", "1")):
            status, out, err = ctl("release", "--client", "alpha.example", *narrower, "--yes")
            assert status == USAGE and narrower[0] in err and not out, (status, out, err)
        for second in (("--file", FILE.hex()), ("--lock", get("locks")["locks"][0]["id"])):  # one of the two would be passed over
            assert ctl("release", "--client", "alpha.example", *second, "--yes")[0] == USAGE, second
        status, _, err = ctl("release", "--file", "plan.txt", "--yes")
        assert status == USAGE and "in hex" in err, err
        assert len(get("locks")["locks"]) == 1


@tap.test
def release_takes_yes_from_a_terminal():
    """At a terminal it asks: n changes nothing, y releases."""
    def answer(text):
        master, slave = pty.openpty()
        os.write(master, text)
        done = subprocess.run([CTL, "release", "--file", FILE.hex()], stdin=slave, stdout=subprocess.PIPE)
        os.close(master)
        os.close(slave)
        assert b"[y/N]" in done.stdout
        return done.returncode

    with Scene():
        assert answer(b"n\n") == REFUSED and get("locks")["locks"]
        assert answer(b"y\n") == OK and not get("locks")["locks"]


@tap.test
def grace_and_notify():
    """grace follows the period to its end, grace end ends it; notify sends the notice again and reports the
    result."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, Host("192.0.2.2"):
        store = ("store.backend=lmdb", f"store.path={folder}")
        with Daemon(*store), Locker("beta.example", "192.0.2.2") as beta:
            assert beta.lock(FILE) == "granted"
            assert "no grace period" in ctl_ok("grace")
        with Daemon(*store):
            assert json.loads(ctl_ok("grace", "--json"))["active"] is True
            assert ctl("grace", "end")[0] == REFUSED
            assert ": delivered" in ctl_ok("notify", "beta.example") and "1 delivered" in ctl_ok("notify")
            assert "1 released unreclaimed" in ctl_ok("grace", "end", "--yes")
            assert "There was no grace" in ctl_ok("grace", "end", "--yes")
            assert ctl("notify", "nobody")[0] == NOT_FOUND


@tap.test
def a_notice_that_fails_is_an_error():
    """Given a client that is gone, notify CLIENT says why and exits with 5; so does notify, which tells all."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, Host("192.0.2.2"):
        settings = ("store.backend=lmdb", f"store.path={folder}", "notify.timeout=1", "notify.attempts=1", "notify.on_failure=keep")
        with Daemon(*settings), Locker("beta.example", "192.0.2.2") as beta, Locker("gone.example", "192.0.2.3") as gone:
            assert beta.lock(FILE) == "granted" and gone.lock(b"other") == "granted"
        with Daemon(*settings):
            assert "notice to beta.example (192.0.2.2): delivered" in ctl_ok("notify", "beta.example")
            status, out, _ = ctl("notify", "gone.example")
            assert status == TROUBLE and "gone.example (192.0.2.3): failing" in out and "refused" in out, (status, out)
            status, out, _ = ctl("notify", "gone.example", "--json")
            assert status == TROUBLE and json.loads(out)["status"] == "failing", (status, out)
            status, out, _ = ctl("notify")
            assert status == TROUBLE and "1 delivered" in out and "1 failing" in out, (status, out)


# ---- check ----

def check(client):
    status, out, err = ctl("check", client, "--json")
    assert err == "", err
    answer = json.loads(out)
    return status, {step["step"]: step for step in answer["steps"]}


@tap.test
def check_of_a_client_that_is_well():
    """Every step answers, and the summary says so."""
    with Host("192.0.2.2"), Scene():
        status, steps = check("beta.example")
        assert status == OK and all(step["ok"] for step in steps.values()), steps
        assert list(steps) == ["rpcbind", "nlm", "nsm", "reverse"]
        assert "can be called back" in ctl_ok("check", "192.0.2.2")


@tap.test
def check_of_a_client_that_does_not_find_us():
    """ADM-10: given a client that is well, and no rpcbind here, it can be called back, and that is said; what fails is its
    way to us."""
    with Host("192.0.2.2"), Daemon("rpcbind.mode=none"), Locker("beta.example", "192.0.2.2") as beta:
        assert beta.lock(FILE) == "granted"
        status, out, _ = ctl("check", "beta.example")
        assert status == TROUBLE and "This host can be called back. It does not find us" in out, out


@tap.test
def check_of_a_client_that_is_dead():
    """Nothing answers: each step says what failed and how to repair it; our own side is fine."""
    with Scene():
        status, steps = check("beta.example")
        assert status == TROUBLE and not any(steps[name]["ok"] for name in ("rpcbind", "nlm", "nsm"))
        assert "port 111: start rpcbind" in steps["rpcbind"]["advice"] and steps["reverse"]["ok"], steps
        for name in ("rpcbind", "nlm", "nsm"):  # the host answers that nothing listens: no firewall is in the way
            assert "refused" in steps[name]["finding"] and "firewall" not in steps[name]["advice"], steps[name]
        status, out, _ = ctl("check", "beta.example")
        assert status == TROUBLE and "FAIL" in out and "advice: " in out and "cannot be called back" in out


@tap.test
def check_of_a_client_behind_a_firewall():
    """ADM-04: Nothing comes back, not even a refusal: the advice names the firewall."""
    with silent("192.0.2.2", 111), Scene():
        _, steps = check("beta.example")
        assert not steps["rpcbind"]["ok"] and "firewall" in steps["rpcbind"]["advice"], steps


@contextlib.contextmanager
def silent(address, port):
    """UDP and TCP of a port that never answer, as behind a firewall that drops."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.create_server((address, port)):
        udp.bind((address, port))
        yield


@tap.test
def check_of_a_host_that_has_no_lock_yet():
    """By address or by name, for a host that is no client: the same steps, and what is missing."""
    with netns.names("192.0.2.2 later.example"), Host("192.0.2.2", programs=(NLM,)), Daemon():
        for word in ("192.0.2.2", "later.example"):
            status, steps = check(word)
            assert status == TROUBLE and list(steps) == ["rpcbind", "nlm", "nsm"], steps
            assert steps["rpcbind"]["ok"] and steps["nlm"]["ok"] and "rpc.statd" in steps["nsm"]["advice"], steps
        assert "cannot be called back" in ctl("check", "later.example")[1]
        status, _, err = ctl("check", "nowhere.example")
        assert status == NOT_FOUND and "nor a name" in err, err


@tap.test
def check_of_an_address_with_two_clients():
    """ADM-04: A name whose address two clients come from means neither of them: the host itself is checked."""
    with netns.names("192.0.2.2 shared.example"), Host("192.0.2.2"), Scene(), Locker("gamma.example", "192.0.2.2") as gamma:
        assert gamma.lock(b"another-file", svid=9) == "granted"
        _, steps = check("shared.example")
        assert list(steps) == ["rpcbind", "nlm", "nsm"], steps


@tap.test
def check_of_a_client_without_a_status_monitor():
    """rpcbind and the lock manager answer; the missing rpc.statd is named."""
    with Host("192.0.2.2", programs=(NLM,)), Scene():
        status, steps = check("beta.example")
        assert status == TROUBLE and steps["nlm"]["ok"] and not steps["nsm"]["ok"]
        assert "not registered" in steps["nsm"]["finding"] and "rpc.statd" in steps["nsm"]["advice"]


@tap.test
def check_of_a_registration():
    """A registration by SM_MON is checked at the address it came from, with the program it named."""
    with Host("192.0.2.2", programs=(NSM,)), Scene():
        assert monitor("server.example", source="192.0.2.2", server="192.0.2.1") == 0
        client = [c for c in get("clients")["clients"] if c["protocol"] == "nsm"][0]
        status, steps = check(client["id"])
        assert status == OK and steps["callback"]["ok"], steps


@tap.test
def check_of_a_registration_from_this_host():
    """Given a kernel's SM_MON and no locks of ours: the monitored host is not called from 127.0.0.1, which
    would not reach it; and the step checks our status monitor, not a lock manager."""
    with Host("192.0.2.2") as peer, Daemon("rpcbind.mode=embedded", "server.listen=192.0.2.1,127.0.0.1",
                                           "server.programs=nsm"):
        assert monitor("192.0.2.2") == 0
        status, steps = check("192.0.2.2")
        assert status == OK and "status monitor" in steps["reverse"]["finding"], steps
        assert peer.wait_for(lambda c: c.prog == NSM).source[0] != "127.0.0.1"


# ---- doctor ----

@contextlib.contextmanager
def host_state(mounts="", commands=()):
    """A /proc with these mounts and these programs, for doctor to look at."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        (Path(folder) / "self").mkdir()
        (Path(folder) / "self/mounts").write_text("proc /proc proc rw 0 0\n" + mounts)
        for pid, command in enumerate(commands, 100):
            (Path(folder) / str(pid)).mkdir()
            (Path(folder) / str(pid) / "comm").write_text(command + "\n")
        yield {"HOLDFAST_PROC": folder}


def doctor(env):
    """(exit status, findings by check: a list of (level, finding and advice))"""
    status, out, _ = ctl("doctor", "--json", env=env)
    found = {}
    for finding in json.loads(out):
        assert (finding["advice"] is None) == (finding["level"] == "ok"), finding
        found.setdefault(finding["check"], []).append((finding["level"], f"{finding['finding']}; {finding['advice']}"))
    return status, found


def levels(found):
    return {check: {level for level, _ in findings} for check, findings in found.items()}


WELL = ("rpcbind.mode=embedded", "server.listen=192.0.2.1,127.0.0.1", "server.name=server.example")


@tap.test
def doctor_finds_a_host_well():
    """Everything in order: each check says ok, but the clock of a test machine is its own affair."""
    with netns.names("192.0.2.1 server.example"), host_state() as env, Daemon(*WELL):
        status, found = doctor(env)
        assert status == OK, found
        assert levels(found) | {"clocks": {"ok"}} == {check: {"ok"} for check in (
            "daemon", "store", "losses", "ports", "rpcbind", "lock managers", "local mounts", "clocks", "name")}, found
        assert len(found["rpcbind"]) == 4 and len(found["ports"]) == 2, found
        shown = ctl("doctor", env=env)[1]
        assert "ok    rpcbind        rpcbind sends clients to port 4045 for the lock manager (NLM) over UDP" in shown, shown


@tap.test
def doctor_knows_a_status_monitor():
    """Given a client host whose kernel locks, with a mount by NFSv3, and the status monitor only (server.programs=nsm): all is well, and
    no advice is to unmount. A second status monitor is still a trouble."""
    nfs = "filer:/export /mnt/data nfs rw,vers=3,addr=192.0.2.9 0 0\n"
    with netns.names("192.0.2.1 server.example"), host_state(nfs, ("lockd", "nfsd")) as env, Daemon(*WELL, "server.programs=nsm"):
        status, found = doctor(env)
        assert status == OK and set().union(*(levels(found) | {"clocks": {"ok"}}).values()) == {"ok"}, found
        assert "the kernel's here" in found["ports"][0][1] and "local mounts" not in found, found
    with netns.names("192.0.2.1 server.example"), host_state(nfs, ("lockd", "rpc.statd")) as env, Daemon(*WELL, "server.programs=nsm"):
        found = doctor(env)[1]
        assert levels(found)["lock managers"] == {"warn"} and "disable --now rpc-statd" in found["lock managers"][0][1], found


@tap.test
def doctor_names_each_trouble():
    """No rpcbind; another lock manager at it; local NFSv3 mounts; a name without an address, or a loopback one; no daemon."""
    with host_state() as env:
        with Daemon("rpcbind.mode=none"), netns.names("127.0.1.1 server.example"):
            status, found = doctor(env)
            assert status == TROUBLE and found["rpcbind"] == [("FAIL", found["rpcbind"][0][1])], found
            assert "no rpcbind runs" in found["rpcbind"][0][1] and "rpcbind.mode=embedded" in found["rpcbind"][0][1]
            assert levels(found)["name"] == {"warn"} and "loopback address only" in found["name"][0][1], found
            assert "as Debian's installer writes it" in found["name"][0][1], found
        with Daemon("rpcbind.mode=none"), netns.names(""), Host("127.0.0.1"):  # programs of another process are registered
            status, found = doctor(env)
            assert status == TROUBLE and levels(found)["rpcbind"] == {"FAIL"}, found
            assert "another lock manager" in found["rpcbind"][0][1] and "holdfastd is at 4045" in found["rpcbind"][0][1], found
            assert "rpc-statd" in found["rpcbind"][2][1] and "cannot be resolved" in found["name"][0][1], found
        with Daemon("rpcbind.mode=none"), netns.names(""), Host("127.0.0.1"):  # which one: by what runs here
            for commands, words, not_words in ((("bash", "ganesha.nfsd"), "Enable_NLM = false", "lockd"),
                                               (("lockd",), "the kernel's lockd", "Ganesha"),
                                               (("ganesha.nfsd", "lockd"), "or NFS-Ganesha's", "as it seems")):
                with host_state("", commands) as other:
                    advice = doctor(other)[1]["rpcbind"][0][1]
                    assert words in advice and not_words not in advice, (commands, advice)
        with netns.names("192.0.2.200 server.example"), Daemon(*WELL):
            status, found = doctor(env)
            assert status == OK and "no address of this host" in found["name"][0][1], found
        status, found = doctor(env)
        assert status == TROUBLE and levels(found)["daemon"] == {"FAIL"} and "name" not in found, found
        with Host("127.0.0.1"):  # the daemon is down, and another lock manager is registered
            status, found = doctor(env)
            assert levels(found)["rpcbind"] == {"FAIL"} and levels(found)["lock managers"] == {"warn"}, found
            assert "but holdfastd is down" in found["rpcbind"][0][1], found
        with Host("127.0.0.1", programs={100003}):
            assert "do not exclude each other" in doctor(env)[1]["NFSv4"][0][1]
        with Daemon(*WELL, "names.socket=/run/no-namer"), netns.names("192.0.2.1 server.example"):
            ask("GET", "/api/v1/locks?path=/x")
            status, found = doctor(env)
            assert status == OK and levels(found)["file names"] == {"warn"}, found
    nfs = "filer:/export /mnt/data nfs rw,vers=3,addr=192.0.2.9 0 0\n"
    for mounts, commands, check, level, words in (
            (nfs, (), "local mounts", "FAIL", "/mnt/data by NFSv3"),
            (nfs.replace("vers=3", "vers=3,nolock"), (), "local mounts", "ok", ""),
            (nfs.replace("nfs rw,vers=3", "nfs4 rw,vers=4.2"), (), "local mounts", "ok", ""),
            ("", ("bash", "rpc.statd"), "lock managers", "warn", "disable --now rpc-statd"),
            ("", ("lockd",), "lock managers", "warn", "nolock")):
        with host_state(mounts, commands) as env:
            _, found = doctor(env)
            assert levels(found)[check] == {level} and words in found[check][0][1], (mounts, commands, found)


# ---- what can go wrong ----

@tap.test
def mistakes_are_named():
    """Given a wrong input, the message names it and what would be right, and nothing else is done."""
    for arguments, status, words in (
            (["staus"], USAGE, ['"staus"', "--help"]),
            (["locks", "--sort", "foo"], USAGE, ["client", "held", "waiters"]),
            (["locks", "--limit", "0"], USAGE, ["above 0"]),
            (["locks", "--file"], USAGE, ["holdfastctl: option '--file'"]),
            (["locks", "--json", "--csv"], USAGE, ["exclude each other"]),
            (["grace", "hold", "3601"], USAGE, ["3600"]),
            (["release", "--lock", "12", "--yes"], NOT_FOUND, ["no such lock"]),
            (["release", "--file", "00ff", "--yes"], NOT_FOUND, ["Nothing is locked"]),
            (["--token-file", "/nonexistent", "grace", "end", "--yes"], USAGE, ["/nonexistent: No such file"]),
            (["--token-file", "/dev/null", "grace", "end", "--yes"], USAGE, ["no token in its first line"]),
            (["--url", "ftp://127.0.0.1", "status"], UNREACHABLE, ["rotocol"])):
        with Daemon() if arguments != ["staus"] else contextlib.nullcontext():
            found, out, err = ctl(*arguments)
            assert found == status and all(word in err for word in words), (arguments, found, err)
            assert len(err.splitlines()) <= 2 and not out, (arguments, out, err)


@tap.test
def exit_codes():
    """No daemon: 3. Wrong usage: 2. No such object: 4."""
    status, _, err = ctl("status")
    assert status == UNREACHABLE and "/run/holdfast/admin.sock" in err and "Is it running?" in err, err
    assert ctl("--url", "http://127.0.0.1:1", "status")[0] == UNREACHABLE
    for arguments in ([], ["frobnicate"], ["release"], ["release", "--lock", "x", "--yes"], ["check"],
                      ["status", "now"], ["--nonsense"], ["grace", "begin"], ["locks", "--limit", "few"],
                      ["locks", "--limit", ""], ["status", "--client", "x"], ["clients", "--lock", "1"]):
        assert ctl(*arguments)[0] == USAGE, arguments
    assert ctl("--help")[0] == OK and ctl("--version")[1].startswith("holdfastctl ")
    with Daemon():
        assert ctl("check", "nobody")[0] == NOT_FOUND


def complete(*words):
    """What bash offers for the last of the words."""
    script = f'source "{COMPLETION}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _holdfastctl; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script, "bash", "holdfastctl", *words], stdout=subprocess.PIPE, check=True,
                          env=os.environ | {"PATH": os.path.dirname(CTL) + ":" + os.environ["PATH"]})
    return done.stdout.decode().split()


@tap.test
def bash_completes():
    """Commands, options, and names from the daemon; a name that bash would expand is not offered."""
    with Scene(), tempfile.TemporaryDirectory() as folder, \
            Locker(f"$(touch {folder}/expanded)", "192.0.2.1") as hostile:
        assert hostile.lock(b"another file") == "granted"
        assert complete("st") == ["status"] and complete("--js") == ["--json"]
        assert complete("grace", "") == ["end", "hold"] and complete("exports", "") == ["release", "take-back"]
        assert sorted(complete("check", "")) == ["alpha.example", "beta.example"]
        assert complete("release", "--client", "al") == ["alpha.example"]
        assert complete("release", "--file", "0102") == [FILE.hex()]
        assert not os.listdir(folder), "a name was run as a command"


@tap.test
def the_token_goes_along():
    """ADM-03: over TCP a change needs --token-file; the unix socket needs none."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("sixteen-or-more-characters\n")
        file.flush()
        with Daemon(f"admin.token_file={file.name}"):
            url = ("--url", "http://127.0.0.1:8049", "--yes", "grace", "end")
            status, _, err = ctl(*url)
            assert status == REFUSED and "token" in err, err
            assert ctl("--token-file", file.name, *url)[0] == OK
            assert ctl("--yes", "grace", "end")[0] == OK


if __name__ == "__main__":
    netns.enter()
    tap.main()
