"""The tables of a pipeline: files that are read and checked as they change, and become versions in a rule log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import Problem, RefusedError
from crossline.ingest.enrich.rows import SUFFIXES, TableForm
from crossline.ingest.enrich.versions import Tables, TableVersion
from crossline.rule_registry.content import FileContent, is_folder
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.rule_files import guarded
from crossline.rule_registry.sources.folder import Files, Folder
from crossline.rule_registry.table_log import TABLE_BYTES_MAX, TableLog, TableStore, files_digest, forms_in
from crossline.settings.config import PipelineConfig
from crossline.settings.tables import TableOfFiles


def forms_of(config: PipelineConfig) -> dict[str, TableForm]:
    """How the rows of each table of a pipeline look."""
    return forms_in(config.streams, streams_of(config))


def streams_of(config: PipelineConfig) -> dict[str, tuple[str, ...]]:
    """By table, the streams whose records get its fields."""
    return {
        table: tuple(name for name, stream in config.streams.items() if table in stream.enrich)
        for table in config.tables
    }


class TableFiles:
    """The file of a table, or those in its folder, as they change."""

    def __init__(self, settings: TableOfFiles) -> None:
        self.path = Path(settings.path)
        self._in_folder = False
        self._folder: Folder | None = None

    def changed(self) -> Files | None:
        """All files, where any differs from those last given to ``take``; else None."""
        in_folder = is_folder(self.path)
        if self._folder is None or self._in_folder != in_folder:
            where, only = (self.path, None) if in_folder else (self.path.parent, self.path.name)
            self._folder, self._in_folder = Folder(where, SUFFIXES, TABLE_BYTES_MAX, only), in_folder
        return self._folder.changed()

    def take(self, files: Files) -> None:
        """Note that ``files`` were dealt with."""
        if self._folder is not None:
            self._folder.take(files)


@dataclass(frozen=True, slots=True)
class Found:
    """The files of a table, and how many rows they have, or why they are refused."""

    files: Files
    rows: int | RefusedError

    @property
    def digests(self) -> dict[str, str]:
        """By file."""
        return digests_of(self.files)


def digests_of(files: Files) -> dict[str, str]:
    """By file."""
    return {name: content.digest for name, content in files.items()}


TableChanges = Mapping[str, Found]


class TablesDirectory:
    """The tables of a pipeline. One whose files cannot be read, or are gone, stays as it last was.

    ``store`` keeps what stands in them, for the log and for tasks.
    """

    def __init__(self, config: PipelineConfig, store: TableStore) -> None:
        self._store = store
        self._files = {name: TableFiles(each) for name, each in config.tables.items() if isinstance(each, TableOfFiles)}
        self._refused: set[tuple[str, str]] = set()
        self._gone: set[str] = set()
        self._ready: dict[str, Found] = {}
        self.refusals: dict[str, RuleEvent] = {}  # by table, of the files as they were last looked at
        streams = streams_of(config)
        self.log = TableLog(store, {name: streams[name] for name in self._files})

    def start(self, events: Sequence[RuleEvent], now_ms: int) -> list[RuleEvent]:
        """Go on from the ``events`` of a log; those of tables that it does not know, which hold from the beginning.

        What changed of others comes with ``poll``. Raises UsageError with all that is wrong in files of new tables, or
        where there are none; or in those of others, where they do not fit how the table is declared now.
        """
        self._add(events)
        new: dict[str, Found] = {}
        for name, each in self._files.items():
            files, versions = each.changed() or {}, self.log.versions.get(name, ())
            known = bool(versions) and versions[-1].files == digests_of(files)
            if known and self._store.has(name, versions[-1].files):
                each.take(files)
            elif known or not versions:  # the same files may be declared in another way now
                new[name] = self._found(name, files)
        missing = [
            f"table {name}: found no file {self._files[name].path}; {_EXPECTED}" for name in new if not new[name].files
        ]
        refusals = [str(each.rows) for each in new.values() if isinstance(each.rows, RefusedError)]
        if missing or refusals:
            raise UsageError("\n\n".join([*missing, *refusals]))
        begun = self.events(new, now_ms, {})
        self.take(new, begun)
        return begun

    def poll(self) -> TableChanges | None:
        """What there is to load, read and checked, or None. Cheap while nothing changes; slow where much did.

        Raises RetryableError where a content cannot be kept.
        """
        changed = {name: files for name, each in self._files.items() if (files := each.changed()) is not None}
        self._ready = {name: self._found(name, files) for name, files in changed.items()}
        return self._ready or None

    def events(self, changes: TableChanges, now_ms: int, begins_ms: Mapping[str, int | None]) -> list[RuleEvent]:
        """What follows from ``changes``: ``table_changed``, ``refused`` (once per content), ``absent``.

        A content holds from ``begins_ms``, by stream; the first one of a table from the beginning. Fast: all was read.
        """
        events: list[RuleEvent] = []
        for name, found in changes.items():
            source, versions = self._files[name].path.name, self.log.versions.get(name, ())
            digest = files_digest(found.digests)
            event = RuleEvent("refused", now_ms, source=source, digest=digest, table_name=name)
            if not found.files:
                if versions and name not in self._gone:
                    text = f"{source} is gone; table {name} stays as it was; to empty it, leave a file without rows"
                    events.append(RuleEvent("absent", now_ms, source=source, text=text, table_name=name))
            elif isinstance(found.rows, RefusedError):
                if (name, digest) not in self._refused:
                    events.append(replace(event, text=str(found.rows)))
            elif not versions or versions[-1].files != found.digests:
                begins = {each: begins_ms.get(each) for each in self.log.streams[name]} if versions else {}
                text = f"table {name}: {found.rows:,} rows"
                changed = replace(event, event="table_changed", text=text, files=found.digests, begins_ms=begins)
                events.append(changed)
        return events

    def take(self, changes: TableChanges, events: Sequence[RuleEvent]) -> None:
        """Note that ``events``, made of ``changes``, are in the log."""
        self._add(events)
        for name, found in changes.items():
            self._files[name].take(found.files)
            self.refusals.pop(name, None)
            if isinstance(found.rows, RefusedError):
                source, digest = self._files[name].path.name, files_digest(found.digests)
                event = RuleEvent("refused", 0, source=source, digest=digest, text=str(found.rows), table_name=name)
                self.refusals[name] = event
        self._ready = {}

    def preview(self, changes: TableChanges | None, from_ms: Mapping[str, int]) -> TableLog:
        """What the log of tables would be with ``changes``, in force ``from_ms``."""
        return self.log if changes is None else self.log.after(self.events(changes, 0, from_ms))

    def _add(self, events: Sequence[RuleEvent]) -> None:
        self.log = self.log.after(events)
        for event in events:
            if event.table_name is not None:
                match event.event:
                    case "table_changed":
                        self._gone.discard(event.table_name)
                    case "refused":
                        self._refused.add((event.table_name, str(event.digest)))
                    case "absent":
                        self._gone.add(event.table_name)
                    case _:
                        pass

    def _found(self, name: str, files: Files) -> Found:
        """The files read, and kept where they are good; as before, where they are the same."""
        known = self._ready.get(name)
        if known is not None and known.files == files:
            return known
        if not files:
            return Found(files, 0)
        rows = _read(self._store, name, self._files[name], files)
        if isinstance(rows, RefusedError):
            return Found(files, rows)
        self._store.keep(name, files, rows)
        return Found(files, int(rows.num_rows))


_EXPECTED = f"expected a file or a folder of files that end in {', '.join(SUFFIXES)}"


def _read(store: TableStore, name: str, at: TableFiles, files: Files) -> pa.Table | RefusedError:
    """The rows of files, or why they are refused."""

    def read() -> pa.Table:
        _readable(files)
        return store.read(name, files)

    rows = guarded(f"table {name}", read)
    if isinstance(rows, RefusedError):
        where = at.path if is_folder(at.path) else at.path.parent
        problems = [replace(each, source=str(where / each.source)) for each in rows.problems if each.source in files]
        return RefusedError(problems or rows.problems, rows.faults)
    return rows


def _readable(files: Mapping[str, FileContent]) -> None:
    problems = [
        Problem(source, 1, "", each.error, "a file that can be read")
        for source, each in files.items()
        if each.error is not None
    ]
    problems += [
        Problem(source, 1, "", "a name without a known ending", _EXPECTED)
        for source in files
        if not source.endswith(SUFFIXES)
    ]
    if problems:
        raise RefusedError(problems)


def tables_in(config: PipelineConfig, folder: Path, names: Collection[str]) -> Tables:
    """These tables of a pipeline as their files are now, from the beginning on, sorted for tasks into ``folder``.

    Raises UsageError where there are no files, or with all that is wrong in them.
    """
    store = TableStore(folder / "log.jsonl", folder, forms_of(config))
    found: dict[str, tuple[TableVersion, ...]] = {}
    wrong: list[str] = []
    for name in names:
        settings = config.tables[name]
        if not isinstance(settings, TableOfFiles):
            continue
        files = TableFiles(settings)
        content = files.changed()
        if not content:
            wrong.append(f"table {name}: found no file {files.path}; {_EXPECTED}")
            continue
        rows = _read(store, name, files, content)
        if isinstance(rows, RefusedError):
            wrong.append(str(rows))
        else:
            found[name] = (TableVersion({}, store.sort(name, digests_of(content), rows)),)
    if wrong:
        raise UsageError("\n\n".join(wrong))
    return found
