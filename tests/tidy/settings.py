#!/usr/bin/env python3
"""Whether docs/settings.md, and base/settings.cc, have every variable that weft reads, and no other.
Usage: settings.py ROOT."""

import pathlib
import re
import sys

import tidy

FOLDERS = ("base", "bootstrap", "engine", "fabric", "nccl", "bench", "tools", "transport")
NOT_FOR_USERS = {
    "WEFT_LAUNCHED", "WEFT_SUPERVISED",  # what launchers of weft tell their children
}
LISTED = "base/settings.cc"
READ = re.compile(r'"(WEFT_[A-Z_]*[A-Z])"')
TOLD = re.compile(r"`(WEFT_[A-Z_]*[A-Z])`|`(_[A-Z_]*[A-Z])`")


def told(text):
    """The variables of a page; `_QPS` stands for that name with the last full one's first two words."""
    names, stem = set(), ""
    for whole, end in TOLD.findall(text):
        stem = "_".join(whole.split("_")[:2]) if whole else stem
        names.add(whole or stem + end)
    return names


def check(sources, page, listed):
    """Violations as lines."""
    all_read = {name for text in sources for name in READ.findall(text)}
    read = all_read - NOT_FOR_USERS
    known = set(READ.findall(listed.partition("kSettings[]")[2]))
    yield from (f"{name} is not in docs/settings.md" for name in sorted(read - told(page)))
    yield from (f"docs/settings.md has {name}, which nothing reads" for name in sorted(told(page) - read))
    yield from (f"{name} is not in {LISTED}" for name in sorted(all_read - known))
    yield from (f"{LISTED} has {name}, which nothing reads" for name in sorted(known - all_read))


def main():
    root = pathlib.Path(sys.argv[1])
    tree = tidy.tree(root)
    sources = [text for path, text in tree.items() if path.split("/")[0] in FOLDERS and path != LISTED]
    return tidy.report(check(sources, (root / "docs/settings.md").read_text(), tree[LISTED]))


if __name__ == "__main__":
    sys.exit(main())
