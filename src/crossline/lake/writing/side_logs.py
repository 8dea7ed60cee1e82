"""Append-only logs beside the batches: labels and cases, receipts, decisions on all records.

Each log has positions that only grow. A table stores the last position that it has in the transaction that appends the
rows behind it, so each row is appended once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson

from crossline.lake.catalogs.catalog import LakeAddress
from crossline.lake.tables.delivery_rows import Row, decision_row, rows_table
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.table_layouts import (
    BATCH,
    CASES,
    CHECKPOINT,
    DECISIONS,
    DELIVERED,
    LABELS,
    RECEIPTS,
    TableLayout,
)
from crossline.settings.config import PipelineConfig

CASE_FILE, LEDGER_FILE = "cases.db", "ledger.db"
KEY_SIGN = "@"  # between the name of a log and the identity of its file
ROWS_MAX = 20_000  # of one commit
BYTES_MAX = 16 << 20  # of a file of decisions, in one commit
ERASED_LINE = b'{"erased":true}'  # in the place of a decision about a person who was erased
_US = 1_000


class SideLog(Protocol):
    """An append-only log."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def key(self) -> str:
        """By which a table knows how far it has it: of a log that was begun anew another one."""
        ...

    @property
    def layout(self) -> TableLayout:
        """The table that it goes to."""
        ...

    def read(self, after: int) -> tuple[list[Row], int]:
        """The next rows behind position ``after`` (-1: the beginning), and the position of the last of them."""
        ...


def write_log(lake: LakeAddress, log: SideLog) -> int:
    """Append what a table does not have of a log; how many rows."""
    table, count = LakeTable.ensure(lake, log.layout), 0
    while True:
        after = table.position(log.key)
        rows, last = log.read(after)
        if not rows:
            return count
        named = [{**row, CHECKPOINT: log.key} for row in rows]
        if table.append_log(rows_table(log.layout, named), log.key, after, last):
            count += len(rows)


@dataclass(frozen=True, slots=True)
class SqliteLog:
    """Rows of a SQLite file of the API.

    Attributes:
        path: The file.
        name: What people call the log.
        layout: The table that it goes to.
        query: Takes the position and a limit; its first column is the position.
        instants: The columns with epoch milliseconds.
        identity: Of the file, as ``file_identity`` gives it; nothing for files without one.
    """

    path: Path
    name: str
    layout: TableLayout
    query: str
    instants: tuple[str, ...]
    identity: str = ""

    @property
    def key(self) -> str:
        """See ``SideLog``."""
        return f"{self.name}{KEY_SIGN}{self.identity}" if self.identity else self.name

    def read(self, after: int) -> tuple[list[Row], int]:
        """See ``SideLog``. A file that is not there, or another one by now, has no rows."""
        if not self.path.exists():
            return [], after
        with closing(_opened(self.path)) as connection:
            if self.identity and _identity(connection) != self.identity:
                return [], after
            connection.row_factory = sqlite3.Row
            found = [dict(row) for row in connection.execute(self.query, (after, ROWS_MAX))]
        last = int(found[-1]["position"]) if found else after
        return [self._row(row) for row in found], last

    def _row(self, row: dict[str, Any]) -> Row:
        position = row.pop("position")
        for name in self.instants:
            row[name] = None if row[name] is None else row[name] * _US
        for name, value in row.items():
            row[name] = value.decode() if isinstance(value, bytes) else value
        row |= {name: bool(row[name]) for name in ("is_fraud", "withdrawn") if name in row}
        return {**row, BATCH: position, DELIVERED: row["at"]}


_LABELS = """SELECT seq AS position, stream, record_id, version, is_fraud, known_ms AS known_at, reason, who,
    at_ms AS at, case_id, withdrawn FROM labels WHERE seq > ? ORDER BY seq LIMIT ?"""
_CASES = """SELECT number AS position, case_id, kind AS event, at_ms AS at, who, text, version, before, after
    FROM case_events WHERE number > ? ORDER BY number LIMIT ?"""
