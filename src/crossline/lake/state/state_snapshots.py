"""The snapshots of a pipeline's state: files below the warehouse, and a row of the table ``state_snapshots`` each.

A snapshot is there once its row is committed; files without a row are orphans. Rows go before files, so a row never
names files that this process has deleted.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from crossline.basics.errors import CrosslineError, StateError
from crossline.basics.times import format_instant
from crossline.io.objects.file_stores import FileStore, file_store
from crossline.io.objects.location import is_uri, under
from crossline.lake.catalogs.catalog import LakeAddress
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.lake.maintenance.expiry import ORPHANED_AFTER_MS
from crossline.lake.state.snapshot_files import FORMAT, CheckedFiles, RecordedFiles
from crossline.lake.tables.lake_table import PAUSE_S, TRIES_MAX, LakeTable
from crossline.lake.tables.row_filters import one_of
from crossline.lake.tables.table_layouts import BATCH, CHECKPOINT, DELIVERED, STATES
from crossline.lake.watermark import Watermark
from crossline.logs import get_logger
from crossline.runtime.snapshot.checkpoint_mirror import CheckpointMirror
from crossline.runtime.snapshot.rule_log_copy import FOLDER as RULE_LOG
from crossline.runtime.snapshot.rule_log_copy import RuleLogCopy
from crossline.runtime.snapshot.snapshot import read_snapshot
from crossline.runtime.state_log.pinned_checkpoint import BEHIND, SNAPSHOT, STATE, PinnedCheckpoint

FOLDER = "_state"  # below the namespace's folder; the locations of tables do not begin with _
PUT_MS_MAX = ORPHANED_AFTER_MS // 2  # after that, others may take its files for orphans
_EPOCH = 1

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A snapshot of the state of a pipeline.

    Attributes:
        batch: The batch after which the state is.
        checkpoint: The id of the checkpoint.
        delivered_ms: When that batch was delivered, in epoch milliseconds.
        taken_ms: When it was taken.
        location: The folder of its files.
        size: Bytes of its files.
        files: How many there are.
        manifest_digest: SHA-256 of the manifest.
        shards: The number of shards.
        clocks: By log, the highest ingest time up to the batch; see ``Watermark``.
        rules_digest: The fingerprint of the rules in force.
        rule_log_bytes: How much of the rule log it has.
    """

    batch: int
    checkpoint: str
    delivered_ms: int
    taken_ms: int
    location: str
    size: int
    files: int
    manifest_digest: str
    shards: int
    clocks: Mapping[str, int] = field(default_factory=dict)
    rules_digest: str = ""
    rule_log_bytes: int = 0

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.location.rpartition("/")[2]


