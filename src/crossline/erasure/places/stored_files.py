"""Small files of a store, written and read whole: outboxes of sinks, the spool of the lake, the feed of the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crossline.erasure.place import Counts
from crossline.erasure.rows import GONE, decoded, treat_packed
from crossline.erasure.subject import Subject, dumped, parsed
from crossline.io.objects.file_stores import FileStore

_ROWS = ("alerts", "decisions", "dead", "late")
FEED_SECTIONS = ("decisions", "alerts", "dead", "late")

Treat = Callable[[Subject, bytes], tuple[bytes, Counts]]


@dataclass(slots=True)
class StoredFilesPlace:
    """The files in a store.

    Attributes:
        name: The place's name.
        store: The store.
        suffix: Of the files that are looked at.
        treated: Gives a file as it is from now on.
    """

    name: str
    store: FileStore
    suffix: str
    treated: Treat
    needs_stop: bool = True

    def find(self, subject: Subject) -> Counts:
        """See ``Place``."""
        return self._each(subject, change=False)

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``. Each file is put as a whole."""
        return self._each(subject, change=True)

    def _each(self, subject: Subject, *, change: bool) -> Counts:
        total = Counts()
        for name in self.store.below(""):
            if not name.endswith(self.suffix):
                continue
            try:
                raw = self.store.get(name)
            except FileNotFoundError:  # delivered since
                continue
            after, counts = self.treated(subject, raw)
            if counts.found and change:
                self.store.put(name, after)
            total += counts.of_file(len(raw))
        return total


def delivery(subject: Subject, raw: bytes) -> tuple[bytes, Counts]:
    """A delivery of an outbox: a line of JSON, and lines of decisions behind it; a spooled batch has one before it.

    What is left has its decisions in the line of JSON.
    """
    head, *lines = raw.split(b"\n")
    about = parsed(decoded(head) or "")
    before = [head] if isinstance(about, dict) and "ranges" in about else []
    body = parsed(decoded(lines.pop(0)) or "") if before and lines else about
    if not isinstance(body, dict):
        return raw, Counts()
    counts, after = Counts(), {name: value for name, value in body.items() if name != "columns"}
    rows_of = {kind: body.get(kind) or [] for kind in _ROWS}
    rows_of["decisions"] = [*rows_of["decisions"], *(parsed(decoded(line) or "") for line in lines)]
    if not all(isinstance(row, dict) for row in rows_of["decisions"]):  # cut short: it is no delivery, either
        return raw, Counts()
    positions = body.get("positions") or []
    for kind, given in rows_of.items():
        rows = [treat_packed(subject, row) for row in given]
        counts += _counts(given, rows)
        after[kind] = [row for row in rows if row is not GONE]
        if kind == "alerts" and positions:
            after["positions"] = [each for each, row in zip(positions, rows, strict=False) if row is not GONE]
    return (b"\n".join([*before, dumped(after).encode()]), counts) if counts.found else (raw, counts)


def feed(subject: Subject, raw: bytes) -> tuple[bytes, Counts]:
    """A file of the feed: a line about the batch, then its sections, whose lines it counts."""
    head, *lines = raw.split(b"\n")
    about = parsed(decoded(head) or "")
    if not isinstance(about, dict) or not isinstance(about.get("lines"), dict):
        return raw, Counts()
    counts, left, at = Counts(), [], 0
    numbers: dict[str, int] = {}
    for section in FEED_SECTIONS:
        mine = lines[at : at + int(about["lines"].get(section, 0))]
        at += len(mine)
        rows = [parsed(decoded(each) or "") for each in mine]
        after = [treat_packed(subject, row) if isinstance(row, dict) else row for row in rows]
        counts += _counts(rows, after)
        kept = [
            line if new is old else dumped(new).encode()
            for line, old, new in zip(mine, rows, after, strict=True)
            if new is not GONE
        ]
        numbers[section] = len(kept)
        left += kept
    if not counts.found:
        return raw, counts
    head = dumped({**about, "lines": {**about["lines"], **numbers}}).encode()
    return b"\n".join([head, *left, *lines[at:]]), counts


def lines(subject: Subject, raw: bytes) -> tuple[bytes, Counts]:
    """A file of JSON lines that stand alone."""
    counts, left = Counts(), list[bytes]()
    for line in raw.split(b"\n"):
        row = parsed(decoded(line) or "")
        after = treat_packed(subject, row) if isinstance(row, dict) else row
        if isinstance(row, dict):
            counts += _counts([row], [after])
        if after is not GONE:
            left.append(line if after is row else dumped(after).encode())
    return (b"\n".join(left), counts) if counts.found else (raw, counts)


def _counts(before: list[Any], after: list[Any]) -> Counts:
    gone = sum(new is GONE for new in after)
    kept = sum(new is old for old, new in zip(before, after, strict=True))
    return Counts(gone, len(after) - gone - kept, kept)
