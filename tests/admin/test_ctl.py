#!/usr/bin/env python3
"""holdfastctl: each command, its tables, its JSON, its exit codes; check against hosts dead and alive."""
import json
import os
import pty
import subprocess
import tempfile
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_test.daemon import Daemon
from world import NLM, NSM, Host, Locker, get, monitor

CTL = os.environ.get("HOLDFASTCTL", "holdfastctl")
COMPLETION = Path(__file__).parents[2] / "packaging/completion/holdfastctl.bash"
OK, REFUSED, USAGE, UNREACHABLE, NOT_FOUND, TROUBLE = range(6)
FILE = b"\x01\x02file-of-test"


def ctl(*arguments, env=None):
    done = subprocess.run([CTL, *arguments], stdin=subprocess.DEVNULL, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | (env or {}))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def ctl_ok(*arguments):
    status, out, err = ctl(*arguments)
    assert status == OK and err == "", f"{arguments}: {status} {out} {err}"
    return out


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
def looks():
    """status, clients, locks and waiters say what is there, in tables and in JSON."""
    with Scene():
        assert "server.example" in (out := ctl_ok("status")) and "1 on 1 files, 1 waiting" in out, out
        out = ctl_ok("clients")
        assert "alpha.example" in out and "192.0.2.2" in out and out.startswith("ID")
        out = ctl_ok("locks")
        assert FILE.hex() in out and "whole file" in out and "7@alpha.example" in out, out
        out = ctl_ok("waiters")
        assert "beta.example (192.0.2.2)" in out and "lock " in out, out
        assert json.loads(ctl_ok("status", "--json"))["counts"]["locks"] == 1
        assert json.loads(ctl_ok("--json", "waiters"))[0]["client"]["name"] == "beta.example"
        assert len(json.loads(ctl_ok("locks", "--json", "--client", "alpha"))) == 1
        assert json.loads(ctl_ok("locks", "--json", "--owner", "8@beta")) == []
        assert json.loads(ctl_ok("locks", "--json", "--file", "0102", "--limit", "1"))
        for url in ("http://127.0.0.1:8049", "http://127.0.0.1:8049/"):  # as the README and a browser write it
            assert "alpha.example" in ctl_ok("--url", url, "clients")


@tap.test
def tables_are_aligned():
    """Every column begins at the same place in each line."""
    with Scene():
        head, *rows = ctl_ok("clients").splitlines()
        for title in ("NAME", "ADDRESS", "BY", "LOCKS", "NOTICE"):
            at = head.index(title)
            assert all(row[at - 1] == " " and row[at] != " " for row in rows), (title, head, rows)


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
    """Without --yes and without a terminal: refused. With it: released, and who was granted is named."""
    with Host("192.0.2.2"), Scene():
        lock = get("locks")["locks"][0]["id"]
        status, _, err = ctl("release", "--lock", lock)
        assert status == REFUSED and "--yes" in err and get("locks")["locks"][0]["id"] == lock
        out = ctl_ok("release", "--lock", lock, "--yes")
        assert "Released 1." in out and "Granted in turn: beta.example (192.0.2.2)" in out, out
        assert ctl("release", "--lock", lock, "--yes")[0] == NOT_FOUND
        assert "Released" in ctl_ok("release", "--client", "beta.example", "--yes")
        assert ctl("release", "--client", "nobody", "--yes")[0] == NOT_FOUND


