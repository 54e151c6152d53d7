#!/usr/bin/env python3
"""holdfast-namesd by itself (NAM-02): handles of nfsd and unfs3 as those make them, exports, renames, cold caches,
hostile askers."""
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time
from pathlib import Path

from holdfast_test import netns, tap
from holdfast_test.daemon import wait_until
from holdfast_test.names import (GREETING, SOCKET, Asker, Namesd, ganesha, kernel_handle, nfsd, program, resolve,
                                 unfs3)
from holdfast_test.tap import Skip


@contextlib.contextmanager
def folder(*parts):
    """A temporary directory, with these directories and files (those with a dot) below it."""
    with tempfile.TemporaryDirectory(prefix="holdfast-names-") as where:
        for part in parts:
            path = Path(where, part)
            (path.parent if "." in path.name else path).mkdir(parents=True, exist_ok=True)
            if "." in path.name:
                path.touch()
        yield Path(where)


@contextlib.contextmanager
def disk(where, kind="ext4", label="", megabytes=64):
    """A file system of its own in a file, mounted; mounting it again empties the kernel's caches of it."""
    image = f"{where}/{label or 'disk'}.img"
    mount = Path(where, label or "disk")
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run([f"mkfs.{kind}", "-q", image], check=True, stdout=subprocess.DEVNULL)

    def again(unmount=True):
        if unmount:
            netns.run("umount", mount)
        try:
            netns.run("mount", "-o", "loop", image, mount)
        except subprocess.CalledProcessError as why:
            raise Skip(f"no loop device: {why.output}") from None

    again(unmount=False)
    try:
        yield mount, again
    finally:
        subprocess.run(["umount", mount], check=False)


@tap.test
def handles_of_every_known_kind_have_their_path():
    """NAM-02: Ganesha's, nfsd's with each type of fsid, unfs3's in each layout; spaces, line breaks, bytes that are
    no UTF-8."""
    with folder("a/b") as export:
        for name in (b"plain", b"two words", b"line\nbreak", "ünïcode".encode(), b"\xff\xfe", b"back\\slash"):
            path = os.fsencode(export / "a/b") + b"/" + name
            os.close(os.open(path, os.O_CREAT))
            path = os.fsdecode(path)
            expected = f"{export}/a/b/" + {b"line\nbreak": "line\\x0abreak", b"\xff\xfe": "\\xff\\xfe",
                                           b"back\\slash": "back\\x5cslash"}.get(name, name.decode(errors="replace"))
            assert resolve(ganesha(path), export) == expected
            assert resolve(nfsd(path), export) == expected
        path = str(export / "a/b/plain")
        for fsid_type in range(8):
            assert resolve(nfsd(path, fsid_type), export) == path, fsid_type
        for layout in (21, 17, 13):
            assert resolve(unfs3(path, layout=layout), export) == path, layout


@tap.test
def a_renamed_file_has_its_new_name_and_a_deleted_one_none():
    """NAM-02: over the socket, without a restart; also from one directory to another, where unfs3's handle leads
    nowhere and the exports are searched."""
    with folder("a/x.txt", "b") as export, Namesd(export), Asker() as asker:
        old, near, far = (str(export / name) for name in ("a/x.txt", "a/y.txt", "b/z.txt"))
        handles = [ganesha(old), nfsd(old), unfs3(old)]

        def ask(handle):
            return asker.ask(b"path 5 " + handle.hex().encode() + b"\n")

        def names():
            return {ask(handle) for handle in handles}

        assert names() == {f"5 named {old}\n".encode()}
        os.rename(old, near)
        assert names() == {f"5 named {near}\n".encode()}
        os.rename(near, far)
        assert {ask(handle) for handle in handles[:2]} == {f"5 named {far}\n".encode()}
        wait_until(lambda: names() == {f"5 named {far}\n".encode()}, "the search finds the file that was moved")
        with open(far):
            os.unlink(far)
            assert {ask(handle) for handle in handles[:2]} == {b"5 deleted\n"}
        assert names() <= {b"5 unknown\n", b"5 later\n"}, names()


