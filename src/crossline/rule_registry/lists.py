"""The named lists of a folder: files that are read and checked as they change, and become versions in a rule log."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from crossline.basics.conditions.lists import Entry, Lists, NamedList
from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import RefusedError, shown
from crossline.rule_registry.content import is_folder, refused
from crossline.rule_registry.events import RuleEvent, published_by
from crossline.rule_registry.list_file import LIST_BYTES_MAX, SUFFIXES, list_name, read_list
from crossline.rule_registry.list_log import ListContents, ListLog
from crossline.rule_registry.rule_files import guarded
from crossline.rule_registry.sources.folder import Files, Folder
from crossline.rule_registry.sources.publications import Publications
from crossline.rule_registry.token_lists import ListTokens, TokenLists, with_tokens

_lock = threading.Lock()
# By folder: its files as they were read last, each with nothing or why it is refused.
_named: dict[str, tuple[Folder, Mapping[str, Sequence[Entry] | RefusedError]]] = {}


@dataclass(frozen=True, slots=True)
class ListChanges:
    """The files of the folder, each read: its entries, or why it is refused."""

    files: Files
    read: Mapping[str, Sequence[Entry] | RefusedError]


class ListsDirectory:
    """The named lists of a folder, or of a topic. One that cannot be read, or is gone, stays as it last was.

    ``contents`` keeps what stands in them, for the log. ``tokens``: those whose values become tokens.
    """

    def __init__(
        self, lists: str | Path | Publications, contents: ListContents, tokens: ListTokens | None = None
    ) -> None:
        self._contents = contents
        given = folder_of_lists(lists) if isinstance(lists, str | Path) else lists
        self._folder = TokenLists(given, tokens) if tokens else given
        self._read: dict[tuple[str, str], Sequence[Entry]] = {}  # by source and digest, of the files that are there
        self._refused: set[tuple[str, str]] = set()
        self._gone: set[str] = set()
        self._ready: ListChanges | None = None
        self.refusals: tuple[RuleEvent, ...] = ()  # of the files as they were last looked at
        self.log = ListLog(self._entries)

    def start(self, events: Sequence[RuleEvent], now_ms: int) -> list[RuleEvent]:
        """Go on from the ``events`` of a log; the events of lists that it does not know, which hold from the beginning.

        What changed of others comes with ``poll``. Raises UsageError where the folder is missing, or with all that is
        wrong in files of new lists: there is no last good one, and a rule that finds its list empty would be silent.
        In a topic, where anybody's message would keep a pipeline from starting, it is refused, and with it such rules.
        SourceError where a topic is needed and does not answer.
        """
        self._add(events)
        self._folder.begin(events, first=not self.log.versions)
        changes = self._checked(_files(self._folder))
        new = {source: each for source, each in changes.read.items() if list_name(source) not in self.log.versions}
        if _source(self._folder) is not None:
            _raise_refusals(new)
        begun = [event for event in self.events(changes, now_ms, {}) if event.source in new]
        self._add(begun)
        self.refusals = tuple(self._refusals(changes, now_ms))
        if not self.events(changes, now_ms, {}):
            self._folder.take(changes.files)
        return begun

    def poll(self) -> ListChanges | None:
        """What there is to load, read and checked, or None. Cheap while nothing changes; slow where much did.

        Raises RetryableError where a content cannot be kept.
        """
        files = self._folder.changed()
        if files is None:
            return None
        if self._ready is None or self._ready.files != files:
            self._ready = self._checked(files)
        return self._ready

    def events(self, changes: ListChanges, now_ms: int, begins_ms: Mapping[str, int | None]) -> list[RuleEvent]:
        """What follows from ``changes``: ``list_changed``, ``refused`` (once per content), ``absent``.

        A version holds from ``begins_ms``, by stream; the first one of a list from the beginning. Fast: all was read.
        """
        events: list[RuleEvent] = []
        refusals = {each.source: each for each in self._refusals(changes, now_ms)}
        for source, entries in changes.read.items():
            digest, name = changes.files[source].digest, list_name(source) or source
            if isinstance(entries, RefusedError):
                if (source, digest) not in self._refused:
                    events.append(refusals[source])
                continue
            versions = self.log.versions.get(name, ())
            if not versions or (versions[-1].source, versions[-1].digest) != (source, digest):
                text = f"list {name}: {len(entries)} entries"
                begins = dict(begins_ms) if versions else {}
                changed = RuleEvent("list_changed", now_ms, source=source, digest=digest, text=text)
                changed = replace(changed, list_name=name, begins_ms=begins)
                events.append(published_by(changed, changes.files[source].origin))
        standing = {list_name(source) for source in changes.files}
        for name, versions in sorted(self.log.versions.items()):
            if name not in standing | self._gone:
                source = versions[-1].source
                text = f"{source} is gone; its list stays as it was; to empty it, leave a file without entries"
                events.append(RuleEvent("absent", now_ms, source=source, text=text, list_name=name))
        return events

    def take(self, changes: ListChanges, events: Sequence[RuleEvent]) -> None:
        """Note that ``events``, made of ``changes``, are in the log."""
        self._add(events)
        self.refusals = tuple(self._refusals(changes, 0))
        self._folder.take(changes.files)
        self._ready = None

    def preview(self, changes: ListChanges | None, from_ms: Mapping[str, int]) -> ListLog:
        """What the log of lists would be with ``changes``, in force ``from_ms``."""
        return self.log if changes is None else self.log.after(self.events(changes, 0, from_ms))

    def close(self) -> None:
        """Let go of what lists come from."""
        self._folder.close()

    def _refusals(self, changes: ListChanges, now_ms: int) -> Iterator[RuleEvent]:
        for source, each in changes.read.items():
            if isinstance(each, RefusedError):
                content, name = changes.files[source], list_name(source) or source
                text, digest = str(each), content.digest
                event = RuleEvent("refused", now_ms, source=source, digest=digest, text=text, list_name=name)
                yield published_by(event, content.origin)

    def _add(self, events: Sequence[RuleEvent]) -> None:
        self.log = self.log.after(events)
        for event in events:
            if event.list_name is not None:
                match event.event:
                    case "list_changed":
                        self._gone.discard(event.list_name)
                    case "refused":
                        self._refused.add((str(event.source), str(event.digest)))
                    case "absent":
                        self._gone.add(event.list_name)
                    case _:
                        pass

    def _entries(self, source: str, digest: str) -> Sequence[Entry]:
        known = self._read.get((source, digest))
        return known if known is not None else self._contents.entries(source, digest)

    def _checked(self, files: Files) -> ListChanges:
        # The file that a list came from goes first: in a topic that is compacted another one of its name may.
        known = {versions[-1].source for versions in self.log.versions.values()}
        files = dict(sorted(files.items(), key=lambda item: item[0] not in known))
        read = _read(files, self._read)
        good = {source: each for source, each in read.items() if not isinstance(each, RefusedError)}
        for source in good:
            self._contents.keep(source, files[source])
        self._read = {(source, files[source].digest): each for source, each in good.items()}
        return ListChanges(files, read)


def lists_in(path: str | Path, tokens: ListTokens | None = None) -> Lists:
    """The lists in the folder ``path`` as they are now, from the beginning on; those of ``tokens`` as tokens.

    Raises UsageError where the folder is missing, or with all that is wrong in it.
    """
    read = _read(with_tokens(_files(folder_of_lists(path)), tokens or {}), {})
    _raise_refusals(read)
    good = {list_name(source): each for source, each in read.items() if not isinstance(each, RefusedError)}
    return {name: NamedList().then(entries, {}) for name, entries in good.items()}


def names_in(path: str | Path) -> list[str]:
    """The names of the lists in the folder ``path``, sorted; files are read again where one was touched alone.

    Raises UsageError as ``lists_in``.
    """
    with _lock:
        folder, known = _named.get(str(path)) or (folder_of_lists(path), {})
        files = _changed(folder)
        if files is not None:
            read = _read(files, {})
            known = {source: each if isinstance(each, RefusedError) else () for source, each in read.items()}
            folder.take(files)
            _named[str(path)] = folder, known
    _raise_refusals(known)
    return sorted(map(list_name, known))


def folder_of_lists(path: str | Path) -> Folder:
    """The list files in the folder ``path``."""
    return Folder(Path(path), SUFFIXES, LIST_BYTES_MAX)


def _source(lists: Publications) -> Path | None:
    """The folder that they come from; None for a topic."""
    given = lists.given if isinstance(lists, TokenLists) else lists
    return given.path if isinstance(given, Folder) else None


def _files(folder: Publications) -> Files:
    return _changed(folder) or {}


def _changed(folder: Publications) -> Files | None:
    path = _source(folder)
    if path is not None and not is_folder(path):
        raise UsageError(f"found no folder {path}; expected the folder of the lists: make it, or name another")
    return folder.changed()


def _raise_refusals(read: Mapping[str, Sequence[Entry] | RefusedError]) -> None:
    refusals = [str(each) for each in read.values() if isinstance(each, RefusedError)]
    if refusals:
        raise UsageError("\n\n".join(refusals))


def _read(files: Files, known: Mapping[tuple[str, str], Sequence[Entry]]) -> dict[str, Sequence[Entry] | RefusedError]:
    """Each file read and checked; what is ``known``, by source and digest, is not read again."""
    read: dict[str, Sequence[Entry] | RefusedError] = {}
    seen: dict[str, str] = {}
    for source, content in files.items():
        name = list_name(source)
        if seen.setdefault(name, source) != source:
            read[source] = refused(source, f"list {shown(name)}", f"one file a list; it stands in {seen[name]}")
        elif (source, content.digest) in known:
            read[source] = known[source, content.digest]
        else:
            read[source] = guarded(source, partial(read_list, source, content))
    return read
