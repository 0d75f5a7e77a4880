#!/usr/bin/env python3
"""House rules that a machine can check. Usage: tidy.py ROOT; prints one line per violation.

Rules: include edges between folders (docs/architecture.md), no include cycles, files of at most 500
lines and functions of at most 70, one file that reads the environment, no work left as a marker in a
comment, no <iostream> in the library, #pragma once in every header, which its source includes first,
and an include for whatever is used of the standard library.
"""

import pathlib
import re
import sys

from standard_headers import ANY_INCLUDE, StandardHeaders

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

LOWER = ["base/", "kernels/", "transport/", "bootstrap/"]
ANYTHING = [""]

# Who may include what besides its own folder; the longest key that fits a file decides. "folder/" is
# everything below it, "folder/*" the files directly in it, anything else one file.
EDGES = {
    "base/": [],
    "kernels/": ["base/"],
    "transport/": ["base/"],
    # Backends do not know each other.
    "transport/shm/": ["base/", "transport/*"],
    "transport/tcp/": ["base/", "transport/*"],
    "transport/sim/": ["base/", "transport/*"],
    # RDMA's queue pairs meet over TCP.
    "transport/verbs/": ["base/", "transport/*", "transport/tcp/tcp.h"],
    "bootstrap/": ["base/"],
    "engine/": LOWER,
    "engine/schedule/": ["base/"],
    "engine/algorithms/": ["base/", "kernels/", "engine/schedule/"],
    # call.h and media.h are vocabulary: what is asked for, and what there is to do it with.
    "engine/tuner/": LOWER + ["engine/schedule/", "engine/algorithms/", "engine/call.h"],
    "engine/executor/": LOWER + ["engine/schedule/", "engine/call.h", "engine/media.h"],
    "engine/measure/": LOWER + ["engine/schedule/", "engine/tuner/", "engine/executor/", "engine/media.h",
                                "engine/backoff.h", "engine/communicator.h"],
    "fabric/": ["base/", "bootstrap/", "kernels/number.h", "engine/communicator.h",
                "engine/gather_texts.h"],
    "examples/": ["fabric/"],
    "nccl/": ["base/", "bootstrap/", "engine/communicator.h", "engine/call.h",
              "engine/device/gpu.h", "engine/device/cuda.h"],
    "plot/": ["base/"],
    "bench/": ["base/", "bootstrap/", "engine/communicator.h", "engine/device/gpu.h", "engine/device/cuda.h",
               "engine/device/queues.h", "plot/"],
    "bench/tune": ["base/", "bench/", "bootstrap/", "engine/measure/node.h", "engine/tuner/tuning.h"],
    "bench/price_job": ["base/", "bench/", "bootstrap/", "engine/measure/node.h", "engine/tuner/tuning.h"],
    "bench/micro_": ANYTHING,
    "tools/": LOWER + ["engine/schedule/", "engine/algorithms/", "engine/tuner/", "plot/"],
    "tools/diagnosis": ["base/", "tools/diagnosis.h", "engine/dump.h"],
    "tools/doctor": ["base/", "tools/diagnosis.h", "tools/usage.h", "engine/dump.h"],
    "examples/algorithms/": ["base/", "engine/schedule/", "engine/algorithms/", "tools/schedule_tool.h"],
    "tests/": ANYTHING,
}