@tap.test
def nothing_outside_the_exports_has_a_name():
    """NAM-02: not by a handle of another directory, of a parent, through a symbolic link or a hard link's other name;
    nor a file whose inode another one has taken."""
    with folder("in/a.txt", "out/b.txt", "out/shared.txt", "in-not/c.txt") as where:
        export = where / "in"
        (export / "link").symlink_to(where / "out")
        os.link(where / "out/shared.txt", export / "inside.txt")
        for outside in ("out/b.txt", "in-not/c.txt", "out", "."):
            path = str(where / outside)
            assert resolve(ganesha(path), export) is None, path
            assert resolve(nfsd(path, 3), export) is None, path
            assert resolve(unfs3(path), export) is None, path
        for handle in (ganesha, nfsd, unfs3):  # the name inside, whichever the kernel saw last
            assert resolve(handle(str(where / "out/shared.txt")), export) in (str(export / "inside.txt"), None)
        assert resolve(ganesha(str(where / "out/shared.txt")), export) == str(export / "inside.txt")
        assert resolve(ganesha(str(export / "a.txt")), export / "link") is None
        assert resolve(unfs3(str(export / "a.txt"), generation=12345), export) is None


@tap.test
def a_handle_that_was_made_up_from_an_inode_number_has_no_name():
    """NAM-02, ADM-09: file systems take generation 0 for any; only the handle that the kernel gives for a file is
    answered, so that a local user cannot count through the inodes. A handle with the file's directory in it, as nfsd
    makes it with subtree_check, is the kernel's."""
    with folder("a/x.txt") as export:
        path = str(export / "a/x.txt")
        kind, fid = kernel_handle(path)
        if kind != 1 or len(fid) != 8 or fid[4:] == bytes(4):
            raise Skip(f"handles of type {kind} with {len(fid)} bytes are not inode and generation")
        real = nfsd(path)
        assert resolve(real, export) == path
        forged = real[:-4] + bytes(4)
        assert resolve(forged, export) is None
        assert resolve(unfs3(path, generation=0), export) is None
        _, parent = kernel_handle(str(export / "a"))
        assert resolve(real[:3] + b"\x02" + real[4:] + parent, export) == path


@tap.test
def several_exports_and_file_systems_are_told_apart():
    """NAM-02: two exports on one file system, one on another, and one mounted below an export."""
    with folder("one/a.txt", "two/b.txt") as where, disk(where) as (other, _), disk(where / "one", label="sub") as (sub, _):
        (other / "c.txt").touch()
        (sub / "d.txt").touch()
        exports = (where / "one", where / "two", other)
        for path in (where / "one/a.txt", where / "two/b.txt", other / "c.txt", sub / "d.txt"):
            path = str(path)
            for make in (ganesha, nfsd, unfs3):
                assert resolve(make(path), *exports) == path, f"{make.__name__} {path}"
        assert resolve(ganesha(str(other / "c.txt")), where / "one") is None
        # Nothing tells the file system, and two have such a file: no name is better than a wrong one.
        twin = nfsd(str(other / "c.txt"), 1)
        if kernel_handle(str(other / "c.txt")) == kernel_handle(str(sub / "d.txt")):
            assert resolve(twin, *exports) is None
        else:
            assert resolve(twin, *exports) == str(other / "c.txt")


@tap.test
def it_says_which_export_is_not_there_and_who_it_is():
    """NAM-02, ADM-10: given an export that does not exist, the log names it and the ready line counts it; --check-config
    fails; the user in the log is its own."""
    with folder("a/x.txt") as export, Namesd(export, export / "gone") as namesd, Asker() as asker:
        log = namesd.log()
        assert f"export={export}/gone" in log and "No such file" in log, log
        assert "exports=1 missing=1" in log and f"confined uid={os.geteuid()} " in log, log
        handle = ganesha(str(export / "a/x.txt"))
        assert asker.ask(b"path 1 " + handle.hex().encode() + b"\n") == f"1 named {export}/a/x.txt\n".encode()
        for paths, status in (([export], 0), ([export, export / "gone"], 1)):
            words = [word for path in paths for word in ("--export", str(path))]
            assert subprocess.run([program(), "--config", "", "--check-config", *words], stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL).returncode == status, paths


