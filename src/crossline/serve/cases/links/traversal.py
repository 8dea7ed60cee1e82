"""Walks from an entity to those beside it in alerts, and on from these, as many steps as are asked for."""

from __future__ import annotations

from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.links.queries import EntityLinks, LinkReader, nearest
from crossline.serve.cases.links.values import BOUNDS, Entity, EntityLink, Graph, LeftOut, Linked, LinkLimits

DEPTH_MAX = 3
NUMBERS_MAX = 5


def walked(file: CaseFile, start: Entity, depth: int, bounds: LinkLimits = BOUNDS) -> Graph:
    """The entities up to ``depth`` steps from ``start``, itself the first of them, and the links between these.

    Of many the closest are kept: by steps, then by the alerts that they share. The others are counted.
    """
    with file.reading():
        reading = LinkReader(file, bounds)
        steps: dict[Entity, int] = {start: 0}
        dropped: set[Entity] = set()
        ring = [start]
        for step in range(1, depth + 1):
            ring = _ring(reading, ring, step, steps, dropped, bounds)
        for entity in ring:  # how they stand themselves, and the links between them
            if reading.known[entity].joins:
                reading.beside(entity)
        counts = {entity: reading.count(entity) for entity in steps}
    return _graph(reading, steps, counts, LeftOut(len(dropped - steps.keys()), reading.cases_left))


def _ring(
    reading: LinkReader,
    ring: list[Entity],
    step: int,
    steps: dict[Entity, int],
    dropped: set[Entity],
    bounds: LinkLimits,
) -> list[Entity]:
    """The entities one step beyond a ring, which ``steps`` has then too; ``dropped`` has those that do not fit."""
    found: list[Entity] = []
    for entity in ring:
        if steps[entity] and not reading.known[entity].joins:
            continue
        near = nearest(reading.beside(entity), steps)
        kept = near[: min(bounds.beside, bounds.entities - len(steps))]
        steps |= dict.fromkeys(kept, step)
        found += kept
        dropped |= set(near[len(kept) :])
    return found


def _graph(reading: LinkReader, steps: dict[Entity, int], counts: dict[Entity, int], left_out: LeftOut) -> Graph:
    at = {entity: number for number, entity in enumerate(steps)}
    known = {entity: reading.known.get(entity, EntityLinks()) for entity in at}
    pairs = {
        (at[one], at[other]): pair
        for one, mine in known.items()
        for other, pair in mine.beside.items()
        if other in at and at[one] < at[other]
    }
    links = [EntityLink(*ends, pair.alerts, len(pair.cases), pair.last_ms) for ends, pair in sorted(pairs.items())]
    entities = []
    for entity, mine in known.items():
        numbers = tuple(sorted(mine.cases, reverse=True)[:NUMBERS_MAX])
        more, fraud = len(mine.beside.keys() - at.keys()), sum(mine.cases.values())
        graves = mine.severity, mine.decision
        entities.append(Linked(entity, steps[entity], mine.joins, counts[entity], numbers, fraud, *graves, more))
    return Graph(entities, links, left_out)
