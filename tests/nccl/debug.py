#!/usr/bin/env python3
"""What NCCL_DEBUG and its kin print, and that settings which do nothing are reported once.
Usage: debug.py PROGRAM, which is nccl-calls."""

import os
import re
import subprocess
import sys
import tempfile


def run(program, **settings):
    """Standard output and error of the program on two processes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
    done = subprocess.run([program, "processes", "2"], check=True, text=True, capture_output=True,
                          env=environment | settings, timeout=60)
    return done.stdout, done.stderr


def expect(condition, what, text):
    if not condition:
        raise AssertionError(f"{what}:\n{text}")


def check_levels(program):
    out, _ = run(program)
    expect(out == "ok\n", "silent where nothing is asked for", out)
    out, _ = run(program, NCCL_DEBUG="VERSION")
    expect("NCCL version 2.28.9 (weft" in out and "INFO" not in out, "VERSION", out)
    out, _ = run(program, NCCL_DEBUG="INFO")
    expect("NCCL INFO" in out and "rank 1 nranks 2 hosts 1, over shared memory" in out, "INFO", out)
    expect("all_reduce(count=1000, float32, sum) of 2 ranks: algorithm " in out, "the choice", out)
    first = out.count("all_reduce(count=1000, float64, sum) of 2 ranks")
    expect(first == 2, "a choice is told once on every rank", out)


def check_subsystems(program):
    out, _ = run(program, NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT")
    expect("Init COMPLETE" in out and "algorithm" not in out, "INIT alone", out)
    out, _ = run(program, NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="^INIT")
    expect("Init COMPLETE" not in out and "algorithm" in out, "all but INIT", out)


def check_handles(program):
    """Every line about a communicator has its handle, and a rank."""
    out, _ = run(program, NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,COLL,TUNING")
    handle = r":(\d+):\d+ .* (comm 0x[0-9a-f]+)( \(.*\))? rank \d nranks \d"
    made = {found[:2] for found in re.findall(handle + ".* Init COMPLETE", out)}
    expect(len(made) >= 4, "a handle for each communicator, and its process", out)
    ended = {found[:2] for found in re.findall(handle + " - Destroy COMPLETE", out)}
    expect(ended == made, "the same at the end", out)
    for about in ("Init COMPLETE", "Destroy COMPLETE", "all_reduce("):
        lines = [line for line in out.splitlines() if about in line]
        expect(lines and all(re.search(handle, line) for line in lines), about, out)


def check_file(program):
    with tempfile.TemporaryDirectory() as folder:
        out, _ = run(program, NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=f"{folder}/of.%h.%p")
        expect(out == "ok\n", "a file instead of the output", out)
        names = os.listdir(folder)
        # The parent, which makes the id, opens one, too.
        expect(all(not "%" in name for name in names) and names, "names of files", names)
        text = "".join(open(os.path.join(folder, name), encoding="utf-8").read() for name in names)
        expect("Init COMPLETE" in text, "what is in the file", text)


def check_settings(program):
    out, _ = run(program, NCCL_DEBUG="INFO", NCCL_ALGO="Ring", NCCL_PROTO="Simple")
    expect("algorithm ring, protocol simple" in out, "NCCL_ALGO", out)
    out, _ = run(program, NCCL_DEBUG="INFO", NCCL_SHM_DISABLE="1", NCCL_SOCKET_IFNAME="=lo")
    expect("over tcp" in out and "over shm" not in out, "NCCL_SHM_DISABLE", out)
    _, err = run(program, NCCL_IB_HCA="mlx5", NCCL_P2P_LEVEL="NVL", NCCL_NET="Smoke")
    expect(err.count("NCCL_P2P_LEVEL=NVL does nothing here: it is about how NCCL itself uses GPUs") == 1, "once", err)
    expect("NCCL_IB_HCA" not in err and "NCCL_NET=Smoke is not there" in err, "all", err)


def check_values(program):
    _, err = run(program, NCCL_PROTO="SIMPEL", NCCL_ALGO="^NVLS", NCCL_SOCKET_NTHREADS="many")
    said = "NCCL_PROTO=SIMPEL means nothing, and is as if it were not set; it takes LL, "
    expect(err.count(said) == 1, "once", err)
    expect("NCCL_SOCKET_NTHREADS=many means nothing" in err and "NCCL_ALGO" not in err, "values", err)
    _, err = run(program, NCCL_PROTO="LL128", NCCL_ALGO="^Tree", NCCL_IB_QPS_PER_CONNECTION="0x10",
                 NCCL_SOCKET_NTHREADS="8", NCCL_NSOCKS_PERTHREAD="16", NCCL_MIN_CTAS="65")
    more = "is more than there can be; it is taken for"
    for setting in ("NCCL_PROTO=LL128 is ignored: weft takes one of LL, Simple for all calls",
                    "NCCL_ALGO=^Tree is ignored: weft takes one of Ring, Tree, PAT for all calls",
                    f"NCCL_IB_QPS_PER_CONNECTION=0x10 {more} 8", f"NCCL_MIN_CTAS=65 {more} 64",
                    f"NCCL_SOCKET_NTHREADS=8 times NCCL_NSOCKS_PERTHREAD {more} 64"):
        expect(err.count(setting) == 1, setting, err)
    expect("NCCL_NSOCKS_PERTHREAD=" not in err, "once for both", err)
    _, err = run(program, NCCL_SOCKET_NTHREADS="8", NCCL_NSOCKS_PERTHREAD="8", NCCL_MIN_CTAS="64")
    expect(more not in err, "as many as there can be", err)
    _, err = run(program, NCCL_NSOCKS_PERTHREAD="65")
    expect(err.count(f"NCCL_NSOCKS_PERTHREAD=65 {more} 64") == 1, "alone", err)


def main():
    program = sys.argv[1]
    check_levels(program)
    check_subsystems(program)
    check_handles(program)
    check_file(program)
    check_settings(program)
    check_values(program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
