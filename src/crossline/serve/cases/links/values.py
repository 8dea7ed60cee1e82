"""A graph of entities: those that stand in the same alerts are linked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Entity = tuple[str, str]  # a field, and its value


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """What a walk costs at most.

    ``entities``: in all; ``beside``: neighbours of one; ``cases``: of one entity, the latest; ``alerts``:
    that are read in all.
    """

    entities: int = 100
    beside: int = 30
    cases: int = 12
    alerts: int = 1_500


BOUNDS = LinkLimits()


@dataclass(frozen=True, slots=True)
class Linked:
    """An entity of the graph.

    ``steps``: how far it is from the first. ``joins``: whether alerts that have it belong together; one that only finds
    cases is shown, and not gone on from. ``cases``: how many have it; ``numbers``: those that were read, the latest
    first; ``fraud``: how many of these were resolved as fraud. ``severity``, ``decision``: the gravest of its alerts,
    by their places; -1: none. ``more``: how many entities beside it the graph has not, of those that were read.
    """

    entity: Entity
    steps: int
    joins: bool
    cases: int
    numbers: tuple[int, ...]
    fraud: int
    severity: int
    decision: int
    more: int


@dataclass(frozen=True, slots=True)
class EntityLink:
    """Two entities, by their places among all, and in how many alerts and cases both stand; ``last_ms``: the latest."""

    source: int
    target: int
    alerts: int
    cases: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a bounded graph has not. ``entities``: that are known; ``cases``: whose alerts were not read."""

    entities: int = 0
    cases: int = 0


@dataclass(frozen=True, slots=True)
class Graph:
    """Entities by their steps from the first, and what links them."""

    entities: Sequence[Linked]
    links: Sequence[EntityLink]
    left_out: LeftOut = field(default_factory=LeftOut)
