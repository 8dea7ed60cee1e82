"""Assigns parts of the shards to executors: a function of the live executors and the former assignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction


def assign_parts(
    parts: int, cores: Mapping[str, int], before: Sequence[str] = (), standbys: Sequence[str] = ()
) -> tuple[str, ...]:
    """The executor of each part; none where there is no executor.

    ``cores``: of each executor that is there, by its id. ``before``: the answer before, in which executors may stand
    that are gone. ``standbys``: the executor that follows each part (see ``assign_standbys``); as far as shares allow,
    it gets the part of a lost one.

    Each gets its share by cores, to within one part: so no more than it has cores, where there are enough for all. As
    few parts move as can be, and the same input gives the same answer.
    """
    if not cores:
        return ()
    kept = [before[part] if part < len(before) and before[part] in cores else None for part in range(parts)]
    due = _due(parts, cores, {name: kept.count(name) for name in cores})
    for part, name in enumerate(kept):
        if name is not None:
            due[name] -= 1
            if due[name] < 0:
                due[name], kept[part] = 0, None
    for part, name in enumerate(standbys[:parts]):
        if kept[part] is None and due.get(name, 0) > 0:
            kept[part] = name
            due[name] -= 1
    waiting = iter([name for name in sorted(cores, key=_order) for _ in range(due[name])])
    return tuple(next(waiting) if name is None else name for name in kept)


def assign_standbys(executor_of_part: Sequence[str], host_of: Mapping[str, str]) -> tuple[int, ...]:
    """By part, the number of another one whose executor follows it; none where one executor has all parts.

    That executor is on another machine where there is one. The parts of one executor are followed by as many others as
    can be, so that each has some of them to take over.
    """
    parts_of: dict[str, list[int]] = {}
    for part, name in enumerate(executor_of_part):
        parts_of.setdefault(name, []).append(part)
    if len(parts_of) < 2:
        return ()
    follows, from_one = Counter[str](), Counter[tuple[str, str]]()
    found = []
    for mine in executor_of_part:
        others = [name for name in parts_of if name != mine]
        elsewhere = [name for name in others if host_of[name] != host_of[mine]] or others
        chosen = min(elsewhere, key=lambda name: (from_one[mine, name], follows[name], _order(name)))
        found.append(parts_of[chosen][follows[chosen] % len(parts_of[chosen])])
        follows[chosen] += 1
        from_one[mine, chosen] += 1
    return tuple(found)


def round_robin(executors: Sequence[str]) -> list[str]:
    """The same executors as often, one after the other: the first few of them are as many different ones as can be."""
    turns: Counter[str] = Counter()
    turn_of = []
    for name in executors:
        turn_of.append((turns[name], name))
        turns[name] += 1
    return [name for _, name in sorted(turn_of, key=lambda each: (each[0], _order(each[1])))]


def _due(parts: int, cores: Mapping[str, int], kept: Mapping[str, int]) -> dict[str, int]:
    """How many parts each gets: the whole of its share, and one more where something is left, first who has it."""
    every = sum(cores.values())
    share = {name: Fraction(parts * count, every) for name, count in cores.items()}
    due = {name: int(share[name]) for name in cores}
    broken = [name for name in cores if share[name] > due[name]]
    broken.sort(key=lambda name: (kept[name] <= due[name], due[name] - share[name], _order(name)))
    for name in broken[: parts - sum(due.values())]:
        due[name] += 1
    return due


def _order(name: str) -> tuple[int, str]:
    """Spark numbers executors as they come: the tenth is after the ninth."""
    return (len(name), name)
