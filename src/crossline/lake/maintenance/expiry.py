"""Expires snapshots and deletes the files that only they had; deletes orphaned files, and rows beyond retention.

pyiceberg's own expiry deletes no file. A file is deleted once no snapshot refers to it: a reader of an expired snapshot
may still read it, so snapshots of the last minutes are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow import fs as pafs

from crossline.io.objects.location import is_uri, location_of
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.lake.tables.data_files import delete_files
from crossline.lake.tables.lake_table import TRIES_MAX, LakeTable
from crossline.lake.tables.row_filters import before
from crossline.logs import get_logger

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

READ_MS = 15 * 60_000  # a reader may work on a snapshot for so long
ORPHANED_AFTER_MS = 24 * 3_600_000  # a writer may have a file for so long before it commits it
SCHEME = "file://"
CHECKSUM = ".crc"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Expired:
    """How many snapshots went, and how many files."""

    snapshots: int = 0
    files: int = 0


def expire(table: LakeTable, now_ms: int, snapshots_max: int, read_ms: int = READ_MS) -> Expired:
    """Keep the last ``snapshots_max`` snapshots, and those of the last ``read_ms`` milliseconds."""
    own = table.table
    own.refresh()
    known = sorted(own.metadata.snapshots, key=lambda each: each.timestamp_ms)
    gone = [each for each in known[:-snapshots_max] if each.timestamp_ms < now_ms - read_ms]
    if not gone:
        return Expired()
    ids = {each.snapshot_id for each in gone}
    own.maintenance.expire_snapshots().by_ids(sorted(ids)).commit()
    own.refresh()
    left = {each.snapshot_id for each in own.metadata.snapshots}
    used = set(_files(own, own.metadata.snapshots))
    unused = sorted(set(_files(own, (each for each in gone if each.snapshot_id not in left))) - used)
    delete_files(unused, own.io)
    return Expired(len(ids - left), len(unused))


def expire_history(
    table: LakeTable, between: Callable[[str], None] = lambda _: None, orphaned_ms: int = ORPHANED_AFTER_MS
) -> Expired:
    """Keep the current snapshot alone, and no file that it does not use, even where a reader has an older one.

    A manifest of a replacing commit names the file that went, with the bounds of its columns. So one commit without
    files comes first: its snapshot leaves such manifests out. Files go before the snapshots that have them: a call that
    was killed is repeated, and finds them all.

    Args:
        table: The table.
        between: Called after each step.
        orphaned_ms: Files that nothing refers to are deleted too, if they are this old.
    """
    own = table.table
    own.refresh()
    _drop_deletes(own)
    between("manifests")
    current = own.metadata.current_snapshot_id
    old = [each for each in own.metadata.snapshots if each.snapshot_id != current]
    kept = {path for part in _parts(own, (each for each in own.metadata.snapshots if each not in old)) for path in part}
    count = 0
    for part in _parts(own, old):  # data files, then what names them
        unused = sorted(part - kept)
        delete_files(unused, own.io)
        count += len(unused)
        between("deleted")
    if old:
        own.maintenance.expire_snapshots().by_ids(sorted(each.snapshot_id for each in old)).commit()
        own.refresh()
        between("expired")
    delete_orphans(table, time.time_ns() // 1_000_000, orphaned_ms)
    return Expired(len(old), count)


def _drop_deletes(own: Table) -> None:
    """Commit a snapshot without the manifests in which files only went."""
    from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - an extra

    for _ in range(TRIES_MAX):
        current = own.current_snapshot()
        if current is None or not any(_only_deletes(each) for each in current.manifests(own.io)):
            return
        try:
            with own.transaction() as transaction, transaction.update_snapshot().fast_append():
                pass
        except CommitFailedException:
            own.refresh()
    raise LakeUnavailableError(f"table {own.name()[-1]} of the lake: {TRIES_MAX} commits met those of others")


def _only_deletes(manifest: ManifestFile) -> bool:
    return not manifest.has_added_files() and not manifest.has_existing_files()


def _parts(table: Table, snapshots: Iterable[Snapshot]) -> tuple[set[str], set[str], set[str]]:
    """The data files, manifests and lists of manifests of ``snapshots``; a file that is gone names none."""
    data: set[str] = set()
    manifests: set[str] = set()
    lists: set[str] = set()
    for snapshot in snapshots:
        lists.add(snapshot.manifest_list)
        with suppress(FileNotFoundError):
            for manifest in snapshot.manifests(table.io):
                if manifest.manifest_path in manifests:
                    continue
                manifests.add(manifest.manifest_path)
                with suppress(FileNotFoundError):
                    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                    data |= {each.data_file.file_path for each in entries}
    return data, manifests, lists


def _files(table: Table, snapshots: Iterable[Snapshot]) -> Iterator[str]:
    """All files of ``snapshots``: lists of manifests, manifests, data files. A file that is gone has none."""
    seen: set[str] = set()
    for snapshot in snapshots:
        yield snapshot.manifest_list
        try:
            manifests = snapshot.manifests(table.io)
        except FileNotFoundError:
            continue
        for manifest in manifests:
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            yield manifest.manifest_path
            yield from (
                each.data_file.file_path for each in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            )


def drop_before(table: LakeTable, first_day_ms: int) -> None:
    """Delete the rows of the days before an instant, which is the start of a day: whole files, none is rewritten."""
    if table.table.current_snapshot() is not None:
        table.table.refresh()
        table.table.delete(before(table.layout.time, first_day_ms))


def delete_orphans(table: LakeTable, now_ms: int, older_ms: int = ORPHANED_AFTER_MS) -> int:
    """Delete the files in the table's folder that nothing refers to, from ``older_ms`` milliseconds ago or earlier."""
    own = table.table
    own.refresh()
    used = set(_files(own, own.metadata.snapshots))
    used |= {own.metadata_location, *(each.metadata_file for each in own.metadata.metadata_log)}
    known = {plain_path(path) for path in used}
    orphans = [path for path in _older_files(own.location(), now_ms - older_ms) if _owner(path) not in known]
    delete_files(orphans, own.io)
    if orphans:
        log.info("files without a snapshot deleted", table=table.layout.name, files=len(orphans))
    return len(orphans)


def plain_path(path: str) -> str:
    """A path as one of the spellings that writers use for it: Hadoop writes ``file:/x`` and ``s3a://``."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return path
    if scheme == "file":
        return f"/{rest.lstrip('/')}"
    return f"s3:{rest}" if scheme in {"s3a", "s3n"} else path


def _owner(path: str) -> str:
    """The file that a file is of: Hadoop writes the checksum of ``x`` on a disk into ``.x.crc`` beside it."""
    folder, slash, name = plain_path(path).rpartition("/")
    if name.startswith(".") and name.endswith(CHECKSUM):
        name = name[1:].removesuffix(CHECKSUM)
    return f"{folder}{slash}{name}"


def _older_files(location: str, before_ms: int) -> Iterator[str]:
    local = location.startswith(SCHEME) or not is_uri(location)
    place = location_of(location.removeprefix(SCHEME) if local else location)
    for each in place.fs.get_file_info(pafs.FileSelector(place.base, recursive=True, allow_not_found=True)):
        if each.type == pafs.FileType.File and (each.mtime_ns or 0) // 1_000_000 <= before_ms:
            yield f"{location}{each.path.removeprefix(place.base)}"
