"""All tables of a pipeline that come from topics, loaded together with its rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from crossline.basics.errors import UsageError
from crossline.ingest.enrich.versions import Tables, TableVersion
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.rows.reader import RowReader
from crossline.rule_registry.rows.row_log import Declared, RowLog, RowLogs
from crossline.rule_registry.rows.segments import Undo, segments_of
from crossline.rule_registry.rows.topic_table import RowChange, TopicTable
from crossline.rule_registry.table_log import write_rows
from crossline.rule_registry.tables import forms_of, streams_of
from crossline.settings.config import PipelineConfig
from crossline.settings.tables import TableOfTopic

RowChanges = Mapping[str, RowChange]
ReaderOf = Callable[[TableOfTopic], RowReader]


def declared_of(config: PipelineConfig) -> dict[str, Declared]:
    """How the tables of a pipeline that come from topics are declared, by name."""
    return {name: declared for name, (_, declared) in _of_topics(config).items()}


def _of_topics(config: PipelineConfig) -> dict[str, tuple[TableOfTopic, Declared]]:
    forms, streams = forms_of(config), streams_of(config)
    return {
        name: (each, Declared(forms[name], each.keyed, streams[name]))
        for name, each in config.tables.items()
        if isinstance(each, TableOfTopic)
    }


class TopicTables:
    """The tables of a pipeline that come from topics. ``folder``: where tasks read them."""

    def __init__(self, config: PipelineConfig, log: Path, folder: Path, reader_of: ReaderOf) -> None:
        self._tables: dict[str, TopicTable] = {}
        self._log = log
        self._of_files = config.tables.keys() - declared_of(config).keys()
        for name, (settings, declared) in _of_topics(config).items():
            self._tables[name] = TopicTable(name, declared, reader_of(settings), segments_of(log, name), folder)

    def start(self, events: Sequence[RuleEvent], now_ms: int) -> list[RuleEvent]:
        """As ``TopicTable.start``, each; ``events``: of the log, none at the first start."""
        of_files = {event.table_name for event in events if event.files is not None}
        both = next((name for name in self._tables if name in of_files), None)
        if both is not None:
            raise _another(both, "files")
        both = next((name for name in self._of_files if events and segments_of(self._log, name).headers()), None)
        if both is not None:
            raise _another(both, "a topic")
        return [event for each in self._tables.values() for event in each.start(now_ms, first=not events)]

    def poll(self) -> RowChanges | None:
        """What there is to load, by table."""
        found = {name: change for name, each in self._tables.items() if (change := each.poll()) is not None}
        return found or None

    def commit(self, changes: RowChanges, begins_ms: Mapping[str, int | None]) -> Undo:
        """Have them on the disk. Raises RetryableError, with nothing kept, where one is not."""
        undone: list[Undo] = []

        def undo() -> None:
            for each in reversed(undone):
                each()

        try:
            for name, change in changes.items():
                table = self._tables[name]
                undone.append(table.commit(change, table.begins(begins_ms)))
        except BaseException:
            undo()
            raise
        return undo

    def events(self, changes: RowChanges, now_ms: int) -> list[RuleEvent]:
        """The pending reports of them."""
        return [event for name, change in changes.items() for event in self._tables[name].events(change, now_ms)]

    def take(self, changes: RowChanges, begins_ms: Mapping[str, int | None]) -> None:
        """Note that they are in the log."""
        for name, change in changes.items():
            table = self._tables[name]
            table.take(change, table.begins(begins_ms))

    def preview(self, changes: RowChanges | None, begins_ms: Mapping[str, int]) -> RowLogs:
        """What the logs would be with ``changes``, in force from ``begins_ms``."""
        given = changes or {}
        return RowLogs({name: each.preview(given.get(name), begins_ms) for name, each in self._tables.items()})

    def in_force(self, tables: Tables) -> set[str]:
        """No task reads other contents than ``tables`` any more; where those stand that are needed besides."""
        for name, each in self._tables.items():
            each.in_force(len(tables.get(name, ())))
        return set(RowLogs({name: each.log for name, each in self._tables.items()}).heads())

    def close(self) -> None:
        """Leave the brokers."""
        for each in self._tables.values():
            each.close()


def _another(table: str, was: str) -> UsageError:
    return UsageError(
        f"table {table} was one of {was} when records were judged; expected it to stay so: give it another name, "
        "or run under another pipeline name"
    )


def tables_of_rows(log: Path, declared: Mapping[str, Declared], folder: Path) -> Tables:
    """The tables beside a rule log as they judged, every content from its instants on, sorted into ``folder``."""
    found: dict[str, tuple[TableVersion, ...]] = {}
    for name, each in declared.items():
        opened = RowLog.opened(segments_of(log, name), folder, each)
        if opened.epochs:
            found[name] = opened.whole()
    return found


def tables_of_topics(
    config: PipelineConfig, names: Collection[str], log: Path | None, folder: Path, reader_of: ReaderOf
) -> Tables:
    """Those of the tables ``names`` that come from topics: as they judged, by ``log``; what that lacks, as of now.

    Raises UsageError where there is no topic, SourceError where it does not answer.
    """
    mine = {name: each for name, each in _of_topics(config).items() if name in names}
    logged = {} if log is None else tables_of_rows(log, {name: each for name, (_, each) in mine.items()}, folder)
    found = dict(logged)
    for name, (settings, each) in mine.items():
        if name not in found:
            found[name] = rows_of_now(name, each, reader_of(settings), folder)
    return found


def rows_of_now(name: str, declared: Declared, reader: RowReader, folder: Path) -> tuple[TableVersion, ...]:
    """A table as its topic has it now, from the beginning on, sorted into ``folder``."""
    table = TopicTable(name, declared, reader, segments_of(folder / "log.jsonl", name), folder)
    path = folder / f"{name}-now-{declared.digest}.arrow"
    try:
        write_rows(path, table.now())
    finally:
        table.close()
    return (TableVersion({}, str(path)),)
