"""What the check for machines with GPUs is made of: a step is a command and how it is judged."""

import dataclasses
import json
import pathlib

SKIPPED = 77


@dataclasses.dataclass
class Ended:
    status: int | None  # None: killed at its limit
    text: str
    seconds: float


@dataclasses.dataclass
class Step:
    name: str
    command: list
    limit_s: float
    judge: object = None  # of Ended: what is wrong, or None; raises Skip
    environment: dict = None
    skip: str = ""        # why it is not run
    figures: pathlib.Path = None
    told: object = None   # of the rows of a step that measures: what to say of them


class Skip(Exception):
    pass


def exited(ended):
    if ended.status is None:
        return "it did not end within its limit"
    lines = [line for line in ended.text.splitlines() if line.strip()]
    return None if ended.status == 0 else f"exit status {ended.status}: {lines[-1] if lines else 'no output'}"


def skip(ended):
    raise Skip(ended.text.strip().splitlines()[-1])


def read_figures(figures):
    try:
        return json.loads(figures.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def read_rows(figures):
    found = read_figures(figures)
    return found.get("rows", found.get("benchmarks", []))
