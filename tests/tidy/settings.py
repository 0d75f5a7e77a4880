#!/usr/bin/env python3
"""Whether docs/settings.md has every variable that weft reads, and no other. Usage: settings.py ROOT."""

import pathlib
import re
import sys

import tidy

FOLDERS = ("base", "bootstrap", "engine", "fabric", "nccl", "bench", "tools", "transport")
NOT_FOR_USERS = {
    "WEFT_LAUNCHED", "WEFT_SUPERVISED",  # what launchers of weft tell their children
    "WEFT_TOPOLOGY",  # of topology_of(), which is for programs
}
READ = re.compile(r'"(WEFT_[A-Z_]*[A-Z])"')
TOLD = re.compile(r"`(WEFT_[A-Z_]*[A-Z])`|`(_[A-Z_]*[A-Z])`")


def told(text):
    """The variables of a page; `_QPS` stands for that name with the last full one's first two words."""
    names, stem = set(), ""
    for whole, end in TOLD.findall(text):
        stem = "_".join(whole.split("_")[:2]) if whole else stem
        names.add(whole or stem + end)
    return names


def check(sources, page):
    """Violations as lines."""
    read = {name for text in sources for name in READ.findall(text)} - NOT_FOR_USERS
    yield from (f"{name} is not in docs/settings.md" for name in sorted(read - told(page)))
    yield from (f"docs/settings.md has {name}, which nothing reads" for name in sorted(told(page) - read))


def main():
    root = pathlib.Path(sys.argv[1])
    sources = [text for path, text in tidy.tree(root).items() if path.split("/")[0] in FOLDERS]
    violations = list(check(sources, (root / "docs/settings.md").read_text()))
    print("\n".join(violations + [f"{len(violations)} violations"]))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
