#!/usr/bin/env python3
"""Turns migrations/NNNN_name.{up,down}.sql into a C table, without the comments between statements. Usage: embed_migrations.py OUT FILE..."""
import pathlib
import re
import sys


def c_string(text):
    lines = text.replace("\\", "\\\\").replace('"', '\\"').split("\n")
    return "\n".join(f'        "{line}\\n"' for line in lines if line and not line.startswith("--"))


def main(out, *names):
    files = {pathlib.Path(name).name: pathlib.Path(name) for name in names}
    ups = sorted(name for name in files if name.endswith(".up.sql"))
    rows = []
    for expected, name in enumerate(ups, 1):
        match = re.fullmatch(r"(\d{4})_(\w+)\.up\.sql", name)
        if not match or int(match[1]) != expected:
            sys.exit(f"{name}: migrations are numbered 0001, 0002, ... without gaps")
        down = files.pop(name.replace(".up.", ".down."), None)
        if not down:
            sys.exit(f"{name}: there is no way down")
        up_sql = files.pop(name).read_text()
        rows.append(f'    {{{expected}, "{match[2]}",\n{c_string(up_sql)},\n'
                    f"{c_string(down.read_text())}}},\n")
    if files:
        sys.exit(f"not a migration: {', '.join(files)}")
    pathlib.Path(out).write_text(
        '#include "store/migrate.h"\n\n'
        f"const struct hf_migration hf_migrations[] = {{\n{''.join(rows)}}};\n"
        f"const int hf_n_migrations = {len(rows)};\n")


main(*sys.argv[1:])