@tap.test
def a_uuid_names_the_file_system():
    """NAM-02: of two file systems on which the same inode exists, the one whose uuid is in the handle; folded to 8 and
    4 bytes as nfsd does."""
    with folder() as where, disk(where, label="p") as (p, _), disk(where, label="q") as (q, _):
        ids = {}
        for place in (p, q):
            (place / "f.txt").touch()
            text = subprocess.run(["blkid", "-o", "value", "-s", "UUID", f"{place}.img"], check=True,
                                  stdout=subprocess.PIPE).stdout.decode()
            ids[place] = bytes.fromhex(text.strip().replace("-", ""))
        for place in (p, q):
            path = str(place / "f.txt")
            for fsid_type in (4, 5, 6, 7):
                assert resolve(nfsd(path, fsid_type, uuid=ids[place]), p, q) == path, (fsid_type, path)


@tap.test
def after_a_restart_of_the_host_files_are_searched_for():
    """NAM-02: the kernel has not seen the directories of a file system that was just mounted, and knows no path. One
    walk finds all of them, in a tree of some thousand entries; without --search they have no name."""
    with folder() as where, disk(where) as (mount, again):
        paths = []
        for i in range(40):
            (mount / f"d{i}/e").mkdir(parents=True)
            for j in range(50):
                (mount / f"d{i}/e/f{j}").touch()
            paths.append(str(mount / f"d{i}/e/f{i}"))
        handles = [ganesha(path) for path in paths]
        again()
        assert resolve(handles[3], mount, options=("--search", "0")) is None
        again()
        with Namesd(mount) as namesd, Asker() as asker:
            first = [asker.ask(b"path 1 " + handle.hex().encode() + b"\n") for handle in handles]
            assert set(first) == {b"1 later\n"}, first

            def named():
                return [asker.ask(b"path 1 " + handle.hex().encode() + b"\n") for handle in handles]

            wait_until(lambda: named() == [f"1 named {path}\n".encode() for path in paths], "all are found")
            wait_until(lambda: "searched the exports" in namesd.log(), "the walk says that it has ended")
            assert namesd.log().count("searched the exports") == 1, namesd.log()


@tap.test
def an_export_can_be_unmounted_while_it_serves():
    """NAM-02: no directory is kept open between requests; what is mounted there next is seen."""
    with folder() as where, disk(where) as (mount, again), Namesd(where), Asker() as asker:
        (mount / "f.txt").touch()
        handle = ganesha(str(mount / "f.txt"))
        line = b"path 1 " + handle.hex().encode() + b"\n"
        assert asker.ask(line) == f"1 named {mount}/f.txt\n".encode()
        again()
        wait_until(lambda: asker.ask(line) == f"1 named {mount}/f.txt\n".encode(), "it is there again")


@tap.test
def lines_that_make_no_sense_are_refused():
    """NAM-02: before the greeting nothing is answered; after it, each line has its own answer; a line without end
    costs the connection."""
    with folder("a.txt") as export, Namesd(export):
        with Asker(greet=False) as asker:
            assert asker.ask(b"path 1 00\n").startswith(b"0 error")
            assert asker.file.readline() == b""
        with Asker() as asker:
            for line, answer in ((b"path 1\n", b"1 error"), (b"\n", b"0 error"), (b"what 3 00\n", b"3 error"),
                                 (b"path 4 0\n", b"4 error"), (b"path 5 " + b"00" * 65 + b"\n", b"5 error"),
                                 (b"path 6 " + b"00" * 64 + b"\n", b"6 unknown\n"), (b"path 7 \xff\n", b"7 error"),
                                 (b"path -1 00\n", b"0 error"), (b"path " + b"9" * 21 + b" 00\n", b"0 error")):
                said = asker.ask(line)
                assert said.startswith(answer), f"{line}: {said}"
            rest = b""
            with contextlib.suppress(ConnectionError):  # but no timeout
                asker.file.write(b"x" * 100000)
                asker.file.flush()
                rest = asker.file.read(1)
            assert rest == b""


