"""What the pages quote is what the programs print.

quoted.py DOCS EXAMPLES/ALGORITHMS RECURSIVE_MULTIPLYING WEFT_SCHEDULE

In a page's fenced block `$ command` stands before what it prints; a line "..." stands for any number of
lines; spaces at the end of a line, and empty lines before the first one, do not count. A command whose
output is not quoted is not run.
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

docs, sources, tool, schedule = map(pathlib.Path, sys.argv[1:])
programs = {"recursive-multiplying": tool, "weft-schedule": schedule}
pages = {"your-algorithm.md": 4, "schedule.md": 2}  # how many commands each quotes


def quotations(page):
    """Of each command its words and the lines that it is said to print."""
    for block in re.findall(r"^```\w*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.replace("\\\n", " ").partition("\n")
            if output.strip():
                yield shlex.split(command), output.rstrip().splitlines()


def fits(quoted, printed):
    pattern = "".join(r"(.*\n)*" if line == "..." else re.escape(line) + r" *\n" for line in quoted)
    return re.fullmatch(pattern, printed.lstrip("\n")) is not None


assert fits(["a", "...", "d"], "a  \nb\nc\nd\n") and fits(["...", "d"], "d\n")
assert not fits(["a", "d"], "a\nb\nd\n") and not fits(["a", "..."], "b\na\n")

folder = pathlib.Path(tempfile.mkdtemp())
for name, expected in pages.items():
    page = (docs / name).read_text()
    writer = re.search(r"^examples/algorithms/(\w+\.py) (.*) > (my\.json)\b", page, re.MULTILINE)
    if writer:
        words = [sys.executable, sources / writer[1], *writer[2].split()]
        (folder / writer[3]).write_bytes(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    quoted = list(quotations(page))
    assert len(quoted) == expected, (name, [command for command, _ in quoted])
    for (program, *arguments), lines in quoted:
        done = subprocess.run([programs[program].resolve(), *arguments], capture_output=True, text=True,
                              timeout=120, cwd=folder)
        assert done.returncode == 0 and fits(lines, done.stdout), (
            f"docs/{name} quotes {program} {shlex.join(arguments)} otherwise; it prints\n{done.stdout}{done.stderr}")