CPP = {".h", ".cc", ".cu", ".cuh"}
MARKERS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
ENVIRONMENT = re.compile(r"\b(secure_)?getenv\b|\b(__)?environ\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
TOKEN = re.compile(
    r'R"(?P<delimiter>[^()\s\\]{0,16})\(.*?\)(?P=delimiter)"'  # raw string
    r'|"(?:[^"\\\n]|\\.)*"'  # string
    r"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'"  # character, not a digit separator
    r"|//(?:[^\n\\]|\\.|\\\n)*"  # comments
    r"|/\*.*?\*/",
    re.DOTALL,
)


def strip(text):
    """The code without comments and literals, line for line."""
    def blank(match):
        literal = match.group(0)
        return ('""' if literal[0] in "R\"'" else "") + "\n" * literal.count("\n")

    return TOKEN.sub(blank, text)


def without_preprocessor(code):
    """Blanks directives, and of every #if the branches after the first, so that braces balance."""
    lines, skipping, directive = [], [], False
    for line in code.split("\n"):
        starts = not directive and line.lstrip().startswith("#")
        if starts:
            word = re.match(r"\s*#\s*(\w*)", line).group(1)
            if word in ("if", "ifdef", "ifndef"):
                skipping.append(False)
            elif word in ("else", "elif") and skipping:
                skipping[-1] = True
            elif word == "endif" and skipping:
                skipping.pop()
        keep = not starts and not directive and not any(skipping)
        directive = (starts or directive) and line.endswith("\\")
        lines.append(line if keep else "")
    return "\n".join(lines)


CONTAINER = re.compile(
    r"^(?:template\s*<.*?>\s*)?(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b", re.DOTALL)
SIGNATURE_END = re.compile(
    r"\)\s*(?:const|noexcept(?:\(.*\))?|override|final|mutable|&|\s)*(?:->[^;]*)?$", re.DOTALL)


def kind_of_block(head, before):
    """What an opening brace outside functions starts; `before` is the character in front of it."""
    if before and not before.isspace():
        return "initializer"  # clang-format: `x{1}`, but `void f() {`
    if CONTAINER.match(head) and not SIGNATURE_END.search(head):
        return "container"
    return "function" if "(" in head and not head.endswith("=") else "initializer"


def functions(text):
    """(first line, lines, first words) of every outermost function of clang-formatted text."""
    code = without_preprocessor(strip(text))
    stack, found, parens, head_start, line = [], [], 0, 0, 1
    for i, c in enumerate(code):
        if c == "\n":
            line += 1
        inside = any(kind != "container" for kind, _, _ in stack)
        if c in "()":
            parens += 1 if c == "(" else -1
        elif c == "{":
            head = code[head_start:i].strip()
            if inside or parens:
                kind = "block"
            else:
                kind = kind_of_block(head, code[i - 1] if i else "")
            stack.append((kind, line - code[head_start:i].lstrip().count("\n"), head))
        elif c == "}" and stack:
            kind, first, head = stack.pop()
            if kind == "function":
                found.append((first, line - first + 1, " ".join(head.split())[:60]))
            elif kind in ("initializer", "block"):
                continue  # the statement or signature around it goes on
        label = c == ":" and code[head_start:i].strip() in ("public", "protected", "private")
        if (c in "{};" or label) and not parens and all(kind == "container" for kind, _, _ in stack):
            head_start = i + 1
    if stack:
        raise ValueError("braces do not balance")
    return found


def matches(path, pattern):
    if pattern.endswith("/*"):
        return str(pathlib.PurePosixPath(path).parent) == pattern[:-2]
    return path.startswith(pattern) if pattern.endswith("/") or not pattern else path == pattern


def includes(text):
    """(line, file) of every quoted include."""
    for number, line in enumerate(text.split("\n"), 1):
        if match := INCLUDE.match(line):
            yield number, match.group(1)


def check_edges(path, text, files):
    keys = [key for key in EDGES if path.startswith(key)]
    if not keys:
        yield 1, "no such layer: give the folder a row in the table of allowed includes"
        return
    own = max(keys, key=len)
    for line, target in includes(text):
        if path == "nccl/nccl_device.h" and target == "nccl.h":
            continue  # they are installed side by side
        if target not in files:
            yield line, f'"{target}" is not a file of the tree; includes are written from its root'
        elif not any(matches(target, p) for p in EDGES[own] + [own]):
            yield line, f'{own} may not include "{target}"'


def check_own_header(path, text, files):
    """So that the compiler sees that the header needs nothing in front of it."""
    own = str(pathlib.PurePosixPath(path).with_suffix(".h"))
    if path.endswith(".cc") and own in files:
        first = ANY_INCLUDE.search(text)
        if not first or first.group(1) != own:
            yield 1, f'does not include "{own}" first'


def check_text(path, text):
    lines = text.split("\n")
    if len(lines) - 1 > FILE_LINES_MAX:
        yield len(lines), f"{len(lines) - 1} lines; at most {FILE_LINES_MAX}"
    for number, line in enumerate(lines, 1):
        if match := MARKERS.search(line):
            yield number, f"{match.group(0)}: do it now or open an issue"


def check_code(path, text, code):
    if path != "base/env.cc":
        for number, line in enumerate(code.split("\n"), 1):
            if match := ENVIRONMENT.search(line):
                yield number, f"{match.group(0)}: only base/env.cc reads the environment"
    if path.split("/")[0] not in ("bench", "tools", "tests"):
        for number, line in enumerate(code.split("\n"), 1):
            if re.match(r"\s*#\s*include\s*<iostream>", line):
                yield number, "<iostream> in the library; use base/log.h"
    if path.endswith((".h", ".cuh")) and not re.search(r"^#pragma once$", code, re.MULTILINE):
        yield 1, "no #pragma once"
    try:
        for first, count, head in functions(text):
            if count > FUNCTION_LINES_MAX:
                yield first, f"{count} lines; a function has at most {FUNCTION_LINES_MAX}: {head}"
    except ValueError as error:
        yield 1, str(error)


def find_cycles(graph):
    """Cycles of includes, each once, as lists of files."""
    done, cycles = set(), []

    def visit(node, trail):
        if node in trail:
            cycles.append(trail[trail.index(node):] + [node])
        elif node not in done:
            for target in graph.get(node, []):
                visit(target, trail + [node])
            done.add(node)

    for node in sorted(graph):
        visit(node, [])
    return cycles


NAMESPACE = re.compile(r"^(?:inline )?namespace ([\w:]*) ?\{|^(\}  // namespace)", re.MULTILINE)
TYPE = re.compile(r"^(?:class|struct|union|enum(?: class)?) (?:alignas\(.*?\) |\[\[\w+\]\] )?(\w+)(?: final)?(?: :.*)? \{")


def types(text):
    """(line, name) of every type that a namespace with a name defines, as clang-format lays it out."""
    spaces = []
    for number, line in enumerate(text.split("\n"), 1):
        if match := NAMESPACE.match(line):
            if match.group(2):
                del spaces[-1:]
            else:
                spaces.append(match.group(1))
        elif (match := TYPE.match(line)) and "" not in spaces:
            yield number, "::".join([*spaces, match.group(1)])


def check_types(files):
    """Two types of one name are one to the linker, which keeps one's functions for both."""
    home = {}
    for path, text in files.items():
        program = path if path.startswith(("tests/", "examples/")) and path.endswith(".cc") else ""
        for line, name in types(text) if pathlib.PurePosixPath(path).suffix in CPP else []:
            first = home.setdefault((program, name), path)
            if first != path:
                yield f"{path}:{line}: {name} is the name of another type, in {first}"


def tree(root):
    """Text of every source file below root, by path; build folders and hidden ones left out."""
    found = {}
    for path in sorted(pathlib.Path(root).rglob("*")):
        relative = path.relative_to(root)
        if relative.parts[0].startswith("build") or any(p.startswith(".") for p in relative.parts):
            continue
        if path.suffix in CPP | {".py", ".cmake", ".sh"} or path.name in ("CMakeLists.txt", "Makefile"):
            found[relative.as_posix()] = path.read_text(encoding="utf-8")
    return found


def check(files):
    """Violations as lines `path:line: what`; `files` maps paths to text."""
    headers = StandardHeaders(files)
    for path, text in files.items():
        problems = list(check_text(path, text))
        if pathlib.PurePosixPath(path).suffix in CPP:
            code = strip(text)
            problems += list(check_edges(path, text, files)) + list(check_code(path, text, code))
            problems += check_own_header(path, text, files)
            problems += headers.check(path, code)
        for line, what in problems:
            yield f"{path}:{line}: {what}"
    yield from check_types(files)
    graph = {path: [t for _, t in includes(text) if t in files] for path, text in files.items()}
    for cycle in find_cycles(graph):
        yield f"{cycle[0]}:1: includes go in a circle: {' -> '.join(cycle)}"


def report(violations):
    """Prints them and how many they are; the exit status."""
    violations = list(violations)
    print("\n".join([*violations, f"{len(violations)} violations"]))
    return 1 if violations else 0


def main():
    return report(check(tree(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
