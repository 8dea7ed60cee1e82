"""What a table's topic is to its log: messages, on from somewhere, or from the beginning to the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from crossline.basics.errors import SourceError
from crossline.basics.message import TopicMessage

FIRST_WAIT_S = 60.0


class RowReader(Protocol):
    """Messages of a topic, each partition in its order; see ``RowTopicReader``."""

    topic: str
    topic_id: str | None
    next: dict[int, int]

    def begin(self, offsets: Mapping[int, int], topic_id: str | None) -> None:
        """Go on there."""
        ...

    def read(self, wait_s: float = 0.0) -> list[TopicMessage]:
        """Those that came since. Raises UsageError where there is no such topic."""
        ...

    @property
    def whole(self) -> bool:
        """Whether the end was met."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why nothing comes."""
        ...

    def compacted(self) -> bool:
        """Whether the topic keeps the last message of each key for good; no where that is not known."""
        ...

    def close(self) -> None:
        """Leave the brokers."""
        ...


def messages_to_the_end(
    reader: RowReader, wait_s: float = FIRST_WAIT_S, clock_s: Callable[[], float] = time.monotonic
) -> Iterator[TopicMessage]:
    """The messages of a topic as they are now. Raises SourceError where none comes for ``wait_s`` before the end."""
    reader.begin({}, None)
    deadline_s = clock_s() + wait_s
    while True:
        found = reader.read(0.1)
        yield from found
        if reader.whole:
            return
        if found:
            deadline_s = clock_s() + wait_s
        elif clock_s() > deadline_s:
            text = reader.trouble or f"it was not read to its end in {wait_s:.0f} s"
            raise SourceError(
                f"topic {reader.topic}, which has the rows of a table, cannot be read: {text}; see that its brokers "
                "are up"
            )
