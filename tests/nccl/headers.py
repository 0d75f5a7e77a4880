#!/usr/bin/env python3
"""nccl.h compiles as C99 and C++ with warnings as errors, with CUDA's headers and without; and where NCCL's
own header of the same version is installed, its sizes, offsets, values and signatures are ours.
Usage: headers.py compile|compare ROOT CC CXX. Exits with 77 where there is nothing to compare with."""

import glob
import pathlib
import re
import subprocess
import sys
import tempfile

VERSION = "22809"
STRICT = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, text=True,
                          capture_output=True).stdout


def cuda_folders():
    """Folders that have CUDA's headers."""
    found = glob.glob("/usr/local/cuda*/include") + glob.glob("/opt/cuda*/include")
    return [folder for folder in sorted(found) if pathlib.Path(folder, "cuda_runtime.h").exists()]


def peer_folder():
    """The folder of an NCCL header of our version, with CUDA's beside it."""
    for folder in cuda_folders():
        header = pathlib.Path(folder, "nccl.h")
        if header.exists() and re.search(rf"NCCL_VERSION_CODE\s+{VERSION}\b", header.read_text()):
            return folder
    return None


def compile_everywhere(root, cc, cxx):
    source = root / "tests/nccl/header.c"
    for cuda in [None] + cuda_folders()[:1]:
        include = ["-I", root] + (["-isystem", cuda] if cuda else [])
        run(cc, "-std=c99", "-pedantic", *STRICT, *include, source)
        for standard in ("c++11", "c++20") if not cuda else ("c++17",):
            run(cxx, "-x", "c++", f"-std={standard}", *STRICT, *include, source)
        print(f"compiles with {cuda or 'no'} CUDA headers")
    return 0


def what_it_says(root, cc, include):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "abi")
        run(cc, "-std=c99", *include, root / "tests/nccl/abi.c", "-o", program)
        return run(program)


def signatures(cxx, include):
    """Declarations by name, spaces and names of parameters aside."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as source:
        source.write("#include <nccl.h>\n")
        source.flush()
        text = run(cxx, "-std=c++17", "-E", "-P", *include, source.name)
    found = {}
    for result, name, arguments in re.findall(
            r"((?:const\s+)?\b\w+\*?)\s+\*?(p?nccl[A-Z]\w*)\s*\(([^()]*)\)\s*;", text):
        # The last word of a parameter is its name, unless it stands alone.
        types = [re.sub(r"\b(\w+)$", "", part.strip()).strip() or part.strip()
                 for part in arguments.split(",")] if arguments.strip() not in ("", "void") else []
        found[name] = re.sub(r"\s+", " ", result) + " " + ", ".join(
            re.sub(r"\s*\*\s*", "* ", kind).strip() for kind in types)
    return found


def compare(root, cc, cxx):
    folder = peer_folder()
    if folder is None:
        print(f"skipped: no nccl.h of version {VERSION} beside CUDA's headers")
        return 77
    ours, theirs = ["-I", root / "nccl", "-I", folder], ["-I", folder]
    left, right = what_it_says(root, cc, ours).split("\n"), what_it_says(root, cc, theirs).split("\n")
    problems = [f"ours: {a}   theirs: {b}" for a, b in zip(left, right) if a != b]
    if len(left) != len(right):
        problems.append("not as many lines")
    mine, yours = signatures(cxx, ours), signatures(cxx, theirs)
    if len(yours) < 80:
        problems.append(f"only {len(yours)} functions were read in theirs")
    problems += [f"{name}: ours {mine.get(name)}, theirs {kinds}"
                 for name, kinds in yours.items() if mine.get(name) != kinds]
    print("\n".join(problems) or f"{len(left) - 1} facts and {len(yours)} signatures are the same")
    return 1 if problems else 0


def main():
    what, root, cc, cxx = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    try:
        return compile_everywhere(root, cc, cxx) if what == "compile" else compare(root, cc, cxx)
    except subprocess.CalledProcessError as error:
        print(" ".join(error.cmd), error.stderr, sep="\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
