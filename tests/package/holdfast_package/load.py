"""Client hosts that hold locks, wait for locks, and lock and unlock without a pause, while the server is replaced.

Each behaves as a Linux client does: after a notice (SM_NOTIFY) it reclaims what it holds and asks again for what it
waits for; a request without an answer is sent again until one comes.
"""
import threading
import time

from holdfast_test import nlm
from holdfast_test.peer import NSM, SM_NOTIFY

HOLDERS, LOCKS_EACH, QUEUES, WAITERS_EACH, PULSES = 20, 5, 4, 3, 3
RETRY_S = 0.01
NOTICE_S = 60


class Pulse(threading.Thread):
    """One process that locks and unlocks one file again and again. Afterwards: the longest times without an answer and
    without a granted lock."""

    def __init__(self, host, number):
        super().__init__(daemon=True)
        self.host, self.file = host, host.lock(fh=b"pulse-%d" % number)
        self.running = True
        self.answered = self.granted = time.monotonic()
        self.silence = self.pause = 0.0
        self.rounds = 0

    def run(self):
        while self.running:
            self._insist(nlm.LOCK)
            now = time.monotonic()
            self.pause, self.granted = max(self.pause, now - self.granted), now
            self._insist(nlm.UNLOCK)
            self.rounds += 1

    def _insist(self, proc):
        while self.running:
            try:
                stat = self.host.stat(proc, self.file)
            except (OSError, EOFError):
                self.host.close_clients()
                time.sleep(RETRY_S)
                continue
            now = time.monotonic()
            self.silence, self.answered = max(self.silence, now - self.answered), now
            if stat == "GRANTED":
                return
            time.sleep(RETRY_S)

    def finish(self):
        self.running = False
        self.join(30)


class Load:
    def __init__(self, network):
        self.holders = [network.host(f"10.2.1.{i + 1}", f"holder{i}") for i in range(HOLDERS)]
        self.waiters = [network.host(f"10.2.2.{i + 1}", f"waiter{i}") for i in range(QUEUES * WAITERS_EACH)]
        self.pulses = [Pulse(network.host(f"10.2.3.{i + 1}", f"pulse{i}"), i) for i in range(PULSES)]
        self.stranger = network.host("10.2.4.1", "stranger")
        self.notices = {host: 0 for host in self.holders}

    def _held(self, host):
        """The first lock of the first holders is what the others wait for."""
        number = self.holders.index(host)
        return [host.lock(fh=b"file-%d-%d" % (number, i), offset=i * 10, length=5 + i, svid=i + 1)
                for i in range(LOCKS_EACH)]

    def _wanted(self, host):
        holder = self.holders[self.waiters.index(host) % QUEUES]
        return host.lock(fh=self._held(holder)[0].fh)

    def begin(self):
        for host in self.holders:
            for lock in self._held(host):
                assert host.stat(nlm.LOCK, lock) == "GRANTED"
        for host in self.waiters:
            assert host.stat(nlm.LOCK, self._wanted(host), block=True) == "BLOCKED"
        for pulse in self.pulses:
            pulse.start()

    def forget_notices(self):
        self.notices = {host: len(host.received(SM_NOTIFY, NSM)) for host in self.holders}

    def recover(self):
        """Each holder has a notice, and reclaims; then those that wait ask again, in their order."""
        end = time.monotonic() + NOTICE_S
        missing = list(self.holders)
        while missing:
            for host in list(missing):
                if len(host.received(SM_NOTIFY, NSM)) > self.notices[host]:
                    host.close_clients()
                    for lock in self._held(host):
                        stat = host.stat(nlm.LOCK, lock, reclaim=True)
                        assert stat == "GRANTED", f"{host.name} reclaims: {stat}"
                    missing.remove(host)
            assert time.monotonic() < end, f"not notified: {[host.name for host in missing]}"
            time.sleep(RETRY_S)
        for host in self.waiters:
            host.close_clients()
            while (stat := host.stat(nlm.LOCK, self._wanted(host), block=True)) == "DENIED_GRACE_PERIOD":
                assert time.monotonic() < end, "grace does not end although everything was reclaimed"
                time.sleep(RETRY_S)
            assert stat == "BLOCKED", f"{host.name} waits: {stat}"
        self.stranger.close_clients()

    def reconnect(self):
        """After a restart that no client notices: connections are made again, and nothing else."""
        for host in (*self.holders, *self.waiters, self.stranger):
            host.close_clients()

    def told(self):
        """Those that have had a notice since forget_notices()."""
        return [host.name for host in self.holders if len(host.received(SM_NOTIFY, NSM)) > self.notices[host]]

    def check(self):
        """Every lock is there, of its own owner, and denies others."""
        count = 0
        for host in self.holders:
            for lock in self._held(host):
                result = self.stranger.ask(nlm.TEST, self.stranger.lock(fh=lock.fh))
                assert result.stat == "DENIED", f"{host.name} lost its lock: {result}"
                assert (result.holder.svid, result.holder.oh, result.holder.offset, result.holder.length) == (
                    lock.svid, lock.oh, lock.offset, lock.length), result
                count += 1
        return count

    def serve_waiters(self):
        """The locks that are waited for are released; each queue is served in order."""
        for holder in self.holders[:QUEUES]:
            assert holder.stat(nlm.UNLOCK, self._held(holder)[0]) == "GRANTED"
        for host in self.waiters:
            host.wait_for(nlm.GRANTED, seconds=30)
            assert host.stat(nlm.UNLOCK, self._wanted(host)) == "GRANTED"
        return len(self.waiters)

    def end(self):
        for pulse in self.pulses:
            pulse.finish()

    def release(self):
        for host in [*self.holders, *(pulse.host for pulse in self.pulses)]:
            host.close_clients()
            host.free_all()

    def longest(self):
        """(seconds without an answer, seconds without a granted lock), of the client that had to wait longest."""
        return max(p.silence for p in self.pulses), max(p.pause for p in self.pulses)

    def start_measuring(self):
        for pulse in self.pulses:
            pulse.silence = pulse.pause = 0.0
