"""Tables of a log: the ingest times of their contents; the contents, as they were read and as tasks read them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crossline.basics.errors import RetryableError, StateError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Problem, RefusedError
from crossline.ingest.enrich.rows import TableFile, TableForm, form_of, format_of, read_table
from crossline.ingest.enrich.versions import Tables, TableVersion
from crossline.rule_registry.content import FileContent, digest_of
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.list_log import first_met
from crossline.rule_registry.log_file import keep, kept, read_log

TABLE_BYTES_MAX = 1 << 30  # of one file


@dataclass(frozen=True, slots=True)
class LoggedTable:
    """A content of a table: its files, digests by name, and by stream the ingest time from which it holds."""

    files: Mapping[str, str]
    begins: Mapping[str, int]

    @property
    def digest(self) -> str:
        """Of all its files."""
        return files_digest(self.files)


def forms_in(streams: Mapping[str, StreamSpec], of: Mapping[str, Sequence[str]]) -> dict[str, TableForm]:
    """How the rows of tables look, by name, as the streams say whose records get their fields (``of``, by table)."""
    return {name: form_of(name, streams[theirs[0]]) for name, theirs in of.items()}


def files_digest(files: Mapping[str, str]) -> str:
    """One digest for those of ``files`` by name."""
    return digest_of(repr(sorted(files.items())).encode())


class TableStore:
    """Contents of tables: as they were read, in a folder beside the log; and sorted for tasks, in ``folder``.

    ``forms``: how tables are declared now. A sorted content is made of the other where it is not there.
    """

    def __init__(self, log: Path, folder: Path, forms: Mapping[str, TableForm]) -> None:
        self._log = log
        self._beside = log.parent / "tables"
        self._folder = folder
        self._forms = forms

    def of_forms(self, forms: Mapping[str, TableForm]) -> TableStore:
        """The same contents, for tables that are declared in other ways."""
        return TableStore(self._log, self._folder, forms)

    def read(self, name: str, files: Mapping[str, FileContent]) -> pa.Table:
        """Files as rows of table ``name``; raises RefusedError with all that is wrong in them."""
        return _rows(self._forms[name], {source: each.data for source, each in files.items()})

    def keep(self, name: str, files: Mapping[str, FileContent], rows: pa.Table) -> None:
        """Have a content on the disk, both ways. Raises RetryableError where that does not take it."""
        for source, content in files.items():
            keep(self._kept(source, content.digest), content.data, f"the content of table {name}")
        self.sort(name, {source: each.digest for source, each in files.items()}, rows)

    def sort(self, name: str, files: Mapping[str, str], rows: pa.Table) -> str:
        """Have ``rows``, those of ``files``, on the disk for tasks; where."""
        path = self._sorted(name, files)
        write_rows(path, rows)
        return str(path)

    def path(self, name: str, files: Mapping[str, str]) -> str:
        """Where a content that was kept stands sorted.

        Raises StateError where it is not to be had any more, or does not fit how the table is declared now.
        """
        path = self._sorted(name, files)
        if not path.exists():
            what = f"what stood in table {name}"
            read = {
                source: kept(self._kept(source, digest), digest, TABLE_BYTES_MAX, what)
                for source, digest in files.items()
            }
            try:
                rows = _rows(self._forms[name], read, lenient=True)
            except RefusedError as error:
                raise StateError(
                    f"table {name} is declared in a way that its earlier content does not fit, which records may still "
                    f"meet: {error}\nPut the declaration back, or run under another pipeline name"
                ) from None
            write_rows(path, rows)
        return str(path)

    def has(self, name: str, files: Mapping[str, str]) -> bool:
        """Whether a content stands sorted, in the form in which the table is declared now."""
        return self._sorted(name, files).exists()

    def prune(self, used: Collection[str]) -> None:
        """Remove sorted contents that are not ``used``; they can be made again."""
        for path in self._folder.glob("*.arrow") if self._folder.is_dir() else ():
            if str(path) not in used:
                path.unlink(missing_ok=True)

    def _kept(self, source: str, digest: str) -> Path:
        return self._beside / f"{digest}{Path(source).suffix}.gz"

    def _sorted(self, name: str, files: Mapping[str, str]) -> Path:
        form = digest_of(repr(self._forms[name]).encode())
        return self._folder / f"{name}-{files_digest(files)}-{form}.arrow"


def write_rows(path: Path, rows: pa.Table) -> None:
    """Have ``rows`` at ``path`` for tasks, where they are not there. Raises RetryableError where the disk fails."""
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows.combine_chunks())
        draft.replace(path)
    except OSError as error:
        raise RetryableError(f"a table cannot be written to {path}: {error.strerror or error}") from error


def _rows(form: TableForm, files: Mapping[str, bytes], *, lenient: bool = False) -> pa.Table:
    """As ``read_table``, of the bytes of files."""
    read: list[TableFile] = []
    problems: list[Problem] = []
    for source, data in files.items():
        try:
            parquet = pq.read_table(pa.BufferReader(data)) if format_of(source) == "parquet" else None
            read.append(TableFile(source, data, parquet))
        except (OSError, ValueError, pa.ArrowException) as error:
            problems.append(Problem(source, 1, "", str(error), "a Parquet file that can be read"))
    if problems:
        raise RefusedError(problems)
    return read_table(form, read, lenient=lenient)


@dataclass(frozen=True)
class TableLog:
    """The contents of each table, in the order of the log.

    ``streams``: by table, those whose records get its fields.
    """

    store: TableStore
    streams: Mapping[str, Collection[str]]
    versions: Mapping[str, tuple[LoggedTable, ...]] = field(default_factory=dict)

    def after(self, events: Iterable[RuleEvent]) -> TableLog:
        """The log after ``events``."""
        versions = dict(self.versions)
        for event in events:
            if event.event == "table_changed" and event.table_name is not None and event.files is not None:
                begins = {stream: ms for stream, ms in (event.begins_ms or {}).items() if ms is not None}
                made = LoggedTable(event.files, begins)
                versions[event.table_name] = (*versions.get(event.table_name, ()), made)
        return TableLog(self.store, self.streams, versions)

    def as_declared(self, streams: Mapping[str, StreamSpec]) -> TableLog:
        """The log of the tables that ``streams`` declare, in the forms that they give them."""
        names = dict.fromkeys(table for each in streams.values() for table in each.enrich)
        of = {table: tuple(name for name, each in streams.items() if table in each.enrich) for table in names}
        return TableLog(self.store.of_forms(forms_in(streams, of)), of, self.versions)

    def since(self, gone_ms: Mapping[str, int]) -> Tables:
        """The declared tables, without contents that no record to come can meet.

        ``gone_ms``: by stream, the ingest time that none of its records to come is before.
        Raises as ``TableStore.path``.
        """
        found: dict[str, tuple[TableVersion, ...]] = {}
        for name in self.streams:
            versions = self.versions.get(name, ())
            mine = {stream: ms for stream, ms in gone_ms.items() if stream in self.streams[name]}
            first = first_met([each.begins for each in versions], mine) if mine else 0
            found[name] = self._standing(name, versions[first:])
        return found

    def whole(self) -> Tables:
        """The declared tables that the log knows, with all their contents."""
        return {name: self._standing(name, self.versions[name]) for name in self.streams if name in self.versions}

    def _standing(self, name: str, versions: Sequence[LoggedTable]) -> tuple[TableVersion, ...]:
        return tuple(
            TableVersion({} if number == 0 else dict(each.begins), self.store.path(name, each.files))
            for number, each in enumerate(versions)
        )


def tables_of_log(
    path: str | Path, forms: Mapping[str, TableForm], streams: Mapping[str, Collection[str]], folder: Path
) -> Tables:
    """The tables of a log as they judged, every content from its instants on: those of a backtest ``--as-of-log``.

    They are sorted for tasks into ``folder``. ``streams``: by table, those whose records get its fields.
    """
    store = TableStore(Path(path), folder, forms)
    return TableLog(store, streams).after(read_log(Path(path))).whole()
