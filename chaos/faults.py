"""The kinds of faults, and a sequence of them drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

# What is killed of the pipeline, by the names of its processes; then the services; then all that is no kill.
KILLS = ("driver", "java", "worker", "state-server", "in-process", "daemon", "zygote", "fork-server", "executor")
SERVICES = ("broker", "redis", "postgres", "registry", "store")
CUTS = tuple(f"cut-{name}" for name in SERVICES)
STALLS = (*(f"stall-{name}" for name in SERVICES), "stall-webhook", "fail-webhook")
FREEZES = (
    *("freeze-driver", "freeze-java", "freeze-state-server", "freeze-in-process"),
    *(f"freeze-{name}" for name in SERVICES),
)
DISKS = ("disk-full",)
RECORDS = ("poison", "storm", "clock-ahead", "clock-behind", "clock-far")
# Those of the decision API: its processes killed; callers cut off, and the replica from its checkpoint; its processes
# frozen, or all of the pipeline, so that the log lags; no byte for its ledger; event times of callers hours off.
API_KILLS = ("api", "follower", "fork")
API_FREEZES = ("freeze-api", "freeze-follower", "freeze-fork", "freeze-run")
OF_THE_API = (*API_KILLS, "cut-api", "stall-api", "cut-follower", *API_FREEZES, "disk-api", "clock-caller")
KINDS = (*KILLS, *SERVICES, *CUTS, *STALLS, *FREEZES, *DISKS, *RECORDS, *OF_THE_API)
# Those that only take a moment; all others are over after ``seconds``.
AT_ONCE = frozenset((*KILLS, *API_KILLS))
# Before one of them is struck the senders get a new schema: one that is known is asked for once.
OF_THE_REGISTRY = frozenset(kind for kind in KINDS if kind.rpartition("-")[2] == "registry")
SECONDS = (1.0, 8.0)
# Of faults, how many are several at once; and how many are struck before the one before is got over.
TOGETHER = 0.25
HURRIED = 0.2
TOGETHER_MAX = 4


@dataclass(frozen=True, slots=True)
class Fault:
    """One or more kinds at once, for so many ``seconds``; ``hurried``: the next does not wait until it is got over."""

    number: int
    kinds: tuple[str, ...]
    seconds: float
    pause_s: float
    hurried: bool

    @property
    def name(self) -> str:
        """The kinds in one word."""
        return " + ".join(self.kinds)


def possible(*, executors: bool, store: bool, registry: bool, api: bool) -> list[str]:
    """The kinds of faults that have a target in this drill."""
    there = {"executor": executors, "store": store, "registry": registry}
    return [kind for kind in KINDS if there.get(kind.rpartition("-")[2], True) and (api or kind not in OF_THE_API)]


def drawn(seed: int, count: int, kinds: Sequence[str] = KINDS) -> list[Fault]:
    """``count`` faults: each kind in turn, in an order of its own each round, now and then several at once."""
    draw = random.Random(seed)
    faults: list[Fault] = []
    waiting: list[str] = []

    def following() -> str:
        if not waiting:
            waiting.extend(draw.sample(list(kinds), len(kinds)))
        return waiting.pop()

    for number in range(1, count + 1):
        several = draw.randint(2, TOGETHER_MAX) if draw.random() < TOGETHER else 1
        chosen = tuple(dict.fromkeys(following() for _ in range(several)))
        seconds = round(draw.uniform(*SECONDS), 1)
        pause_s, hurried = round(draw.uniform(0.5, 4.0), 1), draw.random() < HURRIED
        faults.append(Fault(number, chosen, seconds, pause_s, hurried))
    return faults
