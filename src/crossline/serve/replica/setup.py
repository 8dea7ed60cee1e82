"""The settings of a follower at its start, and the sources of the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import orjson

from crossline.basics.errors import StateError, UsageError
from crossline.io.objects.location import is_uri
from crossline.runtime.snapshot.checkpoint import OWNER

KAFKA = "kafka"
# Between two forks. Each costs some 20 ms of processor time: the fork, and pages that are touched again after it.
PAUSE_MS = 250


@dataclass(frozen=True, slots=True)
class FollowerSetup:
    """Plain values. ``state``: where shards log their state; "": in the folder ``checkpoint``.

    ``number``: of the follower. ``socket``: where those who ask listen. ``pause_ms``: at least between two forks.
    """

    checkpoint: str
    socket: str
    number: int = 0
    state: str = ""
    pause_ms: int = PAUSE_MS

    @property
    def state_root(self) -> str:
        """Where shards log their state."""
        return self.state or f"{self.checkpoint}/state"

    def checked(self) -> Self:
        """Itself. Raises UsageError if the checkpoint is none that a replica can follow."""
        for place in (self.checkpoint, self.state_root):
            if is_uri(place):
                raise UsageError(
                    f"{place}: found a checkpoint on a store, expected a folder: followers read the copy of one that "
                    "serve.elsewhere keeps"
                )
        return self

    def to_json(self) -> bytes:
        """One line."""
        return orjson.dumps(asdict(self))

    @classmethod
    def of(cls, raw: bytes) -> Self:
        """Inverse of ``to_json``."""
        return cls(**orjson.loads(raw))


@dataclass(frozen=True, slots=True)
class Source:
    """A source of the pipeline, in the order in which Spark's offsets have them."""

    stream: str
    kind: str


def pipeline_of(checkpoint: str) -> str | None:
    """The name of the pipeline whose checkpoint it is; None if none has begun on it."""
    try:
        return str(orjson.loads((Path(checkpoint) / OWNER).read_bytes())["pipeline"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return None


def sources_of(checkpoint: str) -> Sequence[Source]:
    """The sources that the checkpoint has read; raises StateError where it has none yet."""
    path = Path(checkpoint) / OWNER
    try:
        body = orjson.loads(path.read_bytes())
        return [Source(each["stream"], each["kind"]) for each in body["sources"]]
    except FileNotFoundError:
        raise StateError(f"{path} is not there: start the pipeline, which makes it") from None
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise StateError(f"{path} cannot be read ({error}); restore it from a copy") from None