@tap.test
def many_questions_at_once_are_answered():
    """NAM-02: 20,000 questions without waiting for an answer; an asker that reads nothing, and one that sends half a
    line, hold up no other."""
    with folder("a.txt") as export, Namesd(export) as namesd:
        line = b"path 1 " + ganesha(str(export / "a.txt")).hex().encode() + b"\n"
        with Asker() as deaf, Asker() as slow, Asker() as asker:
            deaf.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    deaf.socket.send(line * 1000)
            slow.socket.send(line[:10])
            start = time.monotonic()
            pending = line * 20000
            answers = b""
            asker.socket.setblocking(False)
            while answers.count(b"\n") < 20000:
                with contextlib.suppress(BlockingIOError):
                    pending = pending[asker.socket.send(pending):]
                with contextlib.suppress(BlockingIOError):
                    answers += asker.socket.recv(1 << 20)
            tap.note(f"20,000 handles named in {time.monotonic() - start:.2f} s")
            assert answers == f"1 named {export}/a.txt\n".encode() * 20000
        with contextlib.ExitStack() as crowd:  # the sixteenth gives way to the newcomer
            for _ in range(40):
                crowd.enter_context(contextlib.closing(Asker().socket))
            with Asker() as asker:
                assert asker.ask(line) == f"1 named {export}/a.txt\n".encode()
        assert namesd.process.poll() is None


@tap.test
def answers_for_which_there_was_no_room_follow():
    """NAM-02: given an asker that reads nothing until the last answers do not fit into its socket, and that asks nothing more, when it
    reads, then it gets all of them."""
    def waiting(request):
        return struct.unpack("i", fcntl.ioctl(asker.socket, request, bytes(4)))[0]

    def is_quiet():
        before = waiting(termios.FIONREAD)
        time.sleep(0.05)
        return waiting(termios.TIOCOUTQ) == 0 and waiting(termios.FIONREAD) == before

    with folder("a.txt") as export, Namesd(export), Asker() as asker:
        line = b"path 1 " + ganesha(str(export / "a.txt")).hex().encode() + b"\n"
        answer, asked = f"1 named {export}/a.txt\n".encode(), 0
        while waiting(termios.FIONREAD) == asked * len(answer) or not is_quiet():
            asker.socket.sendall(line * 10)
            asked += 10
            wait_until(lambda: waiting(termios.TIOCOUTQ) == 0, "the questions are read")
        answers = b""
        while len(answers) < asked * len(answer):
            answers += asker.socket.recv(1 << 20)
        assert answers == answer * asked


@tap.test
def an_asker_that_leaves_takes_no_other_with_it():
    """NAM-02: given askers of which the first leaves in the same moment in which the last sends the rest of a line, that one is
    answered, and again."""
    with folder("a.txt") as export, Namesd(export) as namesd:
        line = b"path 1 " + ganesha(str(export / "a.txt")).hex().encode() + b"\n"
        answer = f"1 named {export}/a.txt\n".encode()
        with contextlib.ExitStack() as askers:
            first, *others = [askers.enter_context(Asker()) for _ in range(4)]
            for asker in (first, *others):
                assert asker.ask(line) == answer
            while others:
                others[-1].file.write(line[:10])
                others[-1].file.flush()
                wait_until(lambda: not struct.unpack("i", fcntl.ioctl(others[-1].socket, termios.TIOCOUTQ, bytes(4)))[0], "it is read")
                namesd.process.send_signal(signal.SIGSTOP)
                first.file.close()
                first.socket.close()
                others[-1].file.write(line[10:])
                others[-1].file.flush()
                namesd.process.send_signal(signal.SIGCONT)
                assert others[-1].file.readline() == answer
                for asker in others:
                    assert asker.ask(line) == answer
                first, others = others[0], others[1:]


