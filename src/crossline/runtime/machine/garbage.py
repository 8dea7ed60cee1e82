"""How often Python looks for garbage in circles."""

from __future__ import annotations

import gc

OBJECTS = 50_000
OBJECTS_AT_START = 250_000  # the imports of a command alone make some 200,000, none of them garbage
_OLDER = 20, 100


def collect_seldom(objects: int = OBJECTS) -> None:
    """Let Python look for garbage in circles once in so many new objects, here and in what is forked from here.

    Commands and workers make many objects that live for a batch or to the end: modules, rules, records, alerts. At
    Python's own threshold of 700 they are looked through again and again, for a fifth of the time of ``rules test`` and
    a third of what it takes to make an alert in a batch of 100,000 records.
    """
    gc.set_threshold(objects, *_OLDER)