@tap.test
def release_does_not_widen_what_was_asked():
    """Given a filter that release does not have, it refuses: it would release more than was meant."""
    with Scene():
        for narrower in (("--owner", "99"), ("--share", "other"), ("--limit", "1")):
            status, out, err = ctl("release", "--client", "alpha.example", *narrower, "--yes")
            assert status == USAGE and narrower[0] in err and not out, (status, out, err)
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
    """grace follows to its end, grace end ends it; notify sends again and reports."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, Host("192.0.2.2"):
        store = ("store.backend=lmdb", f"store.path={folder}")
        with Daemon(*store), Locker("beta.example", "192.0.2.2") as beta:
            assert beta.lock(FILE) == "granted"
            assert "no grace period" in ctl_ok("grace")
        with Daemon(*store):
            assert json.loads(ctl_ok("grace", "--json"))["active"] is True
            assert ctl("grace", "end")[0] == REFUSED
            assert "1 delivered" in ctl_ok("notify", "beta.example") and "1 delivered" in ctl_ok("notify")
            assert "1 released unreclaimed" in ctl_ok("grace", "end", "--yes")
            assert "There was no grace" in ctl_ok("grace", "end", "--yes")
            assert ctl("notify", "nobody")[0] == NOT_FOUND


# ---- check ----

def check(client):
    status, out, err = ctl("check", client, "--json")
    assert err == "", err
    answer = json.loads(out)
    return status, {step["step"]: step for step in answer["steps"]}


@tap.test
def check_of_a_client_that_is_well():
    """Every step answers, and it says so."""
    with Host("192.0.2.2"), Scene():
        status, steps = check("beta.example")
        assert status == OK and all(step["ok"] for step in steps.values()), steps
        assert list(steps) == ["rpcbind", "nlm", "nsm", "reverse"]
        assert "can be called back" in ctl_ok("check", "192.0.2.2")


@tap.test
def check_of_a_client_that_is_dead():
    """Nothing answers: each step says what does not, and how to mend it; our own side is well."""
    with Scene():
        status, steps = check("beta.example")
        assert status == TROUBLE and not any(steps[name]["ok"] for name in ("rpcbind", "nlm", "nsm"))
        assert "111" in steps["rpcbind"]["advice"] and steps["reverse"]["ok"], steps
        status, out, _ = ctl("check", "beta.example")
        assert status == TROUBLE and "FAIL" in out and "to mend it" in out and "cannot be called back" in out


@tap.test
def check_of_a_client_without_a_status_monitor():
    """rpcbind and the lock manager answer; the missing rpc.statd is named."""
    with Host("192.0.2.2", programs=(NLM,)), Scene():
        status, steps = check("beta.example")
        assert status == TROUBLE and steps["nlm"]["ok"] and not steps["nsm"]["ok"]
        assert "not registered" in steps["nsm"]["finding"] and "rpc.statd" in steps["nsm"]["advice"]


@tap.test
def check_of_a_registration():
    """An SM_MON is checked at the address it came from, with the program it named."""
    with Host("192.0.2.2", programs=(NSM,)), Scene():
        assert monitor("192.0.2.2") == 0
        client = [c for c in get("clients")["clients"] if c["protocol"] == "nsm"][0]
        status, steps = check(client["id"])
        assert status == OK and steps["callback"]["ok"], steps


@tap.test
def check_of_a_registration_from_this_host():
    """Given a kernel's SM_MON and no locks of ours: its peer is not called from 127.0.0.1, which would
    not get there; and it is our status monitor that must be found, not a lock manager."""
    with Host("192.0.2.2") as peer, Daemon("rpcbind.mode=embedded", "server.listen=192.0.2.1,127.0.0.1",
                                           "server.programs=nsm"):
        assert monitor("192.0.2.2", source="127.0.0.1", server="127.0.0.1") == 0
        status, steps = check("192.0.2.2")
        assert status == OK and "status monitor" in steps["reverse"]["finding"], steps
        assert peer.wait_for(lambda c: c.prog == NSM).source[0] != "127.0.0.1"


# ---- what can go wrong ----

@tap.test
def exit_codes():
    """No daemon: 3. Wrong usage: 2. No such thing: 4."""
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
        assert complete("grace", "") == ["end"]
        assert sorted(complete("check", "")) == ["alpha.example", "beta.example"]
        assert complete("release", "--client", "al") == ["alpha.example"]
        assert complete("release", "--file", "0102") == [FILE.hex()]
        assert not os.listdir(folder), "a name was run as a command"


@tap.test
def the_token_goes_along():
    """Over TCP a change needs --token-file; the unix socket needs none."""
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
