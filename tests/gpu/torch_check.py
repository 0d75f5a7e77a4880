#!/usr/bin/env python3
"""PyTorch on weft: torch.distributed with backend nccl, where libnccl.so.2 is weft's (LD_PRELOAD). Usage:
torch_check.py RANKS [--one-gpu]; a GPU for each, or all on one GPU. Exit status 77 where PyTorch or its CUDA is not
there."""

import os
import socket
import subprocess
import sys

SKIPPED = 77
COUNT = 1001


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_ranks(ranks):
    environment = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    children = [subprocess.Popen([sys.executable, "-B", *sys.argv], env={**environment, "RANK": str(rank)})
                for rank in range(ranks)]
    return max(abs(child.wait(600)) for child in children)


def mine(torch, rank, count=COUNT):
    return torch.arange(count, dtype=torch.float32, device="cuda") * (rank + 1) + rank


def expect(torch, what, got, wanted):
    if not torch.equal(got.cpu(), wanted.cpu()):
        raise SystemExit(f"{what} is wrong: {got[:4].tolist()}..., not {wanted[:4].tolist()}...")


def collectives(torch, dist, rank, size):
    inputs = [mine(torch, r) for r in range(size)]
    total = sum(inputs)
    value = inputs[rank].clone()
    dist.all_reduce(value)
    expect(torch, "all_reduce", value, total)
    value = inputs[rank].clone()
    dist.reduce(value, 0)
    if rank == 0:
        expect(torch, "reduce", value, total)
    value = inputs[rank].clone()
    dist.broadcast(value, size - 1)
    expect(torch, "broadcast", value, inputs[size - 1])
    gathered = torch.empty(size * COUNT, device="cuda")
    dist.all_gather_into_tensor(gathered, inputs[rank])
    expect(torch, "all_gather", gathered, torch.cat(inputs))
    parts = [mine(torch, r, size * COUNT) for r in range(size)]
    part = torch.empty(COUNT, device="cuda")
    dist.reduce_scatter_tensor(part, parts[rank])
    expect(torch, "reduce_scatter", part, sum(parts)[rank * COUNT:(rank + 1) * COUNT])
    exchanged = torch.empty(size * COUNT, device="cuda")
    dist.all_to_all_single(exchanged, parts[rank])
    expect(torch, "all_to_all", exchanged, torch.cat([p[rank * COUNT:(rank + 1) * COUNT] for p in parts]))


def neighbours(torch, dist, rank, size):
    if size == 1:
        return
    got = torch.empty(COUNT, device="cuda")
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine(torch, rank), (rank + 1) % size),
                                    dist.P2POp(dist.irecv, got, (rank - 1) % size)])
    for work in works:
        work.wait()
    expect(torch, "send and receive", got, mine(torch, (rank - 1) % size))


def trained(torch, inputs, wrap):
    torch.manual_seed(1)
    model = wrap(torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def training(torch, device, rank, size):
    """Steps of DistributedDataParallel are those of one process that has all the data."""
    torch.manual_seed(2)
    data = torch.randn(size * 32, 64).cuda()
    alone = trained(torch, data, lambda model: model)
    wrap = torch.nn.parallel.DistributedDataParallel
    together = trained(torch, data[rank * 32:(rank + 1) * 32], lambda model: wrap(model, device_ids=[device.index]))
    if not torch.allclose(alone, together, rtol=1e-4, atol=1e-6):
        raise SystemExit(f"training differs by up to {(alone - together).abs().max().item()}")


def graphs(torch, dist, rank, size):
    value = torch.zeros(COUNT, device="cuda")
    dist.all_reduce(value)  # makes the communicator, which a capture must not
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(value)
    for turn in range(3):
        value.fill_(turn + rank)
        graph.replay()
        torch.cuda.synchronize()
        expect(torch, "a graph's all_reduce", value, torch.full((COUNT,), float(sum(turn + r for r in range(size)))))


def main():
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        print(f"there is no PyTorch: {error}")
        return SKIPPED
    if not torch.cuda.is_available() or not dist.is_nccl_available():
        print("this PyTorch has no CUDA, or no nccl")
        return SKIPPED
    if "RANK" not in os.environ:
        return start_ranks(int(sys.argv[1]))
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", 0 if "--one-gpu" in sys.argv else rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    collectives(torch, dist, rank, size)
    neighbours(torch, dist, rank, size)
    training(torch, device, rank, size)
    graphs(torch, dist, rank, size)
    dist.barrier()
    dist.destroy_process_group()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        print(f"rank {rank} of {size}: all right, by", *{line.split()[-1] for line in maps if "libnccl" in line})
    return 0


if __name__ == "__main__":
    sys.exit(main())
