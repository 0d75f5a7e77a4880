"""The examples of docs/your-algorithm.md: short, proven, alike in both forms, and right when they run.

algorithms.py examples/algorithms RECURSIVE_MULTIPLYING WEFT_BENCH
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sources, tool, bench = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
folder = pathlib.Path(tempfile.mkdtemp())


def well(*command, **where):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **where)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


for name in ("recursive_multiplying.cc", "recursive_multiplying.py"):
    assert len((sources / name).read_text().splitlines()) < 100, name

assert "\nrecursive_multiplying: recursive doubling in groups" in well(tool, "list")
proof = well(tool, "verify", "--algorithm", "recursive_multiplying", "--ranks", "1-33")
assert "2,3,4" in proof and " 0 failed" in proof, proof

# The JSON in the page is an algorithm.
page = (sources / "../../docs/your-algorithm.md").read_text()
swap = folder / "swap.json"
swap.write_text(page.split("```json\n")[1].split("```")[0])
assert "all_reduce of 2 ranks: proven, in place too" in well(tool, "verify", swap)

# The line in the page makes a program of a file outside the tree. It is of the release build.
root = (sources / "../..").resolve()
line = next(line for line in page.splitlines() if line.startswith("g++ "))
if shutil.which("g++") and pathlib.Path(tool).resolve().parent == root / "build/release/bin":
    mine = shutil.copy(sources / "recursive_multiplying.cc", folder / "mine.cc")
    well(*({"mine.cc": mine, "mine": folder / "mine"}.get(word, word) for word in line.split()), cwd=root)
    assert "\nrecursive_multiplying: recursive doubling in groups" in well(folder / "mine", "list")

# Python writes the schedules that the C++ function makes.
ranks = [1, 2, 3, 4, 9, 11, 27]
by_hand, exported, once_more = (folder / name for name in ("hand.json", "export.json", "more.json"))
by_hand.write_text(well(sys.executable, sources / "recursive_multiplying.py", 3, *ranks))
well(tool, "import", by_hand, "-o", once_more)
well(tool, "export", "--algorithm", "recursive_multiplying", "--radix", 3, "--ranks", "1-27", "-o", exported)
made = {s["collective"]["ranks"]: s for s in json.loads(exported.read_text())["schedules"]}
assert json.loads(once_more.read_text())["schedules"] == [made[n] for n in ranks]

for n in (3, 4):
    for transport in ("shm", "tcp"):
        out = well(bench, "all_reduce", "--algorithm", by_hand, "--ranks", n, "--threads", "--transport", transport,
                   "-o", "sum,max", "-d", "float32,int8", "-e", "1M", "-f", 16, "-n", 1, "-w", 0, "--no-floor")
        assert "Out of bounds values : 0 OK" in out and "recursive_multiplying/simple" in out, out
