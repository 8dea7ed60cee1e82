"""Named lists, one a file: ``cards.txt`` with an entry a line, or ``cards.yaml`` with a list of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from crossline.core.basics.errors import UsageError
from crossline.core.conditions.tree import literal
from crossline.core.texts.problems import RefusedError, shown
from crossline.core.texts.report import Report
from crossline.core.texts.yamltext import load_yaml
from crossline.rulelog.content import FileContent, is_folder, refused, text_of
from crossline.rulelog.events import RuleEvent
from crossline.rulelog.folder import Files, Folder
from crossline.rulelog.reading import guarded

SUFFIXES = (".txt", ".yaml", ".yml", ".json")
LIST_BYTES_MAX = 64 * 2**20

Lists = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class _Loaded:
    source: str
    digest: str
    entries: list[Any]


@dataclass(frozen=True, slots=True)
class ListChanges:
    """The files of the folder, each read: its entries, or why it is refused. ``names``: of all lists there are then."""

    files: Files
    read: Mapping[str, list[Any] | RefusedError]
    names: frozenset[str]

    @property
    def entries(self) -> Lists:
        """Of those that are not refused, by name."""
        return {_name_of(source): each for source, each in self.read.items() if not isinstance(each, RefusedError)}


class ListsDirectory:
    """The named lists of a folder. A list that cannot be read, or is gone, stays as it last was."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._folder = Folder(self.path, SUFFIXES, LIST_BYTES_MAX)
        self._loaded: dict[str, _Loaded] = {}
        self._refused: set[tuple[str, str]] = set()
        self._gone: set[str] = set()
        self._ready: ListChanges | None = None

    @property
    def lists(self) -> Lists:
        """The lists by name, as last taken up."""
        return {name: loaded.entries for name, loaded in self._loaded.items()}

    def load(self) -> Lists:
        """The lists to begin with. Raises UsageError where the folder is missing, or with all that is wrong in it.

        There is no last good list at a start, and a rule that finds its list empty would be silent.
        """
        if not is_folder(self.path):
            raise UsageError(f"found no folder {self.path}; expected the folder of the lists: make it, or name another")
        lists, events = self.take_up(self.poll(), 0)
        refusals = [str(event.text) for event in events if event.event == "refused"]
        if refusals:
            raise UsageError("\n\n".join(refusals))
        return lists

    def poll(self) -> ListChanges | None:
        """What there is to take up, read and checked, or None. Cheap while nothing changes; slow where much did."""
        files = self._folder.changed()
        if files is None:
            return None
        if self._ready is None or self._ready.files != files:
            self._ready = self._checked(files)
        return self._ready

    def take_up(self, changes: ListChanges | None, now_ms: int) -> tuple[Lists, list[RuleEvent]]:
        """The lists from now on, and what happened: ``list_changed``, ``refused`` (once per content), ``absent``.

        ``changes`` is what ``poll`` gave; None changes nothing. Fast: all was read before.
        """
        if changes is None:
            return self.lists, []
        events: list[RuleEvent] = []
        for source, entries in changes.read.items():
            digest = changes.files[source].digest
            if not isinstance(entries, RefusedError):
                events += self._load(source, digest, entries, now_ms)
            elif (source, digest) not in self._refused:
                self._refused.add((source, digest))
                events.append(RuleEvent("refused", now_ms, source=source, digest=digest, text=str(entries)))
        gone = {loaded.source for loaded in self._loaded.values()} - set(changes.files)
        for source in sorted(gone - self._gone):
            text = f"{source} is gone; its list stays as it was until the pipeline starts again"
            events.append(RuleEvent("absent", now_ms, source=source, text=text))
        self._gone = gone
        self._folder.take(changes.files)
        self._ready = None
        return self.lists, events

    def _checked(self, files: Files) -> ListChanges:
        read: dict[str, list[Any] | RefusedError] = {}
        seen: dict[str, str] = {}
        for source, content in files.items():
            name = _name_of(source)
            known = self._loaded.get(name)
            if seen.setdefault(name, source) != source:
                read[source] = refused(source, f"list {shown(name)}", f"one file a list; it stands in {seen[name]}")
            elif known is not None and (known.source, known.digest) == (source, content.digest):
                read[source] = known.entries
            else:
                read[source] = guarded(source, partial(read_list, source, content))
        new = {_name_of(source) for source, entries in read.items() if not isinstance(entries, RefusedError)}
        return ListChanges(files, read, frozenset(new | set(self._loaded)))

    def _load(self, source: str, digest: str, entries: list[Any], now_ms: int) -> list[RuleEvent]:
        name = _name_of(source)
        known = self._loaded.get(name)
        if known is not None and (known.source, known.digest) == (source, digest):
            return []
        self._loaded[name] = _Loaded(source, digest, entries)
        text = f"list {name}: {len(entries)} entries"
        return [RuleEvent("list_changed", now_ms, source=source, digest=digest, text=text)]


def _name_of(source: str) -> str:
    return source.rpartition(".")[0]


def read_list(source: str, content: FileContent) -> list[Any]:
    """The entries of a list file. In text, blank lines and lines that start with # count for nothing.

    Raises RefusedError with all that is wrong.
    """
    text = text_of(source, content)
    if source.endswith(".txt"):
        lines = (line.strip() for line in text.splitlines())
        return [line for line in lines if line and not line.startswith("#")]
    document = load_yaml(text, source, LIST_BYTES_MAX)
    report = Report(document)
    if not isinstance(document.data, list):
        report.add((), shown(document.data), "a list of values")
    else:
        for number, entry in enumerate(document.data):
            if literal(entry) is None:
                report.add((number,), shown(entry), "text, a finite number up to 64 bits, true or false")
    report.raise_if_any()
    return list(document.data)
