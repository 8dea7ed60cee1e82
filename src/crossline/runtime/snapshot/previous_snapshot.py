"""What the run before left in a checkpoint."""

from __future__ import annotations

from pathlib import Path

from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotFile, other_format

_UP_TO_FORMAT_3 = "book.json"  # the name of the file then


def previous_snapshot(folder: Path) -> PlanSnapshot | None:
    """The snapshot that the run before left in the checkpoint ``folder``; None at a first start.

    Raises StateError where it is damaged, or of a version that called the file by another name.
    """
    known = SnapshotFile(str(folder / "snapshot.json"))
    if Path(known.path).exists():
        return known.current()
    if (folder / _UP_TO_FORMAT_3).exists():
        raise other_format(3)
    return None
