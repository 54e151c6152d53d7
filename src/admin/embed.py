#!/usr/bin/env python3
"""Turns the files of the page, and openapi.json, into a C table. Usage: embed.py OUT FILE..."""
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
         ".json": "application/json"}
PLACES = {"index.html": "/", "openapi.json": "/api/v1/openapi.json"}


def main(out, *names):
    arrays, rows = [], []
    for number, path in enumerate(map(pathlib.Path, names)):
        data = path.read_bytes()
        numbers = ",".join(map(str, data))
        arrays.append(f"static const uint8_t file_{number}[] = {{{numbers}}};\n")
        rows.append(f'    {{"{PLACES.get(path.name, "/page/" + path.name)}", "{TYPES[path.suffix]}", '
                    f"file_{number}, {len(data)}}},\n")
    pathlib.Path(out).write_text(
        '#include "admin/page.h"\n\n' + "".join(arrays) +
        f"\nconst struct page_file hf_page_files[] = {{\n{''.join(rows)}}};\n"
        f"const size_t hf_page_files_n = {len(rows)};\n")


main(*sys.argv[1:])