@tap.test
def answers_leave_before_all_questions_are_answered():
    """NAM-02: given 64 questions that each take a search through a directory of 65,000 names, the first answer is there before the
    last is found. The daemon cuts off a namer that answers nothing for 2 s."""
    with folder("big") as export, Namesd(export, options=("--search", "0")), Asker() as asker:
        for i in range(65000):
            os.close(os.open(f"{export}/big/{i}", os.O_CREAT))
        questions = b"".join(b"path %d %s\n" % (i, unfs3(f"{export}/big/{i * 1000}", generation=7).hex().encode()) for i in range(64))
        asker.socket.sendall(questions)
        answers = asker.socket.recv(1 << 20)
        assert 0 < answers.count(b"\n") < 64, answers
        while answers.count(b"\n") < 64:
            answers += asker.socket.recv(1 << 20)
        assert answers == b"".join(b"%d unknown\n" % i for i in range(64)), answers


@contextlib.contextmanager
def tmpfs(where):
    """Handles of its files are not inode and generation, so that files are found by their directories alone."""
    where.mkdir()
    netns.run("mount", "-t", "tmpfs", "tmpfs", where)
    try:
        yield where
    finally:
        netns.run("umount", where)


@tap.test
def each_export_of_a_file_system_is_descended_into():
    """NAM-02: a handle of unfs3 leads to a file in the third export of one file system at the first question, without a search."""
    with folder() as where, tmpfs(where / "t") as mount:
        for name in ("one", "two", "three"):
            (mount / name / "way").mkdir(parents=True)
        path = mount / "three/way/f.txt"
        path.touch()
        with Namesd(*(mount / name for name in ("one", "two", "three"))), Asker() as asker:
            assert asker.ask(b"path 1 " + unfs3(path).hex().encode() + b"\n") == f"1 named {path}\n".encode()


@tap.test
def a_covered_directory_has_no_name_of_another():
    """NAM-02: of two file systems with the same inodes (a disk and its clone), one has the directory under a mount point, where it
    has no name. It does not get the name of its twin."""
    with folder() as where, disk(where, label="p") as (p, again):
        (p / "d").mkdir()
        (p / "d/f.txt").touch()
        netns.run("umount", p)
        subprocess.run(["cp", f"{p}.img", f"{where}/q.img"], check=True)
        again(unmount=False)
        q = where / "q"
        q.mkdir()
        netns.run("mount", "-o", "loop", f"{q}.img", q)
        try:
            directory, file = nfsd(p / "d", 1), nfsd(p / "d/f.txt", 1)
            os.stat(q / "d/f.txt")  # the kernel has seen the twin's directory
            netns.run("mount", "-t", "tmpfs", "tmpfs", p / "d")
            try:
                for handle in (directory, file):
                    assert resolve(handle, p, options=("--search", "0")) is None
                    assert resolve(handle, p, q, options=("--search", "0")) is None
                    assert resolve(handle, q, options=("--search", "0")), "alone it is known"
            finally:
                netns.run("umount", p / "d")
        finally:
            netns.run("umount", q)