@dataclass(slots=True)
class StateSnapshots:
    """The snapshots of a lake.

    Attributes:
        lake: The lake.
        before_step: Called with the name of each step before it is taken; tests fail there.
    """

    lake: LakeAddress
    before_step: Callable[[str], None] = lambda _: None

    def all(self) -> list[StateSnapshot]:
        """Those whose rows are committed, the oldest first. The table is not made."""
        table = self._table(make=False)
        if table is None:
            return []
        rows = table.table.scan().to_arrow().to_pylist()
        return sorted(map(_snapshot_of, rows), key=lambda each: (each.taken_ms, each.batch))

    def put(
        self, pinned: PinnedCheckpoint, mark: Watermark, log_path: Path, now_ms: int, stop: threading.Event
    ) -> StateSnapshot | None:
        """Put a copy of a checkpoint in the lake.

        Args:
            pinned: The copy.
            mark: The watermark of its batch.
            log_path: The rule log.
            now_ms: Epoch milliseconds.
            stop: Set: it is given up.

        Returns:
            The snapshot; None: another process put one of this batch or of a later one.

        Raises:
            LakeUnavailableError: Other commits came first each time, or it took too long.
            StoppedError: ``stop`` was set.
        """
        name = f"{now_ms:013d}-{pinned.batch:012d}-{uuid.uuid4().hex[:8]}"
        shown = f"{_location(self.lake)}/{name}"
        files = RecordedFiles(self._files(name), stop)
        began_s = time.monotonic()
        try:
            self.before_step("files")
            rule_log = self._put_files(files, pinned, log_path, shown)
            self.before_step("manifest")
            digest = files.put_manifest()
            _check_time(began_s, shown)
        except Exception:
            with suppress(OSError, CrosslineError):  # else maintenance deletes them
                self._delete_files([name])
            raise
        taken = StateSnapshot(
            batch=pinned.batch,
            checkpoint=pinned.checkpoint,
            delivered_ms=mark.delivered_ms,
            taken_ms=now_ms,
            location=shown,
            size=sum(size for size, _ in files.marks.values()),
            files=len(files.marks),
            manifest_digest=digest,
            shards=pinned.shards,
            clocks=dict(mark.clocks),
            rules_digest=str(read_snapshot(pinned.folder / SNAPSHOT).rules.fingerprint),
            rule_log_bytes=rule_log,
        )
        self.before_step("row")
        table = self._table(make=True)
        assert table is not None  # noqa: S101 - it is made
        if not table.append(_row_of(taken), pinned.checkpoint, pinned.batch):
            self._delete_files([name])
            return None
        return taken

    def _put_files(self, files: RecordedFiles, pinned: PinnedCheckpoint, log_path: Path, shown: str) -> int:
        """Put all files but the manifest; the bytes of the rule log."""
        RuleLogCopy(log_path, pinned.folder, files, shown).follow()
        copy = pinned.folder / RULE_LOG / log_path.name
        size = copy.stat().st_size if copy.exists() else 0
        CheckpointMirror(files, pinned.folder, shown).restore(_EPOCH)
        for folder in (STATE, BEHIND):
            for path in sorted((pinned.folder / folder).rglob("*")):
                if path.is_file():
                    files.put(str(path.relative_to(pinned.folder)), path.read_bytes())
        return size

    def read(self, snapshot: StateSnapshot) -> CheckedFiles:
        """The files of a snapshot, each compared with the manifest. Raises StateError where that is damaged."""
        return CheckedFiles.of(self._files(snapshot.name), snapshot.manifest_digest, snapshot.location)

    def root_of(self, snapshot: StateSnapshot, *parts: str) -> str:
        """The path or URI of the folder of a snapshot, or of what lies below it."""
        return under(self.lake.warehouse, self.lake.namespace, FOLDER, snapshot.name, *parts)

    def drop_old(self, keep: int) -> int:
        """Delete all but the newest ``keep`` snapshots, rows and files; how many."""
        return self.drop(self.all()[:-keep])

    def drop(self, snapshots: Sequence[StateSnapshot]) -> int:
        """Delete snapshots: their rows, then their files; how many."""
        table = self._table(make=False)
        if not snapshots or table is None:
            return 0
        self.before_step("drop rows")
        _delete_rows(table, [each.location for each in snapshots])
        self.before_step("drop files")
        self._delete_files([each.name for each in snapshots])
        return len(snapshots)

    def delete_orphans(self, now_ms: int, older_ms: int = ORPHANED_AFTER_MS) -> int:
        """Delete the files of snapshots without a row that were begun ``older_ms`` ago or earlier; of how many."""
        store = file_store(self._root())
        folders = store.folders()  # before the rows: one that comes meanwhile has a row
        known = {each.name for each in self.all()}
        # A folder on an object store may be left behind without a file.
        begun = {name: _begun_ms(name) for name in folders if name not in known and store.below(name)}
        orphans = [name for name, ms in begun.items() if ms is not None and ms <= now_ms - older_ms]
        self._delete_files(orphans)
        if orphans:
            log.info("snapshots of the state without a row deleted", snapshots=len(orphans))
        return len(orphans)

    def _delete_files(self, names: Sequence[str]) -> None:
        store = file_store(self._root())
        for name in names:
            store.clear(name)

    def _files(self, name: str) -> FileStore:
        return file_store(under(self._root(), name))

    def _root(self) -> str:
        return under(self.lake.warehouse, self.lake.namespace, FOLDER)

    def _table(self, *, make: bool) -> LakeTable | None:
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 - an extra

        if make:
            return LakeTable.ensure(self.lake, STATES)
        try:
            return LakeTable(STATES, self.lake.catalog.load_table((self.lake.namespace, STATES.name)))
        except NoSuchTableError:
            return None


