"""A checkpoint from a snapshot of the state in the lake, where that of a pipeline is lost.

The new checkpoint is what the old one was after the batch of the snapshot, under another id: the lake knows rows of
another checkpoint by their identity, and batches of the new one have other records. It is made beside its place and
appears there whole: by a rename of its folder, or by one note on an object store.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from crossline.basics.errors import StateError, UsageError
from crossline.io.files import state_files
from crossline.io.files.sync import sync_path
from crossline.io.objects.file_stores import FileStore, LocalFiles, file_store
from crossline.io.objects.location import is_uri, under
from crossline.lake.state.snapshot_files import CheckedFiles
from crossline.lake.state.state_snapshots import StateSnapshot, StateSnapshots
from crossline.lake.watermark import Watermark, Watermarks
from crossline.logs import get_logger
from crossline.rule_registry.rows.segments import ENDING, rows_folder
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.runtime.snapshot.checkpoint import HELD, OWNER, RESTORED, claim
from crossline.runtime.snapshot.checkpoint_mirror import CheckpointMirror
from crossline.runtime.snapshot.checkpoint_store import STATE_FILE, StoredCheckpoint
from crossline.runtime.snapshot.rule_log_copy import FOLDER as RULE_LOG
from crossline.runtime.snapshot.rule_log_copy import KEPT, ROWS, RuleLogCopy
from crossline.runtime.snapshot.snapshot import read_snapshot
from crossline.runtime.snapshot.spark_log import last_committed, last_planned
from crossline.runtime.state_log.pinned_checkpoint import BEHIND, SNAPSHOT, STATE, check_state

_METADATA = "spark/metadata"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored.

    Attributes:
        place: The checkpoint, a folder or a URI.
        checkpoint: Its id.
        snapshot: The snapshot that it is from.
        again: The batch that is run again with its records, since it was planned; None: none was.
    """

    place: str
    checkpoint: str
    snapshot: StateSnapshot
    again: int | None


@dataclass(frozen=True, slots=True)
class StateRestore:
    """Restores the checkpoint of a pipeline.

    Attributes:
        pipeline: The pipeline's name.
        place: Its checkpoint, an absolute path or a URI. There must be none yet.
        log_path: Its rule log, which is restored where it is missing, shorter or another one.
        snapshots: The snapshots of the lake.
        now_ms: Epoch milliseconds; names the backup of another rule log.
        before_step: Called with the name of each step before it is taken; tests fail there.
    """

    pipeline: str
    place: str
    log_path: Path
    snapshots: StateSnapshots
    now_ms: int
    before_step: Callable[[str], None] = lambda _: None

    def restore(self, snapshot: StateSnapshot) -> Restored:
        """Make the checkpoint. A call that was killed is repeated from the start.

        Raises:
            UsageError: There is a checkpoint.
            StateError: The snapshot is damaged or of another pipeline, or another process makes the checkpoint.
        """
        files = self.snapshots.read(snapshot)
        return self._on_store(files, snapshot) if is_uri(self.place) else self._in_folder(files, snapshot)

    def _in_folder(self, files: CheckedFiles, snapshot: StateSnapshot) -> Restored:
        target = Path(self.place)
        held = claim(str(target))
        try:
            found = sorted(each.name for each in target.iterdir() if each.name != HELD)
            if found:
                raise _taken(self.place, found[0])
            staging = staging_of(target)
            shutil.rmtree(staging, ignore_errors=True)
            mine = claim(str(staging))
            try:
                again, checkpoint = self._staged(files, staging, snapshot)
                self.before_step("rename")
                _replace_empty(target, staging)
            except Exception:
                shutil.rmtree(staging, ignore_errors=True)
                raise
            finally:
                mine.release()
        finally:
            held.release()
        return Restored(self.place, checkpoint, snapshot, again)

    def _staged(self, files: CheckedFiles, staging: Path, snapshot: StateSnapshot) -> tuple[int | None, str]:
        """Make the checkpoint in ``staging``: the batch that is run again, and the id."""
        self.before_step("files")
        again = self._fill(files, staging, snapshot)
        _put_all(files, STATE, LocalFiles(staging / STATE))
        self._check(staging, str(staging / STATE), snapshot)
        _put_all(files, BEHIND, LocalFiles(staging / BEHIND))
        shutil.rmtree(staging / RULE_LOG, ignore_errors=True)
        checkpoint = self._renamed(staging, snapshot)
        _sync(staging)
        return again, checkpoint

    def _on_store(self, files: CheckedFiles, snapshot: StateSnapshot) -> Restored:
        held = StoredCheckpoint(self.place)
        try:
            _check_empty(held)
            again, checkpoint = self._noted(held, files, snapshot)
        finally:
            held.release()
        return Restored(self.place, checkpoint, snapshot, again)

    def _noted(self, held: StoredCheckpoint, files: CheckedFiles, snapshot: StateSnapshot) -> tuple[int | None, str]:
        """Put the checkpoint on its store: the batch that is run again, and the id."""
        store = file_store(self.place)
        with own_folder_for("restore") as own, held.new_state() as root:
            staging = own / "checkpoint"
            staging.mkdir()
            self.before_step("files")
            again = self._fill(files, staging, snapshot)
            _put_all(files, STATE, file_store(root))
            self._check(staging, root, snapshot)
            _put_all(files, KEPT, file_store(under(self.place, KEPT)))
            for name in store.folders(BEHIND):
                store.clear(f"{BEHIND}/{name}")
            _put_all(files, BEHIND, file_store(under(self.place, BEHIND)))
            checkpoint = self._renamed(staging, snapshot)
            try:
                shutil.copytree(staging, held.folder, dirs_exist_ok=True)
                self.before_step("note")
            except BaseException:
                _empty(held.folder)  # its release puts what is in it, and the state does not count
                raise
        return again, checkpoint

    def _fill(self, files: CheckedFiles, folder: Path, snapshot: StateSnapshot) -> int | None:
        """The driver's files in ``folder``, and the rule log at its place; the batch that is run again."""
        CheckpointMirror(files, folder, snapshot.location).look()
        (folder / STATE_FILE).unlink(missing_ok=True)
        owner = orjson.loads((folder / OWNER).read_bytes())["pipeline"] if (folder / OWNER).exists() else self.pipeline
        if owner != self.pipeline:
            raise StateError(f"{snapshot.location} is the state of pipeline {owner}, found {self.pipeline}")
        if last_committed(str(folder)) != snapshot.batch:
            raise StateError(f"{snapshot.location}: found batch {last_committed(str(folder))}, not {snapshot.batch}")
        _restore_rule_log(self.log_path, folder, files, snapshot, self.now_ms)
        planned = last_planned(str(folder))
        return planned if planned > snapshot.batch else None

    def _check(self, folder: Path, root: str, snapshot: StateSnapshot) -> None:
        check_state(root, read_snapshot(folder / SNAPSHOT), snapshot.batch)

    def _renamed(self, folder: Path, snapshot: StateSnapshot) -> str:
        """Give the checkpoint another id, which the lake knows from here on as one that has the batch; the id."""
        checkpoint = str(uuid.uuid4())
        (folder / RESTORED).write_bytes(orjson.dumps({"batch": snapshot.batch, "from": snapshot.location}))
        path = folder / _METADATA
        path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "id": checkpoint}))
        self.before_step("watermark")
        marks = Watermarks.of(self.snapshots.lake)
        newest = marks.newest()
        # What the lake knew does not become unknown: rows that the old checkpoint gave after the snapshot stay.
        known_ms = max(snapshot.delivered_ms, 0 if newest is None else newest.delivered_ms)
        marks.append(Watermark(checkpoint, snapshot.batch, known_ms, snapshot.clocks))
        return checkpoint


