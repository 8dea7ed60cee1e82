"""The one thing that a folder and a topic are to a rule log: where publications come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.sources.folder import Files, Folder


class Publications(Protocol):
    """What people ask for, by name: rule files of a folder, or the last message of each key of a topic."""

    def begin(self, events: Sequence[RuleEvent], *, first: bool) -> None:
        """Go on after the ``events`` of a log. ``first``: nothing is known yet, so all that is there is needed.

        Raises UsageError where there is nothing to read from, SourceError where it does not answer and is needed.
        """
        ...

    def changed(self) -> Files | None:
        """All that is asked for, where any of it differs from what was last given to ``take``; else None.

        Cheap while nothing changes. Of several wishes for one name that came since, each is given by itself.
        """
        ...

    def take(self, files: Files) -> None:
        """Note that ``files``, as given by ``changed``, were dealt with."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is more to give once ``take`` was called, which was there already."""
        ...

    def close(self) -> None:
        """Let go of what is read from; safe to call twice."""
        ...


class WithFigures:
    """Publications and a further folder, as one: the names of files in the further one begin with its path."""

    def __init__(self, first: Publications, further: Folder | None) -> None:
        self._first = first
        self._further = further
        self._loaded: tuple[Files, Files] = ({}, {})

    def changed(self) -> Files | None:
        """All files of both, as of one ``Folder``."""
        found = self._first.changed()
        if self._further is None:
            return found
        more = self._further.changed()
        if found is None and more is None:
            return None
        first, further = (
            last if each is None else each for each, last in zip((found, more), self._loaded, strict=True)
        )
        return {**first, **{str(self._further.path / name): content for name, content in further.items()}}

    def take(self, files: Files) -> None:
        """Note that ``files``, as given by ``changed``, were dealt with."""
        path = self._further.path if self._further is not None else None
        further = {Path(name).name: content for name, content in files.items() if Path(name).parent == path}
        first = {name: content for name, content in files.items() if Path(name).parent != path}
        self._first.take(first)
        if self._further is not None:
            self._further.take(further)
            self._loaded = first, further

    def begin(self, events: Sequence[RuleEvent], *, first: bool) -> None:
        """As of the publications."""
        self._first.begin(events, first=first)

    @property
    def more(self) -> bool:
        """As of the publications."""
        return self._first.more

    def close(self) -> None:
        """As of the publications."""
        self._first.close()
