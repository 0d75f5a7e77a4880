#!/usr/bin/env python3
"""Runs a test of GPUs by ranks that are processes, on so many hosts: gpu_processes.py TEST RANKS [HOSTS]. Every process
runs the same tests, and is one rank of each (tests/nccl/gpu_ranks.h). Exit status 77 where the first one says that."""

import os
import subprocess
import sys
import tempfile

test, ranks = sys.argv[1], int(sys.argv[2])
hosts = int(sys.argv[3]) if len(sys.argv) > 3 else 1

with tempfile.TemporaryDirectory() as folder:
    environment = {**os.environ, "WEFT_TEST_FOLDER": folder, "GTEST_FILTER": "*GpuRanks*"}
    processes = [subprocess.Popen([test], env={**environment, "WEFT_TEST_RANK": str(rank), "WEFT_HOST": f"host-{rank % hosts}"},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(ranks)]
    outputs = [process.communicate()[0] for process in processes]
statuses = [process.returncode for process in processes]
print(outputs[0], end="")
for rank in range(1, ranks):
    if statuses[rank] != 0:
        print(f"=== rank {rank} ended with status {statuses[rank]}:\n{outputs[rank]}", end="")
sys.exit(77 if statuses[0] == 77 else any(statuses))
