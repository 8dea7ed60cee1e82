"""The pipeline while it is erased from: held by the lock of its checkpoint and of its API, or read beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crossline.basics.errors import StateError
from crossline.erasure.place import Place
from crossline.erasure.registry import CheckpointParts, Surroundings
from crossline.io.objects.file_stores import file_store
from crossline.io.objects.location import is_uri, under
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.reading import LakeReader
from crossline.lake.writing.writer_setup import writer_of
from crossline.runtime.snapshot.checkpoint import LAKE, claim
from crossline.runtime.snapshot.checkpoint_store import StoredCheckpoint, is_there, read_folder, state_folder_of
from crossline.runtime.snapshot.snapshot import read_snapshot
from crossline.runtime.snapshot.spark_log import unfinished_batch
from crossline.runtime.state_log.reshard import settle
from crossline.serve.ownership import held as api_held
from crossline.settings.config import PipelineConfig

_SNAPSHOT, _BEHIND, _FEED = "snapshot.json", "behind", "feed"
# What is of a running pipeline; all others may be erased beside it.
NEEDS_STOP = (
    "the state log, outboxes, the spool of the lake, the feed, files of JSON lines, decisions on all records, records "
    "from the API, its ledger, audit log, labels and cases"
)


@dataclass(slots=True)
class Held:
    """A pipeline, and its checkpoint as far as it is there.

    Attributes:
        config: The pipeline; its paths are absolute or relative to the working directory.
        folder: The folder of its checkpoint on this machine; None: there is none yet.
        stopped: Whether the locks are held.
        environment: Has the passwords that settings name.
        extra: Further places.
    """

    config: PipelineConfig
    folder: Path | None
    stopped: bool
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    extra: tuple[Place, ...] = ()
    _reader: LakeReader | None = None

    def catch_up(self) -> None:
        """Have the lake get the batches that it lacks: else the writer would bring rows of the person later.

        Raises:
            StateError: A batch was planned and is not finished, so its records will be read again.
        """
        if not self.stopped or self.folder is None:
            return
        batch = unfinished_batch(str(self.folder))
        if batch is not None:
            raise StateError(
                f"{self.config.engine.checkpoint}: batch {batch} is not finished, and its records will be read again; "
                "expected a pipeline at rest: run crossline run PIPELINE --drain, then erase"
            )
        if self.config.lake is not None:
            with writer_of(self.config, self.folder, self.environment) as writer:
                while writer.write_next() is not None:
                    pass
                writer.write_side_logs()

    def surroundings(self) -> Surroundings:
        """What places are made from."""
        return Surroundings(self.config, self._checkpoint(), self._lake(), self.stopped, self.environment, self.extra)

    def close(self) -> None:
        """Close the lake."""
        if self._reader is not None:
            self._reader.close()

    def _lake(self) -> LakeReader | None:
        if self.config.lake is not None and self._reader is None:
            self._reader = LakeReader(open_lake(self.config, self.environment), self.config)
        return self._reader

    def _checkpoint(self) -> CheckpointParts | None:
        if self.folder is None:
            return None
        place = self.config.engine.checkpoint
        root = place if is_uri(place) else str(self.folder)
        stores = {}
        if (self.folder / _SNAPSHOT).is_file():
            layout = read_snapshot(self.folder / _SNAPSHOT).layout
            stores = {each.name: each for each in layout.state_stores}
        return CheckpointParts(
            folder=self.folder,
            state_root=under(root, state_folder_of(self.folder)),
            behind=file_store(under(root, _BEHIND)),
            lake=file_store(under(root, LAKE)),
            feed=file_store(under(root, _FEED)),
            stores=stores,
        )


@contextmanager
def holding(config: PipelineConfig, *, dry_run: bool, while_running: bool) -> Iterator[Held]:
    """The pipeline, held for as long as the context is open.

    Args:
        config: The pipeline; its paths are absolute or relative to the working directory.
        dry_run: Nothing will be changed: it is not held.
        while_running: Where it runs it is not held, and ``stopped`` is False.

    Raises:
        StateError: It runs, or its API does.
    """
    with ExitStack() as stack:
        stopped = not dry_run
        folder: Path | None = None
        if not dry_run:
            try:
                folder = _locked(config, stack)
            except StateError as error:
                if not while_running:
                    raise StateError(
                        f"{error}. Erasing needs it stopped, with its API, for {NEEDS_STOP}; --while-running erases "
                        "the rest now"
                    ) from None
                stopped = False
        if not stopped:
            folder = _beside(config, stack)
        held = Held(config, folder, stopped)
        stack.callback(held.close)
        yield held


def _locked(config: PipelineConfig, stack: ExitStack) -> Path | None:
    """The folder of the checkpoint, whose lock is held, and that of the API."""
    with ExitStack() as locks:
        place = config.engine.checkpoint
        folder: Path | None = None
        if is_uri(place):
            if is_there(place):
                stored = StoredCheckpoint(place)
                locks.callback(stored.release)
                folder = stored.folder
        elif Path(place).is_dir():
            mine = claim(str(Path(place).absolute()))
            locks.callback(mine.release)
            folder = mine.folder
            settle(folder)
        if config.serve is not None and Path(config.serve.path).is_dir():
            locks.enter_context(api_held(Path(config.serve.path)))
        stack.push(locks.pop_all())
    return folder


def _beside(config: PipelineConfig, stack: ExitStack) -> Path | None:
    """The folder of the checkpoint, or a copy of its files, beside a run."""
    place = config.engine.checkpoint
    if is_uri(place):
        return stack.enter_context(read_folder(place)) if is_there(place) else None
    return Path(place).absolute() if Path(place).is_dir() else None
