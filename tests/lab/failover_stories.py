"""The service moves from one node to the other under Linux clients (HA-01 to HA-07, HA-12). In each story one guest holds a lock,
a process of another waits for it, and a third process asks for something else at the moment of the fault. Afterwards the lock is
still exclusive, both kernels have reclaimed, and the waiter gets the lock when the holder unlocks.
"""
import threading
import time

from holdfast_lab import story
from holdfast_lab.guest import bring_up
from holdfast_lab.pair import SERVICE
from holdfast_lab.worker import RECOVERY
from holdfast_test import mount, tap
from holdfast_test.daemon import wait_until
from wires import Tap

lab = None      # set by the program that runs the stories
# A request that the lost node had received, and not answered, is sent again when the client finds out that its connection is dead. It looks
# after timeo without an answer: 60 s unless told otherwise.
OPTIONS = "vers=3,tcp,timeo=50"
ASKED_AGAIN = 40  # a Linux kernel repeats a waiting request every 30 s


def guests(*names):
    """Up and mounted, with no application left from an earlier story."""
    found = [lab.guests[name] for name in names]
    bring_up(found)
    for guest in found:
        if not guest.mounted:
            guest.mount(SERVICE, options=OPTIONS)
        guest.run("killall -q -9 locker add-with-sqlite take-jobs deliver-mail; rm -f /tmp/enough; true")
    return found


def explain_hang():
    """Keeps what each guest waits for, and what the nodes know of it."""
    def nodes():
        for member in lab.pair.members:
            for path in ("cluster", "status", "grace", "clients", "locks", "waiters"):
                yield f"---- {member.name} {path}: {member.get('/api/v1/' + path)}"
            yield member.node.run("ss", "-tnoi", check=False)
    lab.explain_hang(nodes)


class Probe(threading.Thread):
    """Waits for one thing, and knows when it came."""

    def __init__(self, said, watch):
        super().__init__(daemon=True)
        self.said, self.watch, self.got, self.took = said, watch, None, None
        self.start()

    def run(self):
        self.got = self.said.get()
        self.took = self.watch.took

    def wait(self, wanted):
        self.join(RECOVERY)
        assert self.got == wanted, f"{self.got}, not {wanted}, within {RECOVERY} s"
        return self.took


class Scene:
    """A holder in alpha, a waiter in beta, and what they see of a fault."""

    def __init__(self, file):
        lab.pair.ready()
        self.alpha, self.beta = guests("alpha", "beta")
        self.file = file
        self.holder, self.other = self.alpha.app("holder", file), self.beta.app("other", file)
        self.holder.ask("set w 0 100", "granted", RECOVERY)
        self.other.ask("set w 200 100", "granted", RECOVERY)
        self.waiter, self.new = self.beta.app("waiter", file), self.beta.app("new", file)
        self.waiter.wait_for("wait w 0 100")
        self.owner = lab.pair.owner()

    def fault(self, happens):
        """It happens, and at that moment processes want a lock and a file."""
        self.watch = story.Watch()
        happens()
        self.new.say("set w 1000 1")
        self.lock = Probe(self.new.said, self.watch)
        self.files = Probe(self.beta.start(f"echo written >/mnt/{self.file}.new")[1], self.watch)

    def recovered(self):
        """The other node has the service, and both have what they asked for: the seconds to each."""
        lock, files = self.lock.wait((":", "granted")), self.files.wait(("=", "0"))
        owner = lab.pair.owner()
        assert owner and owner is not self.owner, "the service has not moved"
        story.tell(owner.name, f"a new lock after {lock:.2f} s, a file written after {files:.2f} s")
        return lock, files

    def check(self):
        """The lock is alpha's alone; then the waiter's alone. Seconds from the unlock to the grant."""
        self.other.ask("set w 0 100", "refused EAGAIN", RECOVERY)
        self.other.ask("set r 50 1", "refused EAGAIN")
        self.waiter.still_waits()
        watch = story.Watch()
        self.holder.ask("free 0 100", "freed", RECOVERY)
        self.waiter.expect("granted", ASKED_AGAIN)
        took = watch.took
        self.holder.ask("set w 0 100", "refused EAGAIN")
        self.holder.ask("set w 250 1", "refused EAGAIN")
        for app in (self.holder, self.other, self.waiter, self.new):
            app.end()
        return took


def show(what, times, granted):
    lock, files = times
    tap.note(f"failover: {what}: new lock {lock:.2f} s, file {files:.2f} s after the fault; "
             f"waiter {granted:.2f} s after the unlock")


