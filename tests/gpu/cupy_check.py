#!/usr/bin/env python3
"""CuPy on weft: cupy.cuda.nccl, where libnccl.so.2 is weft's (LD_PRELOAD). One rank on one GPU. Exit status 77 where
CuPy or its nccl is not there."""

import sys

SKIPPED = 77
COUNT = 1001


def main():
    try:
        import cupy
        from cupy.cuda import nccl
    except ImportError as error:
        print(f"there is no CuPy with nccl: {error}")
        return SKIPPED
    communicator = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0)
    values, sums = cupy.arange(COUNT, dtype=cupy.float32), cupy.zeros(COUNT, dtype=cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    communicator.allReduce(values.data.ptr, sums.data.ptr, COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
    stream.synchronize()
    if not bool((values == sums).all()):
        raise SystemExit(f"all_reduce is wrong: {sums[:4]}")
    print("all right, by NCCL", nccl.get_version())
    return 0


if __name__ == "__main__":
    sys.exit(main())
