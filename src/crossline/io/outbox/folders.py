"""Maps sinks to outbox folders, so that no delivery goes to another sink after the pipeline file was reordered."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import count

from crossline.settings.fields import Settings


def destination_of(settings: Settings) -> str:
    """The destination of ``settings`` among sinks of its kind, as a digest: an address may hold a secret."""
    named = getattr(settings, "PLACE", ())
    text = repr([(name, getattr(settings, name)) for name in named])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def folder_names(sinks: Sequence[tuple[str, str]], waiting: Mapping[str, str | None]) -> list[str]:
    """The folder of each of ``sinks`` (kind and place, in their order), each another one: ``KIND-N``.

    ``waiting``: the folders in which something waits, each with the place that it is for; None: that is not known. A
    sink keeps the folder of its destination, also at another position in the file. A sink whose destination has no
    folder gets the folder of its number. That folder may have deliveries for a destination that the file no longer
    names: the sink was moved.
    """
    found: dict[int, str] = {}
    for number, (kind, place) in enumerate(sinks):
        mine = [name for name in sorted(waiting) if _kind(name) == kind and waiting[name] == place]
        free = [name for name in mine if name not in found.values()]
        if free:
            found[number] = free[0]
    kinds: dict[str, int] = {}
    for number, (kind, _) in enumerate(sinks):
        kinds[kind] = kinds.get(kind, 0) + 1
        if number not in found:
            usual = f"{kind}-{kinds[kind]}"
            used = {*found.values(), *waiting}
            other = next(name for n in count(1) if (name := f"{kind}-{n}") not in used)
            found[number] = usual if usual not in found.values() else other
    return [found[number] for number in range(len(sinks))]


def _kind(name: str) -> str:
    return name.rpartition("-")[0]