_RECEIPTS = """SELECT r.sequence AS position, r.decision_id, a.stream, a.record_id, r.replica, r.sequence, r.digest,
    r.at_ms AS at, a.body AS answer, r.basis AS basis_digest, b.body AS basis, r.rest AS body
    FROM receipts AS r LEFT JOIN bases AS b ON b.digest = r.basis
    LEFT JOIN answers AS a ON a.decision_id = r.decision_id
    WHERE r.sequence > ? AND r.replica = {replica} ORDER BY r.sequence LIMIT ?"""


@dataclass(frozen=True, slots=True)
class DecisionFile:
    """A file of decisions on all records, which tasks append to; positions are bytes behind whole lines."""

    path: Path

    @property
    def name(self) -> str:
        """The file's name: one a shard."""
        return self.path.name

    @property
    def key(self) -> str:
        """See ``SideLog``."""
        return self.path.name

    @property
    def layout(self) -> TableLayout:
        """The table of decisions."""
        return DECISIONS

    def read(self, after: int) -> tuple[list[Row], int]:
        """See ``SideLog``; -1 is byte 0."""
        start = max(after, 0)
        with self.path.open("rb") as file:
            file.seek(start)
            raw = file.read(BYTES_MAX)
        whole = raw[: raw.rfind(b"\n") + 1]
        lines = (line for line in whole.splitlines() if line.rstrip() != ERASED_LINE)
        rows = [decision_row(orjson.loads(line)) for line in lines]
        return [{**row, BATCH: None, DELIVERED: row["decided_at"]} for row in rows], start + len(whole)


def side_logs(config: PipelineConfig) -> Iterator[SideLog]:
    """The logs of a pipeline that are there now: files of its decisions, and those of its API on this machine."""
    folder = decision_folder(config)
    if folder is not None and folder.is_dir():
        yield from (DecisionFile(path) for path in sorted(folder.glob("decisions-*.jsonl")))
    if config.serve is None:
        return
    cases, ledger = Path(config.serve.path) / CASE_FILE, Path(config.serve.path) / LEDGER_FILE
    identity = file_identity(cases)
    yield SqliteLog(cases, "labels", LABELS, _LABELS, ("known_at", "at"), identity)
    yield SqliteLog(cases, "cases", CASES, _CASES, ("at",), identity)
    if config.serve.ledger is None and ledger.exists():
        for replica in _replicas(ledger):
            query = _RECEIPTS.format(replica="'" + replica.replace("'", "''") + "'")
            yield SqliteLog(ledger, f"receipts-{replica}", RECEIPTS, query, ("at",))


def decision_folder(config: PipelineConfig) -> Path | None:
    """The folder of the files with the decisions on all records; None: the pipeline writes none."""
    given = config.decisions
    return Path(given.path) if config.policy is not None and given.emit == "all" and given.path is not None else None


def file_identity(cases: Path) -> str:
    """The identity of a file of labels and cases, which begins with when it was made.

    Nothing: there is no file, or it is from before files had one.
    """
    if not cases.exists():
        return ""
    with closing(_opened(cases)) as connection:
        return _identity(connection)


def made_ms_of(key: str) -> int:
    """When the file of a log was made, by the log's key, in epoch milliseconds; 0 for files without an identity."""
    made, _, token = key.partition(KEY_SIGN)[2].partition("-")
    return int(made) if token and made.isascii() and made.isdigit() else 0


def _identity(connection: sqlite3.Connection) -> str:
    if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'identity'").fetchone()[0]:
        return ""
    found = connection.execute("SELECT made_ms, token FROM identity").fetchone()
    return f"{found[0]}-{found[1]}" if found is not None else ""


def _replicas(ledger: Path) -> list[str]:
    with closing(_opened(ledger)) as connection:
        return [row[0] for row in connection.execute("SELECT replica FROM chains ORDER BY replica")]


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)