def staging_of(checkpoint: Path) -> Path:
    """Where a checkpoint is made before it is renamed to ``checkpoint``; a kill leaves it there."""
    return checkpoint.with_name(f".{checkpoint.name}.restoring")


def _taken(place: str, found: str) -> UsageError:
    return UsageError(
        f"{place}: found {found} in it, expected no checkpoint; stop the pipeline, move the checkpoint away, and come "
        "again"
    )


def _check_empty(held: StoredCheckpoint) -> None:
    if last_planned(str(held.folder)) >= 0:
        raise _taken(held.shown, "batches")


def _empty(folder: Path) -> None:
    """Remove what is in the folder of a checkpoint, but for its lock."""
    for each in folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        elif each.name != HELD:
            each.unlink()


def _put_all(files: CheckedFiles, folder: str, store: FileStore) -> None:
    for name in files.below(folder):
        store.put(name, files.get(f"{folder}/{name}"))


def _replace_empty(target: Path, staging: Path) -> None:
    """Put ``staging`` in the place of ``target``, which is empty but for its lock. The lock in ``staging`` goes on."""
    try:
        (target / HELD).unlink()
        target.rmdir()
        staging.rename(target)
    except OSError as error:
        raise StateError(f"{target}: another process is making the checkpoint: {error.strerror}; stop it") from error
    sync_path(target.parent)


def _sync(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        sync_path(path)


def _restore_rule_log(log_path: Path, folder: Path, files: CheckedFiles, snapshot: StateSnapshot, epoch: int) -> None:
    """The rule log, what it refers to, and what tables from topics held, where this machine does not have them."""
    RuleLogCopy(log_path, folder, files, snapshot.location).restore(epoch)
    for name in files.below(KEPT):
        kind, _, file = name.partition("/")
        if kind != ROWS:
            _write_missing(log_path.parent / kind / file, files, name)
    copies = folder / RULE_LOG / ROWS
    for copy in sorted(copies.glob(f"*/*{ENDING}")) if copies.exists() else ():
        base = orjson.loads(copy.read_bytes().partition(b"\n")[0])["base"]
        path = rows_folder(log_path) / copy.parent.name / f"{base}.rows"
        _write_missing(path, files, f"{ROWS}/{path.name}")


def _write_missing(path: Path, files: CheckedFiles, name: str) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        state_files.put(path, files.get(f"{KEPT}/{name}"))
