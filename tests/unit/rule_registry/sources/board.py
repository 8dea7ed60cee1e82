"""A control topic without a broker, a rule log that reads it, and people who publish there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from crossline.basics.message import TopicMessage
from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.yamltext import SIZE_MAX
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.log_file import read_log
from crossline.rule_registry.sources.folder import Files
from crossline.rule_registry.sources.rule_publisher import TopicPublisher
from crossline.rule_registry.sources.topic import TopicPublications, rule_name
from crossline.rules.ruleset import RuleSet
from rule_registry.harness import STREAMS

TOPIC = "control"


class Board:
    """The messages of a topic, which does not lose any until ``compact``."""

    def __init__(self) -> None:
        self.messages: list[TopicMessage] = []
        self.answers = True

    def post(
        self,
        key: str | bytes | None,
        value: str | bytes | None,
        who: str | None = None,
        at_ms: int = 7,
        author: str | None = None,
    ) -> int:
        offset = self.messages[-1].offset + 1 if self.messages else 0
        named = key.encode() if isinstance(key, str) else key
        data = value.encode() if isinstance(value, str) else value
        body = {"who": who, "host": None if who is None else "desk", "author": author}
        headers = tuple((name, text.encode()) for name, text in body.items() if text is not None)
        self.messages.append(TopicMessage(TOPIC, 0, offset, named, data, headers, at_ms))
        return offset

    def compact(self) -> None:
        """Keep the last message of each key."""
        last = {each.key: each.offset for each in self.messages}
        self.messages = [each for each in self.messages if last[each.key] == each.offset]


class BoardReader:
    """Implements ControlReader over a board."""

    topic = TOPIC

    def __init__(self, board: Board) -> None:
        self._board = board
        self._next = 0
        self._whole = False

    def read(self, wait_s: float = 0.0) -> tuple[list[TopicMessage], bool]:  # noqa: ARG002 - nothing is waited for
        if not self._board.answers:
            return [], self._whole
        found = [each for each in self._board.messages if each.offset >= self._next]
        self._next = found[-1].offset + 1 if found else self._next
        self._whole = True
        return found, True

    @property
    def trouble(self) -> str | None:
        return None if self._board.answers else "nobody answers"

    def close(self) -> None:
        pass


def publications(board: Board, wait_s: float = 0.0) -> TopicPublications:
    return TopicPublications(BoardReader(board), rule_name, SIZE_MAX, wait_s=wait_s)


class Pipeline:
    """What a running pipeline does with a board; each ``look`` takes up all that there is."""

    def __init__(self, board: Board, folder: Path, *, review: bool = False) -> None:
        self.board, self.folder, self.review = board, folder, review
        self.now_ms = 1_000
        self._log: DirectoryRuleLog | None = None

    def start(self) -> RuleSet:
        self.stop()
        streams = load_streams(STREAMS, "stream.yaml")
        asked = publications(self.board)
        self._log = DirectoryRuleLog(self.folder, "p", streams, publications=asked, review=self.review)
        return self._log.start(self.now_ms)

    def look(self) -> list[RuleEvent]:
        assert self._log is not None
        events: list[RuleEvent] = []
        for _ in range(20):
            changes = self._log.poll()
            if changes is not None:
                events += self._log.take_up(changes, {}, self.now_ms)[1]
        return events

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    @property
    def log(self) -> list[RuleEvent]:
        return read_log(self.folder / ".log" / "p.jsonl")


def files_of(board: Board) -> Files:
    """What stands on the board, as commands read it."""
    found = TopicPublications(BoardReader(board), rule_name, SIZE_MAX, in_steps=False, strays=False)
    found.begin([], first=True)
    return found.changed() or {}


def publisher_of(board: Board) -> TopicPublisher:
    return TopicPublisher(files_of(board))


def event_values(events: Sequence[RuleEvent]) -> list[tuple[str, str | None, int | None, str | None]]:
    return [(each.event, each.rule_id, each.version, each.status) for each in events]
