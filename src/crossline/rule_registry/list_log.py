"""Named lists of a log: the ingest times of their contents; and the contents, which are kept beside the log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crossline.basics.conditions.lists import Entry, Lists, NamedList, starts_ms
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.list_file import LIST_BYTES_MAX, read_list
from crossline.rule_registry.log_file import keep, kept, read_log

ReadEntries = Callable[[str, str], Sequence[Entry]]  # by source and digest


@dataclass(frozen=True, slots=True)
class ListVersion:
    """A content of a list: the file that it stood in, its digest, and by stream the ingest time from which it holds."""

    source: str
    digest: str
    begins: Mapping[str, int]


@dataclass(frozen=True)
class ListLog:
    """The versions of each list, in the order of the log. Immutable, but for remembering what it read last."""

    read: ReadEntries
    versions: Mapping[str, tuple[ListVersion, ...]] = field(default_factory=dict)
    _made: dict[str, tuple[tuple[ListVersion, ...], NamedList]] = field(default_factory=dict)

    def then(self, name: str, version: ListVersion) -> ListLog:
        """The log with another version of list ``name``."""
        return ListLog(self.read, {**self.versions, name: (*self.versions.get(name, ()), version)}, dict(self._made))

    def after(self, events: Iterable[RuleEvent]) -> ListLog:
        """The log after ``events``."""
        log = self
        for event in events:
            if event.event == "list_changed" and event.list_name is not None:
                begins = {stream: ms for stream, ms in (event.begins_ms or {}).items() if ms is not None}
                log = log.then(event.list_name, ListVersion(str(event.source), str(event.digest), begins))
        return log

    def since(self, gone_ms: Mapping[str, int]) -> Lists:
        """The lists, without versions that no record to come can meet.

        ``gone_ms``: by stream, the ingest time that none of its records to come is before; what holds for streams that
        are not there is left out. Raises StateError where a content that is needed is not there, or damaged.
        """
        firsts = {
            name: first_met([each.begins for each in versions], gone_ms) for name, versions in self.versions.items()
        }
        return {name: self._list(name, first) for name, first in firsts.items()}

    def whole(self, names: Collection[str]) -> Lists:
        """Those of the lists ``names`` that there are, with all their versions."""
        return {name: self._list(name, 0) for name in self.versions if name in names}

    def _list(self, name: str, first: int) -> NamedList:
        versions = self.versions[name]
        known, made = self._made.get(name, ((), NamedList(first)))
        if made.first > first or known != versions[: len(known)] or len(known) <= first:
            known, made = versions[:first], NamedList(first)
        for version in versions[len(known) :]:
            begins = version.begins if made.changes else {}
            made = made.then(self.read(version.source, version.digest), begins)
        made = made.since(first)
        self._made[name] = (versions, made)
        return made


def first_met(begins: Sequence[Mapping[str, int]], gone_ms: Mapping[str, int]) -> int:
    """The number of the oldest version that a record can meet, of those that begin at ``begins``."""
    starts = {stream: starts_ms(begins, stream) for stream in gone_ms}
    here = (n for n in range(len(begins)) if all(each[n] <= gone_ms[stream] for stream, each in starts.items()))
    return max(here, default=0)


class ListContents:
    """The contents of lists, each in a file named by its digest. None is ever removed: the log speaks of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, source: str, content: FileContent) -> None:
        """Have the content on the disk. Raises RetryableError where that does not take it."""
        keep(self._path(source, content.digest), content.data, "the content of a list")

    def entries(self, source: str, digest: str) -> list[Entry]:
        """The entries of a content that was kept. Raises StateError where it is not there, or is another one."""
        data = kept(self._path(source, digest), digest, LIST_BYTES_MAX, "what stood in a list")
        return read_list(source, FileContent(data))

    def _path(self, source: str, digest: str) -> Path:
        return self._folder / f"{digest}{Path(source).suffix}.gz"


def contents_of(log: str | Path) -> ListContents:
    """Where the log at that path has the contents of lists: in a folder beside it, for all pipelines."""
    return ListContents(Path(log).parent / "lists")


def lists_of_log(path: str | Path, names: Collection[str]) -> Lists:
    """The lists of a log as they judged, every version from its instants on: those of a backtest ``--as-of-log``."""
    return ListLog(contents_of(path).entries).after(read_log(Path(path))).whole(names)
