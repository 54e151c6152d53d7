#!/usr/bin/env python3
"""shrink.py IN.png OUT.png: a screenshot with a palette of at most 256 colours, a third of the size.
For the few that are kept in docs/."""
import collections
import struct
import sys
import zlib
from pathlib import Path


def chunks(data):
    at = 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        yield kind, data[at + 8:at + 8 + size]
        at += size + 12


def unfilter(raw, stride, step):
    """The pixels of a PNG without its line filters (PNG specification, section 9)."""
    rows, above = [], bytearray(stride)
    for at in range(0, len(raw), stride + 1):
        kind, row = raw[at], bytearray(raw[at + 1:at + 1 + stride])
        for i in range(stride):
            left, up = row[i - step] if i >= step else 0, above[i]
            corner = above[i - step] if i >= step else 0
            if kind == 4:
                guess = left + up - corner
                near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            else:
                near = (0, left, up, (left + up) // 2)[kind]
            row[i] = (row[i] + near) & 255
        rows.append(row)
        above = row
    return rows


def palette_of(counts):
    """The 256 commonest colours, and the nearest of them for each other colour."""
    chosen = [colour for colour, _ in counts.most_common(256)]
    index = {colour: number for number, colour in enumerate(chosen)}
    for colour in counts:
        if colour not in index:
            index[colour] = min(range(len(chosen)), key=lambda n: sum((a - b) ** 2 for a, b in zip(colour, chosen[n])))
    return chosen, index


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main(source, target):
    parts = list(chunks(Path(source).read_bytes()))
    width, height, depth, colours, _, _, interlace = struct.unpack(">IIBBBBB", parts[0][1])
    assert depth == 8 and colours in (2, 6) and not interlace, "not a screenshot of Chromium"
    step = 3 if colours == 2 else 4
    rows = unfilter(zlib.decompress(b"".join(data for kind, data in parts if kind == b"IDAT")), width * step, step)
    pixels = [[tuple(row[i:i + 3]) for i in range(0, len(row), step)] for row in rows]
    chosen, index = palette_of(collections.Counter(pixel for row in pixels for pixel in row))
    body = b"".join(b"\0" + bytes(index[pixel] for pixel in row) for row in pixels)
    Path(target).write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) +
        chunk(b"PLTE", bytes(value for colour in chosen for value in colour)) +
        chunk(b"IDAT", zlib.compress(body, 9)) + chunk(b"IEND", b""))


main(*sys.argv[1:])
