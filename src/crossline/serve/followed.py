"""Up to which batch answers were held to the stream: a process that comes after another one goes on from there."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from crossline.connectors.feed.files import FeedBatch, batches_in
from crossline.core.basics.errors import StateError
from crossline.logs import get_logger
from crossline.serve.feed.reader import FeedReader

FOLLOWED = "followed"  # in the folder `serve.path`
NOTE_S = 1.0  # between two notes: batches since the last one are followed again, which changes nothing

log = get_logger(__name__)


@dataclass(slots=True)
class Followed:
    """The number of the last batch that was followed, in the file ``path``."""

    path: Path
    _noted_s: float = -NOTE_S
    _last: int | None = None

    def note(self, number: int) -> None:
        """Batch ``number`` was followed; written down now and then. A disk that is full is tried again."""
        self._last = number
        if time.monotonic() - self._noted_s >= NOTE_S:
            self.write()

    def write(self) -> None:
        """Write down the last number that was noted."""
        if self._last is None:
            return
        aside = self.path.with_name(f".{self.path.name}.tmp")
        try:
            aside.write_text(f"{self._last}\n", encoding="ascii")
            aside.replace(self.path)
        except OSError as error:
            log.warning("up to which batch answers were compared cannot be noted now", error=str(error))
        self._noted_s = time.monotonic()

    async def batch(self, reader: FeedReader) -> tuple[FeedBatch | None, int]:
        """The batch from whose time on answers count, and the number behind which to go on.

        That is the noted batch; where the feed does not have it any more, the next one that it has, which is followed
        then. Without a note, or with one of another checkpoint, it is the newest batch.
        """
        newest = await reader.newest()
        noted = self._read()
        if newest is None:
            return None, -1
        if noted is None or noted > newest.number:
            return newest, newest.number
        for number in batches_in(reader.folder):
            if number >= noted:
                with suppress(FileNotFoundError, StateError):
                    return await reader.batch(number), number if number == noted else number - 1
        return newest, newest.number

    def _read(self) -> int | None:
        try:
            return int(self.path.read_text(encoding="ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("up to which batch answers were compared is not known", error=str(error))
            return None
