#!/usr/bin/env python3
"""Whether docs/architecture.md names files that are there, and names that are in them. Usage: pages.py ROOT.

A file is named from the root or from any folder on; NAME is the reader's. "`a` and `b` (`file`)" says that the
file has both.
"""

import pathlib
import re
import sys

import tidy

FILE = re.compile(r"`((?:[\w/-]+/)?(?:[\w-]+\.(?:h|cc|cuh|py)|\w+\.\{h,cc\}))`")
CLAIM = re.compile(r"((?:`[\w:()]+`(?:, and |, | and )?)+) \(" + FILE.pattern)
PAGE = "docs/architecture.md"


def matching(name, files):
    """The paths that a name may mean: of "x.{h,cc}" both, which have to be there."""
    ends = [name.replace("{h,cc}", end) for end in (("h", "cc") if "{" in name else ("",))]
    found = [[path for path in files if ("/" + path).endswith("/" + end)] for end in ends]
    return [path for paths in found for path in paths] if all(found) else []


def problems(root):
    files = tidy.tree(root) | {f"docs/{path.name}": path.read_text() for path in (root / "docs").glob("*.md")}
    text = " ".join(files[PAGE].split())
    for name in sorted(set(FILE.findall(text))):
        if "NAME" not in name and not matching(name, files):
            yield f"{PAGE} names {name}, which is not there"
    for words, name in CLAIM.findall(text):
        inside = "".join(files[path] for path in matching(name, files))
        for word in re.findall(r"`([\w:]+)[()]*`", words):
            if not re.search(rf"\b{word.split('::')[-1]}\b", inside):
                yield f"{PAGE} says that {name} has {word}"


def main():
    return tidy.report(problems(pathlib.Path(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
