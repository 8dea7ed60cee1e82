"""Snapshots of the state in the lake: one with a trace goes as a whole, and so do copies that killed processes left.

A snapshot is a whole that is compared with its digests, so no part of it is changed. The writer takes another one of
the state that is left.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crossline.basics.errors import StateError
from crossline.erasure.place import Counts
from crossline.erasure.places import stored_files
from crossline.erasure.places.state_segments import StatePlace
from crossline.erasure.places.stored_files import StoredFilesPlace
from crossline.erasure.subject import Subject
from crossline.io.objects.file_stores import file_store
from crossline.lake.maintenance.expiry import ORPHANED_AFTER_MS
from crossline.lake.state.restore import staging_of
from crossline.lake.state.state_snapshots import StateSnapshot, StateSnapshots
from crossline.runtime.machine.temporary_folders import LOCK, is_held, own_folder_for, sweep
from crossline.runtime.snapshot.checkpoint_mirror import PINNED, CheckpointMirror
from crossline.runtime.snapshot.snapshot import read_snapshot
from crossline.runtime.state_log.pinned_checkpoint import BEHIND, SNAPSHOT, STATE


@dataclass(slots=True)
class StateSnapshotsPlace:
    """All snapshots of a pipeline's state.

    Attributes:
        snapshots: Those of the lake.
        ids: By stream, the field of its record ids.
        folder: The checkpoint's folder on this machine, which may have copies; None: there is none.
        orphaned_ms: Files without a row are deleted from this age on.
        between: Called between two steps; a test ends the process there.
    """

    snapshots: StateSnapshots
    ids: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    orphaned_ms: int = ORPHANED_AFTER_MS
    between: Callable[[str], None] = lambda _: None
    name: str = "snapshots of the state in the lake"
    needs_stop: bool = False

    def find(self, subject: Subject) -> Counts:
        """See ``Place``."""
        total = Counts()
        for each in self.snapshots.all():
            total += self._in(subject, each)
        return total

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``. Raises StateError where the writer is about to put another one of the state before."""
        self._drop_copies()
        total = Counts()
        for each in self.snapshots.all():
            counts = self._in(subject, each)
            if counts.found:
                self.snapshots.drop([each])
                self.between("snapshot")
            total += counts
        self.snapshots.delete_orphans(time.time_ns() // 1_000_000, self.orphaned_ms)
        return total

    def _in(self, subject: Subject, snapshot: StateSnapshot) -> Counts:
        """Rows with a trace in a snapshot, all of which go with it; a damaged one goes too."""
        try:
            counts = self._searched(subject, snapshot)
        except StateError:
            counts = Counts(gone=1)
        if not counts.found:
            return Counts(kept=counts.kept)
        return Counts(gone=counts.gone + counts.changed, files=snapshot.files, size=snapshot.size)

    def _searched(self, subject: Subject, snapshot: StateSnapshot) -> Counts:
        with own_folder_for("snapshot") as own:
            files = own / "files"
            files.mkdir()
            CheckpointMirror(self.snapshots.read(snapshot), files, snapshot.location).look()
            layout = read_snapshot(files / SNAPSHOT).layout
        stores = {each.name: each for each in layout.state_stores}
        state = StatePlace(self.snapshots.root_of(snapshot, STATE), self.ids, stores)
        behind = file_store(self.snapshots.root_of(snapshot, BEHIND))
        outboxes = StoredFilesPlace("outboxes", behind, ".json", stored_files.delivery)
        return state.find(subject) + outboxes.find(subject)

    def _drop_copies(self) -> None:
        """Remove what killed processes left beside the checkpoint."""
        if self.folder is None:
            return
        copies = self.folder / PINNED
        if copies.is_dir():
            if any(is_held(each / LOCK) for each in copies.iterdir()):
                raise StateError(f"{copies}: the lake writer is taking a snapshot of the state; stop it, or come again")
            sweep(copies)
        shutil.rmtree(staging_of(self.folder), ignore_errors=True)
