"""A checkpoint on a store, held: what the driver works in lies here, what counts lies there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson

from crossline.basics.errors import StateError
from crossline.io.feed.copies import FOLDER as FEED_COPIES
from crossline.io.feed.copies import FeedCopies
from crossline.io.objects.file_stores import FileStore, StoreUnavailableError, file_store, retry_until_available
from crossline.io.objects.location import is_uri, under
from crossline.logs import get_logger
from crossline.runtime.machine.temporary_folders import OwnFolder, own_folder
from crossline.runtime.snapshot.checkpoint import LAKE, Checkpoint, claim
from crossline.runtime.snapshot.checkpoint_mirror import NOTES, CheckpointMirror
from crossline.runtime.snapshot.lease import Lease, release_lease
from crossline.runtime.snapshot.rule_log_copy import RuleLogCopy
from crossline.runtime.snapshot.spark_log import last_planned

TABLES, SCHEMAS = "tables", "schemas"
STATE, STATE_FILE = "state", "state.json"
START_S_MAX = 60.0  # a store that does not answer a start is an error after this time
_END_S = 10.0

log = get_logger(__name__)


class StoredCheckpoint(Checkpoint):
    """The hold on the checkpoint at ``uri``; ``folder`` is where this run works in it."""

    def __init__(self, uri: str) -> None:
        self._log: RuleLogCopy | None = None
        self._feed: FeedCopies | None = None
        self._own: OwnFolder = own_folder("checkpoint")
        try:
            here = claim(str(self._own.path / "work"))
            super().__init__(here.folder, here.detach(), uri)
            store = self._store = file_store(uri)
            self._mirror = CheckpointMirror(store, self.folder, uri)
            self._lease = Lease(store, uri, self._mirror.tidy, self._lose)
            retry_until_available(lambda: self._lease.take(self._mirror.epochs()), within_s=START_S_MAX)
            try:
                retry_until_available(lambda: self._mirror.restore(self._lease.epoch), within_s=START_S_MAX)
                retry_until_available(self._drop_states, within_s=START_S_MAX)
            except BaseException:
                release_lease(self._lease)
                raise
        except StoreUnavailableError as error:
            self._own.remove()
            raise StateError(f"{error}; tried for {START_S_MAX:.0f} s: start again once it answers") from error
        except BaseException:
            self._own.remove()
            raise

    @property
    def state_root(self) -> str:
        """On the store: tasks write there."""
        return under(self.shown, self._state)

    @property
    def _state(self) -> str:
        """The folder of the state: another one since ``new_state``."""
        return state_folder_of(self.folder)

    @contextmanager
    def new_state(self) -> Iterator[str]:
        """Where another state is to be written; it takes the place of the one there is once the block has ended well.

        What else was noted in the block is on the store with it: a kill leaves both, or nothing.
        """
        name = f"{STATE}-{self._lease.epoch:012d}"
        self._store.clear(name)
        try:
            yield under(self.shown, name)
        except BaseException:
            with suppress(StoreUnavailableError, StateError):
                self._store.clear(name)
            raise
        temporary = self.folder / f"{STATE_FILE}.tmp"
        temporary.write_bytes(orjson.dumps({"folder": name}))
        temporary.replace(self.folder / STATE_FILE)
        self.publish(threading.Event())
        with suppress(StoreUnavailableError):  # else the next start does it
            self._drop_states()

    def _drop_states(self) -> None:
        """What ``new_state`` was killed over, or did not come to clear away."""
        current = self._state
        for name in self._store.folders():
            if name != current and (name == STATE or name.startswith(f"{STATE}-")):
                self._store.clear(name)
        if last_planned(str(self.folder)) < 0:  # what a checkpoint gave that stood here before is not of this one
            self._store.clear(FEED_COPIES)

    @property
    def tables(self) -> str:
        """Where tables are for tasks on other machines."""
        return under(self.shown, TABLES)

    def schemas(self, stream: str) -> str:
        """On the store: tasks of all machines share them."""
        return schemas_at(self.shown, stream)

    def sink_store(self, name: str) -> FileStore:
        """On the store too: what waits for a sink must outlive this machine."""
        return file_store(under(self.shown, "behind", name))

    @property
    def lake_store(self) -> FileStore:
        """On the store as well."""
        return file_store(under(self.shown, LAKE))

    def keep_feed(self, batch: int, data: bytes) -> None:
        """Put it on the store, before anybody is reported that the batch is done. Raises StoreUnavailableError."""
        if self._feed is None:
            self._feed = FeedCopies(self._store, self._mirror.discard, batch)
        self._feed.add(batch, data)

    def sinks_waiting(self) -> list[str]:
        """The names of those."""
        return file_store(under(self.shown, "behind")).folders()

    def keep_log(self, path: Path) -> None:
        """On the store too, from where it comes where this machine has none, or another one."""
        self._log = RuleLogCopy(path, self.folder, self._store, self.shown)
        self._log.restore(self._lease.epoch)

    def _noted(self) -> None:
        if self._log is not None:
            self._log.follow()
        self._mirror.publish()

    def publish(self, stop: threading.Event) -> None:
        """Have the store get what this run noted, and see that the checkpoint is still its own.

        Waits while the store is away. Raises StoppedError once ``stop`` is set, StateError where another took over.
        """
        retry_until_available(self._noted, stop)
        retry_until_available(self._lease.still_held, stop)

    def missing(self) -> StateError | None:
        """The error of a run whose folder here was deleted; the checkpoint itself is on the store."""
        if self.folder.is_dir():
            return None
        return StateError(
            f"{self.folder} was moved away or deleted while this run worked there on the checkpoint {self.shown}: "
            "found no such folder, expected it until the end of the run. Start again: the next run goes on from what "
            "the store has"
        )

    def _lose(self, error: StateError) -> None:
        self.lost = error
        if self.on_lost is not None:
            self.on_lost()

    def release(self) -> None:
        """See the base class. The last note goes to the store first, so that nothing is done again."""
        if self._released:
            return
        try:
            retry_until_available(self._lease.still_held, within_s=_END_S)
            if self.missing() is None:
                retry_until_available(self._noted, within_s=_END_S)
                retry_until_available(self._mirror.tidy, within_s=_END_S)
        except StoreUnavailableError as error:
            log.warning("the last batch may be judged again: the store did not get its end", error=str(error))
        except StateError as error:  # another run has it
            log.warning("not the holder any more", error=str(error))
        finally:
            release_lease(self._lease)
            super().release()
            self._own.remove()


def state_folder_of(folder: Path) -> str:
    """The name of the folder of the state in the checkpoint that a run works on in ``folder``."""
    known = folder / STATE_FILE
    return str(orjson.loads(known.read_bytes())["folder"]) if known.exists() else STATE


def claim_checkpoint(place: str) -> Checkpoint:
    """Take hold of the checkpoint at ``place``, a folder or a URI. Raises StateError where another has it."""
    return StoredCheckpoint(place) if is_uri(place) else claim(str(Path(place).absolute()))


def schemas_at(uri: str, stream: str) -> str:
    """Where a checkpoint on a store has the registry's answers on a stream's schemas."""
    return under(uri, SCHEMAS, stream)


def is_there(uri: str) -> bool:
    """Whether a pipeline has run on a checkpoint there. Raises StoreUnavailableError where the store does not say."""
    return bool(retry_until_available(lambda: file_store(uri).names(NOTES), within_s=START_S_MAX))


@contextmanager
def read_folder(place: str) -> Iterator[Path]:
    """The checkpoint at ``place`` for reading, without its lease: its folder, or a copy of what a store has."""
    if not is_uri(place):
        yield Path(place)
        return
    own = own_folder("look")
    try:
        store = file_store(place)
        folder = own.path / "work"
        folder.mkdir()
        retry_until_available(lambda: CheckpointMirror(store, folder, place).look(), within_s=START_S_MAX)
        yield folder
    finally:
        own.remove()
