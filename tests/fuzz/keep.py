#!/usr/bin/env python3
"""keep.py PROGRAM TARGET FOLDER: adds to the corpus of a target what a fuzzer has found in FOLDER.

The corpus is one file, a line of hex for each input: as few and as short ones as cover all branches that the
old corpus and the folder cover.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
MAX_LEN = 1024


def read(target):
    path = CORPUS / f"{target}.hex"
    return [bytes.fromhex(line) for line in path.read_text().split()] if path.exists() else []


def main():
    program, target, found = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="holdfast-fuzz-") as folder:
        old, new = Path(folder, "old"), Path(folder, "new")
        old.mkdir()
        new.mkdir()
        for i, data in enumerate(read(target)):
            (old / str(i)).write_bytes(data)
        subprocess.run([program, "-set_cover_merge=1", "-use_counters=0", f"-max_len={MAX_LEN}", new, old, found],
                       check=True, stderr=subprocess.DEVNULL)
        inputs = sorted((path.read_bytes() for path in new.iterdir()), key=lambda data: (len(data), data))
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{target}.hex").write_text("".join(data.hex() + "\n" for data in inputs))
    print(f"{len(inputs)} inputs, {sum(map(len, inputs))} bytes")


if __name__ == "__main__":
    main()
