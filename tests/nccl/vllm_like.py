#!/usr/bin/env python3
"""Loads the library and calls it as vLLM does: by ctypes, with a table of names and types, one process per
rank. Usage: vllm_like.py [LIBRARY [RANKS]]; without LIBRARY it is the one that VLLM_NCCL_SO_PATH names, as vLLM
has it. WEFT_RANKS_ID in the environment makes it one rank."""

import array
import ctypes
import os
import subprocess
import sys

COUNT = 257


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


RESULT, COMM, STREAM, BUFFER = ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
SIZE, ENUM = ctypes.c_size_t, ctypes.c_int

FUNCTIONS = {
    "ncclGetErrorString": (ctypes.c_char_p, [RESULT]),
    "ncclGetVersion": (RESULT, [ctypes.POINTER(ctypes.c_int)]),
    "ncclGetUniqueId": (RESULT, [ctypes.POINTER(UniqueId)]),
    "ncclCommInitRank": (RESULT, [ctypes.POINTER(COMM), ctypes.c_int, UniqueId, ctypes.c_int]),
    "ncclAllReduce": (RESULT, [BUFFER, BUFFER, SIZE, ENUM, ENUM, COMM, STREAM]),
    "ncclReduce": (RESULT, [BUFFER, BUFFER, SIZE, ENUM, ENUM, ctypes.c_int, COMM, STREAM]),
    "ncclAllGather": (RESULT, [BUFFER, BUFFER, SIZE, ENUM, COMM, STREAM]),
    "ncclReduceScatter": (RESULT, [BUFFER, BUFFER, SIZE, ENUM, ENUM, COMM, STREAM]),
    "ncclSend": (RESULT, [BUFFER, SIZE, ENUM, ctypes.c_int, COMM, STREAM]),
    "ncclRecv": (RESULT, [BUFFER, SIZE, ENUM, ctypes.c_int, COMM, STREAM]),
    "ncclBroadcast": (RESULT, [BUFFER, BUFFER, SIZE, ENUM, ctypes.c_int, COMM, STREAM]),
    "ncclCommDestroy": (RESULT, [COMM]),
    "ncclGroupStart": (RESULT, []),
    "ncclGroupEnd": (RESULT, []),
    "ncclCommWindowRegister": (RESULT, [COMM, BUFFER, SIZE, ctypes.POINTER(ctypes.c_void_p), ENUM]),
    "ncclCommWindowDeregister": (RESULT, [COMM, ctypes.c_void_p]),
}
FLOAT32, SUM = 7, 0


class Library:
    """Every function of the table, which raises where it does not succeed."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function if result is ctypes.c_char_p else self.checked(function, name))

    def checked(self, function, name):
        def call(*arguments):
            result = function(*arguments)
            if result != 0:
                raise RuntimeError(f"{name}: {self.ncclGetErrorString(result).decode()}")
        return call


def at(numbers):
    return numbers.buffer_info()[0]


def floats(count, value=0.0):
    return array.array("f", [value] * count)


def expect(numbers, wanted, what):
    if list(numbers) != list(wanted):
        raise AssertionError(f"{what}: {list(numbers)[:8]}")


def run_rank(nccl, rank, ranks, unique_id):
    comm = COMM()
    nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique_id, rank)
    mine, out = floats(COUNT, rank + 1.0), floats(COUNT)
    total = ranks * (ranks + 1) / 2
    nccl.ncclAllReduce(at(mine), at(out), COUNT, FLOAT32, SUM, comm, None)
    expect(out, [total] * COUNT, "all_reduce")
    nccl.ncclReduce(at(mine), at(out), COUNT, FLOAT32, SUM, 0, comm, None)
    nccl.ncclBroadcast(at(mine), at(out), COUNT, FLOAT32, ranks - 1, comm, None)
    expect(out, [ranks] * COUNT, "broadcast")
    every = floats(COUNT * ranks)
    nccl.ncclAllGather(at(mine), at(every), COUNT, FLOAT32, comm, None)
    expect(every, [r + 1 for r in range(ranks) for _ in range(COUNT)], "all_gather")
    nccl.ncclReduceScatter(at(every), at(out), COUNT, FLOAT32, SUM, comm, None)
    expect(out, [ranks * (rank + 1)] * COUNT, "reduce_scatter")
    nccl.ncclGroupStart()
    nccl.ncclSend(at(mine), COUNT, FLOAT32, (rank + 1) % ranks, comm, None)
    nccl.ncclRecv(at(out), COUNT, FLOAT32, (rank - 1) % ranks, comm, None)
    nccl.ncclGroupEnd()
    expect(out, [(rank - 1) % ranks + 1] * COUNT, "send and recv")
    nccl.ncclCommDestroy(comm)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("VLLM_NCCL_SO_PATH")
    if not path:
        sys.exit("Name the library, or set VLLM_NCCL_SO_PATH.")
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    nccl = Library(path)
    unique_id = UniqueId()
    if given := os.environ.get("WEFT_RANKS_ID"):
        rank, text = given.split(":", 1)
        ctypes.memmove(ctypes.byref(unique_id), bytes.fromhex(text), 128)
        run_rank(nccl, int(rank), ranks, unique_id)
        return 0
    version = ctypes.c_int()
    nccl.ncclGetVersion(ctypes.byref(version))
    nccl.ncclGetUniqueId(ctypes.byref(unique_id))
    text = bytes(unique_id.internal).hex()
    started = [subprocess.Popen([sys.executable, "-B", *sys.argv],
                                env=dict(os.environ, WEFT_RANKS_ID=f"{rank}:{text}"))
               for rank in range(ranks)]
    ends = [process.wait() for process in started]
    print(f"version {version.value}, ranks ended with {ends}")
    return 1 if any(ends) else 0


if __name__ == "__main__":
    sys.exit(main())
