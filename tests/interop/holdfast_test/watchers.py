"""HTTP clients that poll the daemon while lock clients work.

    with Watchers((1, ["/metrics"]), (2, PAGE)):    # each second; each two seconds
        ...
"""
import http.client
import os
import threading

ADMIN_PORT = 8049


class Watchers:
    """Clients that request paths over HTTP, again and again after a pause, each on a connection that is kept.
    They run at low priority, because the test measures what they cost the daemon, not what they cost the
    machine."""

    def __init__(self, *what, port=ADMIN_PORT):
        self.what, self.port, self.answers, self.bytes = what, port, 0, 0

    def __enter__(self):
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self._ask, args=args) for args in self.what]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def _ask(self, pause_s, paths):
        os.nice(19)  # of this thread
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self.stop.wait(pause_s):
            for path in paths:
                connection.request("GET", path)
                answer = connection.getresponse()
                while piece := answer.read(65536):
                    self.bytes += len(piece)
                self.answers += 1
                assert answer.status == 200, path
        connection.close()
