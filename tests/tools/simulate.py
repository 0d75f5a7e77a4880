"""What weft-schedule simulate prints and refuses. simulate.py WEFT_SCHEDULE"""
import json
import shutil
import subprocess
import sys
import tempfile


def run(*arguments):
    done = subprocess.run([sys.argv[1], "simulate", *arguments], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def cells(*arguments):
    status, out, err = run("--format", "json", *arguments)
    assert status == 0, err
    return json.loads(out)["rows"]


def refused(*arguments, saying):
    status, out, err = run(*arguments)
    assert status == 2 and saying in err, (status, err)


rows = cells("--ranks", "8-100", "--bytes", "8-1M", "--algorithm", "ring,knomial")
assert sorted({row["ranks"] for row in rows}) == [8, 64, 100]
assert [row["bytes"] for row in rows[:8:2]] == [8, 64, 512, 4096]
assert all(row["time_us"] >= row["bound_us"] > 0 for row in rows)
ring = [row for row in rows if row["algorithm"] == "ring" and row["ranks"] == 64]
assert all(row["ranks_played"] == 8 for row in ring)

status, table, _ = run("--ranks", "4", "--bytes", "1K")
assert status == 0 and "*" in table and "recursive_doubling" in table, table
assert ', network "nvlink", 1 lane, segments of 64K, microseconds;' in table, table
status, table, err = run("--ranks", "4", "--bytes", "64M", "--algorithm", "ring", "--lanes", "16", "--segment", "1M", "--slot", "1M")
assert status == 0 and err == "" and "16 lanes, segments of 1M" in table, (table, err)
status, table, err = run("--ranks", "4", "--bytes", "64M", "--algorithm", "ring", "--slot", "1M")
assert status == 0 and "no chunk is longer than --segment 64K" in err, err
status, table, _ = run("--ranks", "16-128", "--bytes", "1K", "--algorithm", "ring,direct_two_shot")
assert status == 0 and "direct_two_shot does not serve all_reduce of 128 ranks" in table, table

# Prices are found on all cores, and printed in order.
status, table, _ = run("--ranks", "16", "--bytes", "8-1M", "--factor", "2")
sizes = [row.split()[0] for row in table.splitlines()[3:]]
assert status == 0 and sizes == [f"{n}{unit}" for unit in ("", "K") for n in (2**i for i in range(10))][3:] + ["1M"], sizes

# A network of one's own: what is slower there is slower in the figures.
with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    file.write('{"name": "slow", "inside": {"latency_us": 100}}')
    file.flush()
    slow = cells("--ranks", "4", "--bytes", "8", "--topology", file.name, "--algorithm", "ring")
assert slow[0]["time_us"] >= 600, slow

# Columns stay apart however long their figures are, and no message goes without a limit.
with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    file.write('{"name": "slow", "inside": {"port_gbytes": 1e-6}}')
    file.flush()
    status, table, _ = run("--ranks", "4", "--bytes", "1024T", "--topology", file.name, "--algorithm", "ring,knomial")
    assert status == 0 and len(table.splitlines()[3].split()) == 4, table
    file.seek(0)
    file.write('{"name": "none", "inside": {"port_gbytes": 0e-6}}')
    file.flush()
    assert cells("--ranks", "4", "--bytes", "1K", "--topology", file.name, "--algorithm", "ring")[0]["time_us"] < 1

# A trace: every step of every rank, on the lane that it belongs to, none longer than the whole.
with tempfile.NamedTemporaryFile(suffix=".json") as file:
    one = cells("--ranks", "4", "--bytes", "1K", "--algorithm", "ring", "--trace", file.name)
    trace = json.load(open(file.name))
steps = [event for event in trace["traceEvents"] if event["ph"] == "X"]
assert len(steps) == 4 * 7, len(steps)
assert {event["pid"] for event in steps} == {1, 3, 5, 7}
names = {event["pid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
assert names == {2 * rank + 1: f"rank {rank} simulated" for rank in range(4)}, names
assert abs(max(event["ts"] + event["dur"] for event in steps) - one[0]["time_us"]) < 1e-6
assert any(event["name"].startswith("recv_reduce") for event in steps)
refused("--trace", "/tmp/x", "--ranks", "4-8", saying="one case")
refused("--trace", "/nowhere/x", "--ranks", "4", "--bytes", "8", "--algorithm", "ring", saying="/nowhere/x")

# A picture, where there is a program that draws.
if shutil.which("gnuplot"):
    for ending, begin in (("svg", b"<?xml"), ("png", b"\x89PNG")):
        with tempfile.NamedTemporaryFile(suffix="." + ending) as file:
            cells("--ranks", "4-8", "--factor", "2", "--bytes", "8-1K", "--plot", file.name)
            assert open(file.name, "rb").read(5).startswith(begin), ending
    refused("--bytes", "8-64", "--ranks", "4", "--plot", "/nowhere/x.svg", saying="/nowhere/x.svg")
refused("--bytes", "8", "--plot", "x.svg", saying="a range of --bytes")
refused("--bytes", "8-64", "--plot", "x.gif", saying="neither in .svg nor in .png")

for budget in "nan", "inf", "999", "-5", "0", "1e4x", "":
    refused("--budget", budget, saying=f'--budget takes a number of steps from 1000 to 10^12, not "{budget}"')
assert cells("--ranks", "4", "--bytes", "8", "--budget", "1e4") == cells("--ranks", "4", "--bytes", "8", "--budget", "10000")
refused("--topology", "/nowhere.json", saying="nvlink")
refused("--collective", "all_deduce", saying="all_deduce")
refused("--algorithm", "magic", saying="magic")
refused("--ranks", "0", saying="--ranks")
refused("--bytes", "1M-1K", saying='--bytes "1M-1K" ends before it begins; write 1K-1M.')
refused("--ranks", "100-8", saying='--ranks "100-8" ends before it begins; write 8-100.')
refused("--ranks", "8-0", saying='"0" is not a number from 1 to')
refused("--ranks", "100-128", "--algorithm", "direct_two_shot", saying="it serves all_reduce of 1-64 ranks.")
refused("--collective", "gather", "--algorithm", "ring",
        saying="it serves all_reduce, reduce, broadcast, all_gather, reduce_scatter.")
refused("--topology", "torus", "--ranks", "8192", saying="too few")

# Jobs that would take more memory than there is say so.
for ranks in 46340, 65536:
    row, = cells("--ranks", str(ranks), "--collective", "all_to_all", "--bytes", "1G", "--algorithm", "pairwise")
    assert f"all_to_all of {ranks} ranks has {ranks**2} blocks" in row["why_not"], row