@tap.test
def both_nodes_give_a_file_the_same_handle():
    """Given the directory exported by both nodes, then MOUNT and LOOKUP at each give the same handle."""
    lab.pair.ready()
    (lab.export / "handle").touch()
    found = [mount.file_handle(member.node.address, lab.export, "handle") for member in lab.pair.members]
    assert found[0] == found[1], [handle.hex() for handle in found]


@tap.test
def a_node_is_killed():
    """HA-01, HA-05: kill -9 of holdfastd and Ganesha."""
    scene = Scene("killed")
    scene.fault(scene.owner.crash)
    times = scene.recovered()
    show("node killed", times, scene.check())
    scene.owner.revive()


@tap.test
def a_node_is_paused_beyond_its_lease():
    """HA-04: SIGSTOP, and SIGCONT when the other node serves: the former owner sends nothing from the service's address."""
    scene = Scene("paused")
    scene.fault(scene.owner.pause)
    with Tap(scene.owner.node) as wire:
        try:
            times = scene.recovered()
            wire.frames()  # until now: within its lease
        finally:
            scene.owner.resume()
        lab.pair.ready()
        granted = scene.check()
        assert not (late := wire.from_address(SERVICE)), [frame.hex() for frame in late[:5]]
    show("node paused", times, granted)


@tap.test
def the_service_is_moved():
    """A planned move."""
    scene = Scene("moved")
    scene.fault(lab.pair.move)
    times = scene.recovered()
    show("planned move", times, scene.check())


@tap.test
def the_node_is_killed_while_the_holder_is_cut_off():
    """NOT-03: given alpha cut off from the service, when the node is killed and alpha is back before its notices have failed, then
    its lock is still its own."""
    scene = Scene("cut-off")
    scene.alpha.cable.cut()
    scene.fault(scene.owner.crash)
    times = scene.recovered()
    scene.waiter.still_waits(3)
    story.tell("network", "the link of alpha is back")
    scene.alpha.cable.mend()
    show("node killed, holder cut off", times, scene.check())
    scene.owner.revive()


@tap.test
def the_service_fails_back():
    """Given the service on the second node since the first was killed, when the first is back and the service is moved there, with
    the holder's lock from before both, then it is still exclusive."""
    scene = Scene("failback")
    first = scene.owner
    scene.fault(first.crash)
    scene.recovered()
    first.revive()
    lab.pair.ready()
    scene.new.ask("free 1000 1", "freed")
    scene.owner = lab.pair.owner()
    scene.fault(lab.pair.move)
    times = scene.recovered()
    assert lab.pair.owner() is first
    show("failback", times, scene.check())


def reboot(file, when):
    """Alpha loses power with its lock; the node is killed while alpha boots; the waiter gets the lock. Seconds from power on."""
    scene = Scene(file)
    scene.alpha.crash()
    scene.waiter.still_waits(1)
    watch = story.Watch()
    scene.alpha.boot(wait=False)
    when(scene)
    scene.fault(scene.owner.crash)
    scene.recovered()
    scene.waiter.expect("granted", RECOVERY)
    granted = watch.took
    again, = guests("alpha")
    late = again.app("late", file)
    late.ask("set w 0 100", "refused EAGAIN", RECOVERY)
    late.ask("set w 250 1", "refused EAGAIN")
    scene.waiter.ask("free 0 100", "freed")
    late.ask("set w 0 100", "granted")
    for app in (scene.other, scene.waiter, scene.new, late):
        app.end()
    scene.owner.revive()
    return granted, again.boot_s


@tap.test
def the_node_is_killed_while_the_holder_boots():
    """CRS-01: the holder's notice finds the other node."""
    granted, boot = reboot("reboot", lambda scene: time.sleep(1))
    tap.note(f"failover: node killed while the holder boots: waiter {granted:.1f} s after the holder's power on "
             f"(its boot took {boot:.1f} s)")


@tap.test
def the_node_is_killed_when_the_holder_s_notice_arrives():
    """CRS-01: the node has the holder's notice when it is killed, and may have released its lock or not."""
    granted, boot = reboot("notice", lambda scene: wait_until(
        lambda: "client has crashed client=alpha.example" in scene.owner.daemon.log(), "the notice"))
    tap.note(f"failover: node killed when the holder's notice arrived: waiter {granted:.1f} s after the holder's power on "
             f"(its boot took {boot:.1f} s)")