def newest_by(snapshots: Sequence[StateSnapshot], at_ms: int | None = None) -> StateSnapshot:
    """The newest snapshot whose batch was delivered by ``at_ms``; None: the newest one.

    Raises:
        StateError: There is none.
    """
    found = [each for each in snapshots if at_ms is None or each.delivered_ms <= at_ms]
    if found:
        return max(found, key=lambda each: each.taken_ms)
    if not snapshots:
        raise StateError("the lake has no snapshot of the state: start the pipeline anew, without a checkpoint")
    first, wanted = format_instant(min(each.delivered_ms for each in snapshots)), format_instant(at_ms or 0)
    raise StateError(f"the lake has no snapshot of the state by {wanted}; the oldest is of {first}")


def _check_time(began_s: float, shown: str) -> None:
    if (time.monotonic() - began_s) * 1_000 > PUT_MS_MAX:
        raise LakeUnavailableError(f"{shown}: the files of a snapshot of the state took too long to be put")


def _delete_rows(table: LakeTable, locations: Sequence[str]) -> None:
    from pyiceberg.exceptions import CommitFailedException, ValidationException  # noqa: PLC0415 - an extra

    for _ in range(TRIES_MAX):
        table.table.refresh()
        mine = one_of("location", locations)
        if not table.table.scan(row_filter=mine).count():
            return
        try:
            table.table.delete(mine)
        except (CommitFailedException, ValidationException):
            time.sleep(PAUSE_S)
        else:
            return
    raise LakeUnavailableError(f"table {STATES.name} of the lake: {TRIES_MAX} commits met those of others")


def _location(lake: LakeAddress) -> str:
    stem = lake.warehouse.partition("?")[0] if is_uri(lake.warehouse) else f"file://{lake.warehouse}"
    return f"{stem.rstrip('/')}/{lake.namespace}/{FOLDER}"


def _begun_ms(name: str) -> int | None:
    """When the putting of a snapshot began; None: the folder is none of ours."""
    first = name.partition("-")[0]
    return int(first) if first.isdigit() else None


def _row_of(taken: StateSnapshot) -> pa.Table:
    row: dict[str, Any] = {
        "taken_at": taken.taken_ms * 1_000,
        "location": taken.location,
        "bytes": taken.size,
        "files": taken.files,
        "manifest_digest": taken.manifest_digest,
        "format": FORMAT,
        "shards": taken.shards,
        "clocks": orjson.dumps(dict(taken.clocks)).decode(),
        "rules_digest": taken.rules_digest,
        "rule_log_bytes": taken.rule_log_bytes,
        BATCH: taken.batch,
        CHECKPOINT: taken.checkpoint,
        DELIVERED: taken.delivered_ms * 1_000,
    }
    return pa.Table.from_pylist([row], schema=STATES.schema)


def _snapshot_of(row: Mapping[str, Any]) -> StateSnapshot:
    return StateSnapshot(
        batch=row[BATCH],
        checkpoint=row[CHECKPOINT],
        delivered_ms=round(row[DELIVERED].timestamp() * 1_000),
        taken_ms=round(row["taken_at"].timestamp() * 1_000),
        location=row["location"],
        size=row["bytes"],
        files=row["files"],
        manifest_digest=row["manifest_digest"],
        shards=row["shards"],
        clocks=orjson.loads(row["clocks"]),
        rules_digest=row["rules_digest"],
        rule_log_bytes=row["rule_log_bytes"],
    )
