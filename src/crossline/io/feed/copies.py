"""The files of a feed on a store, beside a checkpoint that lies there: one a batch, as many as are kept."""

from __future__ import annotations

from collections.abc import Callable

from crossline.io.feed.files import SUFFIX
from crossline.io.objects.file_stores import FileStore

FOLDER = "feed"
COPIES_MAX, COPIES_BYTES_MAX = 1_024, 256 << 20


def copy_name(batch: int) -> str:
    """What a batch's file is called on the store."""
    return f"{FOLDER}/{batch}{SUFFIX}"


def copies_in(store: FileStore) -> list[int]:
    """The batches whose files are there, ascending. Raises StoreUnavailableError."""
    stems = [name.removesuffix(SUFFIX) for name in store.names(FOLDER) if name.endswith(SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


class FeedCopies:
    """Puts them there, one after the other; the oldest go, beyond a number and a size.

    Guarantee: a file is on the store, whole, before its batch is done. It is put after all that the batch wrote and
    noted, so who sees it finds what it rests on.

    Args:
        store: The checkpoint's.
        discard: Deletes an object, at any time.
        first: The batch that is put first; its own file, and those of later ones, are put again.
    """

    def __init__(
        self,
        store: FileStore,
        discard: Callable[[str], None],
        first: int,
        copies_max: int = COPIES_MAX,
        bytes_max: int = COPIES_BYTES_MAX,
    ) -> None:
        self._store = store
        self._discard = discard
        self._copies_max = copies_max
        self._bytes_max = bytes_max
        there = copies_in(store)
        for batch in there:
            if batch > first:
                store.delete(copy_name(batch))
        self._sizes = {batch: 0 for batch in there if batch < first}  # those of an earlier run count by number alone
        self._total = 0

    def add(self, batch: int, data: bytes) -> None:
        """Put the file of a batch. Raises StoreUnavailableError."""
        self._store.put(copy_name(batch), data)
        self._total += len(data) - self._sizes.pop(batch, 0)
        self._sizes[batch] = len(data)
        while len(self._sizes) > 1 and (len(self._sizes) > self._copies_max or self._total > self._bytes_max):
            oldest = next(iter(self._sizes))
            self._total -= self._sizes.pop(oldest)
            self._discard(copy_name(oldest))