@tap.test
def a_link_in_the_place_of_an_export_shows_nothing_outside():
    """NAM-02: the export is renamed and a symbolic link to another directory put in its place, between two looks at the exports: no
    file outside gets a name inside. (At the next look the link is what the operator configured.)"""
    with folder("in/a.txt", "out/b.txt") as where, Namesd(where / "in") as namesd, Asker() as asker:
        def ask(handle):
            return asker.ask(b"path 1 " + handle.hex().encode() + b"\n").decode()

        inside, outside = ganesha(where / "in/a.txt"), ganesha(where / "out/b.txt")
        assert ask(inside) == f"1 named {where}/in/a.txt\n"
        os.rename(where / "in", where / "moved")
        (where / "in").symlink_to("out")

        def told():
            answer = ask(outside)
            assert not answer.startswith(f"1 named {where}/in"), answer
            return answer == f"1 named {where}/out/b.txt\n"

        wait_until(told, "the link is what is configured")
        assert namesd.process.poll() is None


@tap.test
def generations_of_other_file_systems_are_compared():
    """NAM-02: a handle of unfs3 with the generation of an earlier file has no name, on XFS and btrfs as on ext4."""
    kinds = [kind for kind in ("xfs", "btrfs") if shutil.which(f"mkfs.{kind}")]
    with folder() as where:
        for kind in kinds:
            with disk(where, kind, label=kind, megabytes=512) as (mount, _):
                path = mount / "f.txt"
                path.touch()
                with open(path) as file:
                    room = bytearray(8)
                    fcntl.ioctl(file, 0x80087601, room)  # FS_IOC_GETVERSION, as unfs3 asks
                    generation = struct.unpack_from("<I", room)[0]
                assert resolve(unfs3(path, generation=generation), mount) == str(path), kind
                assert resolve(unfs3(path, generation=generation ^ 1), mount) is None, kind
    if len(kinds) < 2:
        raise Skip("no mkfs.xfs or mkfs.btrfs")


@tap.test
def it_gives_up_all_other_privileges():
    """NAM-02: one capability, no new privileges, a filter for system calls; the socket is not for all users."""
    with folder() as export, Namesd(export) as namesd:
        with open(f"/proc/{namesd.process.pid}/status") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        for kind in ("CapPrm", "CapEff"):
            assert int(status[kind], 16) == 1 << 2, status[kind]  # CAP_DAC_READ_SEARCH
        assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
        assert os.stat(SOCKET).st_mode & 0o777 == 0o660


@tap.test
def the_released_program_reads_no_file():
    """NAM-02: with Landlock, the content of files is out of its reach, although the capability would allow it."""
    release = Path(program().replace("build-asan", "build"))
    if "build-asan" in program() and not release.exists():
        raise Skip("no build without sanitizers")
    with folder("secret.txt") as export:
        (export / "secret.txt").write_text("x")
        done = subprocess.run([release, "--config", "", "--export", export, "--resolve",
                               ganesha(str(export / "secret.txt")).hex()], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        assert done.stdout.decode() == f"{export}/secret.txt\n", done.stderr
        if 'files="no content"' not in done.stderr.decode():
            raise Skip(f"no Landlock here: {done.stderr.decode()}")


@tap.test
def what_is_configured_wrongly_is_said():
    """NAM-02: exit status 2 and the reason, with file and line; --check-config looks and does no more."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        def run(text, *options):
            file.seek(0)
            file.truncate()
            file.write(text)
            file.flush()
            done = subprocess.run([program(), "--config", file.name, *options], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
            return done.returncode, done.stderr.decode()

        assert run("[names]\nexport=/usr\nexport=/var\nsearch=5\n", "--check-config") == (0, "")
        status, said = run("[names]\nexport=/usr\nexport=/not/there\n", "--check-config")
        assert status == 1 and "an export is not there export=/not/there" in said, (status, said)
        for text, reason in (("[names]\nexport=srv\n", "line 2: export takes the absolute path"),
                             ("[name]\nexport=/srv\n", "there is no section"), ("[names]\nexports=/srv\n", "no key"),
                             ("[names]\n", "no exports"), ("[names]\nexport=/srv\nsearch=x\n", "line 3")):
            status, said = run(text, "--check-config")
            assert status == 2 and reason in said, f"{text!r}: {status} {said}"


if __name__ == "__main__":
    netns.enter()
    tap.main()
