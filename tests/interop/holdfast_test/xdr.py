"""XDR (RFC 4506), written by hand: the few types that NLM, NSM and rpcbind are made of."""
import struct


class Bad(ValueError):
    """The bytes are not what the type asks for."""


class Encoder:
    """Builds a message; every method returns the encoder, so that a structure reads as one line."""

    def __init__(self):
        self.parts = []

    def bytes(self):
        return b"".join(self.parts)

    def uint(self, *values):
        self.parts += [struct.pack(">I", value) for value in values]
        return self

    def int(self, *values):
        self.parts += [struct.pack(">i", value) for value in values]
        return self

    def uhyper(self, *values):
        self.parts += [struct.pack(">Q", value) for value in values]
        return self

    def bool(self, *values):
        return self.uint(*[1 if value else 0 for value in values])

    def fixed(self, data):
        self.parts.append(data + b"\0" * (-len(data) % 4))
        return self

    def opaque(self, data):
        return self.uint(len(data)).fixed(data)

    def string(self, text):
        return self.opaque(text.encode() if isinstance(text, str) else text)

    def raw(self, data):
        self.parts.append(data)
        return self


class Decoder:
    """Reads a message from the front; end() insists that nothing is left."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, size):
        if self.at + size > len(self.data):
            raise Bad(f"{size} bytes wanted at {self.at}, the message has {len(self.data)}")
        self.at += size
        return self.data[self.at - size:self.at]

    def uint(self):
        return struct.unpack(">I", self.take(4))[0]

    def int(self):
        return struct.unpack(">i", self.take(4))[0]

    def uhyper(self):
        return struct.unpack(">Q", self.take(8))[0]

    def bool(self):
        value = self.uint()
        if value > 1:
            raise Bad(f"{value} is no boolean")
        return value == 1

    def fixed(self, size):
        data = self.take(size)
        if any(self.take(-size % 4)):
            raise Bad("padding that is not zero")
        return data

    def opaque(self):
        return self.fixed(self.uint())

    def string(self):
        return self.opaque().decode()

    def rest(self):
        return self.take(len(self.data) - self.at)

    def end(self):
        if self.at != len(self.data):
            raise Bad(f"{len(self.data) - self.at} bytes behind the end")
