#!/usr/bin/env python3
"""Recursive multiplying as a JSON file, by following docs/your-algorithm.md.

recursive_multiplying.py RADIX RANKS... > my.json; the algorithm is that of recursive_multiplying.cc.
"""
import json
import sys

INPUT, OUTPUT = {"buffer": "input"}, {"buffer": "output"}


def scratch(slot):
    return {"buffer": "scratch", "slot": slot}


def step(**parts):
    return {"chunk": 0, **parts}


def send(value, peer):
    return step(sources=[value], to={"peer": peer})


def program(me, ranks, radix):
    core = 1
    while core * radix <= ranks:
        core *= radix
    guests = range(me + core, ranks, core)
    if me >= core:
        host = me % core
        return [send(INPUT, host), step(**{"from": {"peer": host}, "targets": [OUTPUT]})]
    steps, mine, total = [], INPUT, scratch(radix)
    for guest in guests:
        steps.append(step(**{"from": {"peer": guest}, "sources": [mine], "targets": [total]}))
        mine = total
    distance = 1
    while distance < core:
        digit = me // distance % radix
        peers = {d: me + (d - digit) * distance for d in range(radix) if d != digit}
        steps += [send(mine, peer) for peer in peers.values()]
        steps += [step(**{"from": {"peer": peer}, "targets": [scratch(d)]}) for d, peer in peers.items()]
        values = [mine if d == digit else scratch(d) for d in range(radix)]
        steps.append(step(sources=values, targets=[total]))
        mine = total
        distance *= radix
    steps.append(step(sources=[mine], targets=[OUTPUT], finish=True))
    return steps + [send(OUTPUT, guest) for guest in guests]


def schedule(ranks, radix):
    programs = [{"scratch_slots": radix + 1, "lanes": [{"steps": program(me, ranks, radix)}]}
                for me in range(ranks)]
    return {"collective": {"kind": "all_reduce", "ranks": ranks}, "programs": programs}


radix, *ranks = map(int, sys.argv[1:])
if radix < 2 or not ranks or min(ranks) < 1:
    sys.exit("recursive_multiplying.py RADIX RANKS...: a radix of 2 or more, and numbers of ranks")
json.dump({"name": "recursive_multiplying", "schedules": [schedule(n, radix) for n in ranks]}, sys.stdout)
