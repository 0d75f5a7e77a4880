"""The adapters with their real libraries: peers.py WEFT_BENCH

Every adapter that was built gives right results over shared memory and over TCP, and --vs compares
with all of them. 77 (skipped) where none was built.
"""
import json
import os
import subprocess
import sys
import tempfile

BENCH = sys.argv[1]
FOLDER = os.path.dirname(BENCH)
PEERS = [peer for peer in ("openmpi", "mpich", "gloo") if os.path.exists(f"{FOLDER}/weft-peer-{peer}")]
# Without types for which these libraries are known to be wrong: Open MPI 4.1 saturates sums of 8
# and 16 bits, MPICH 4.0 takes the least and the largest of unsigned numbers as if they had a sign.
SWEEP = "all -d int32,int64,float32,float64,complex64 -o sum,prod,min,max -r all -b 1 -e 32K -f 8 -n 2 -w 0".split()


def run(command, environment):
    print("$", " ".join(command), flush=True)
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, timeout=200)
    if ended.returncode != 0:
        sys.exit(f"{ended.stdout}\nexit status {ended.returncode}")
    return ended.stdout


def main():
    if not PEERS:
        print("skipped: no adapter was built")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        # Open MPI's mpiruns that start at the same moment fail over a common session directory.
        environment = dict(os.environ, TMPDIR=scratch)
        for peer in PEERS:
            for transport in ("shm", "tcp"):
                output = run([f"{FOLDER}/weft-peer-{peer}", *SWEEP, "--ranks", "2", "--transport", transport],
                             environment)
                assert "# Out of bounds values : 0 OK" in output, output
        report = f"{scratch}/report.json"
        run([BENCH, "all_reduce,broadcast", "--vs", ",".join(PEERS), "--rounds", "2", "-b", "64", "-e", "4K",
             "-n", "5", "-J", report], environment)
        with open(report) as file:
            told = json.load(file)
        bound = [library["run"]["options"]["bind"] for library in told["libraries"]]
        assert bound == [True] + [False] * len(PEERS), f"by weft-bench: {bound}"
        rows = told["rows"]
        assert len(rows) == 8, rows
        for row in rows:
            assert row["best_peer"] in PEERS and row["ratio"] > 0 and row["floor_us"] > 0, row
            for library in ("weft", *PEERS):
                times = row["libraries"][library]  # of more rounds where the cores move
                assert 2 <= len(times["times_us"]) + len(times.get("other_times_us", [])) <= 6, row


main()
