#!/usr/bin/env python3
"""Whether docs/fabric.md and the examples fit together. Usage: table.py ROOT.

Every file that the page names must exist, every example must be named there, be built, and have an
expected output for 1, 2, 4 and 6 ranks.
"""

import pathlib
import re
import sys

import compare


def problems(root):
    page = (root / "docs/fabric.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:examples|tests|fabric|engine|base)/[\w/]+\.(?:cc|h)\b", page))
    for path in sorted(named):
        if not (root / path).exists():
            yield f"docs/fabric.md names {path}, which does not exist"
    build = (root / "examples/CMakeLists.txt").read_text(encoding="utf-8")
    for source in sorted((root / "examples").glob("*.cc")):
        if f"examples/{source.name}" not in named:
            yield f"docs/fabric.md does not name examples/{source.name}"
        if not re.search(rf"\b{source.stem}\b", build):
            yield f"examples/CMakeLists.txt does not build {source.name}"
        expected = root / "examples/expected" / f"{source.stem}.txt"
        known = compare.sections(expected.read_text(encoding="utf-8")) if expected.exists() else {}
        if sorted(known) != [1, 2, 4, 6] or not all(known.values()):
            yield f"{source.name} has no expected output for 1, 2, 4 and 6 ranks"
    curves = compare.sections((root / "examples/expected/train_two_layers.txt").read_text())
    if any(curve != curves[1] for curve in curves.values()):
        yield "the loss curve of train_two_layers depends on the number of ranks"


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "all there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
