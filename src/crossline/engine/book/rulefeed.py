"""Rules and lists as they change: the directory rule log on one side, the running pipeline on the other."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from crossline.core.rules.ruleset import RuleSet
from crossline.core.settings.config import Pipeline as Config
from crossline.core.settings.sinks import rule_topics
from crossline.rulelog.directory import Changes, DirectoryRuleLog, IngestClock, log_path
from crossline.rulelog.events import EventKind, RuleEvent
from crossline.rulelog.lists import ListChanges, ListsDirectory
from crossline.rulelog.logfile import read_log

Lists = Mapping[str, Sequence[Any]]


class RuleFeed(Protocol):
    """Where rule changes come from. ``changed`` is called beside the batches, ``take_up`` between them only."""

    def start(self) -> tuple[RuleSet, Lists]:
        """The rules and lists to begin with."""
        ...

    def events(self) -> list[dict[str, Any]]:
        """All that was logged before, for a history that may have missed some of it."""
        ...

    def changed(self) -> bool:
        """Is there anything to take up? Cheap while nothing changes; what did is read and checked here."""
        ...

    def preview(self) -> tuple[RuleSet, Lists]:
        """What rules and lists would be with what ``changed`` found; rules that are new judge nothing yet."""
        ...

    def note(self, event: EventKind, text: str) -> dict[str, Any]:
        """Log that something happened to rules; the event."""
        ...

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, Lists, list[dict[str, Any]]]:
        """Log what ``changed`` found; rules and lists from now on, and the events for the history. Fast.

        ``highest_ingest_ms``: by stream, of all records judged so far.
        """
        ...

    def close(self) -> None:
        """Let go of the log."""
        ...


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class DirectoryFeed:
    """Implements RuleFeed over the folders of rules and lists.

    ``clocks``: by stream; where ingest time comes from the records, a publication holds from the highest one seen.
    """

    def __init__(self, config: Config, clocks: Mapping[str, IngestClock]) -> None:
        self._lists = ListsDirectory(config.lists.path) if config.lists else None
        topics = rule_topics(config.sinks)
        self._log = DirectoryRuleLog(config.rules.path, config.name, config.streams, self._list_names, topics)
        self._path = log_path(config.rules.path, config.name)
        self._clocks = clocks
        self._waiting: tuple[ListChanges | None, Changes | None] = (None, None)
        self._events: list[RuleEvent] = []

    def _list_names(self) -> Collection[str]:
        """Those that there are, or will be once what waits is taken up."""
        lists = self._waiting[0]
        return lists.names if lists is not None else self._lists.lists if self._lists else ()

    def start(self) -> tuple[RuleSet, Lists]:
        """The rules of the log, or at the first start those of the folder."""
        lists = self._lists.load() if self._lists else {}
        return self._log.start(_now_ms()), lists

    def events(self) -> list[dict[str, Any]]:
        """The rule log."""
        return [event.as_dict() for event in read_log(self._path)]

    def changed(self) -> bool:
        """Whether a file of rules or lists changed since the last take-up; those that did are read and checked."""
        lists = self._lists.poll() if self._lists else None
        self._waiting = (lists, None)
        rules = self._log.poll()
        self._waiting = (lists, rules)
        # Lists that were taken up when the log could not be written are still to be handed on.
        return lists is not None or rules is not None or bool(self._events)

    def preview(self) -> tuple[RuleSet, Lists]:
        """As the log would have it."""
        lists, changes = self._waiting
        there = self._lists.lists if self._lists else {}
        return self._log.preview(changes), {**there, **(lists.entries if lists is not None else {})}

    def note(self, event: EventKind, text: str) -> dict[str, Any]:
        """In the log, so that a start tells it again where it was not delivered."""
        return self._log.note(event, text, _now_ms()).as_dict()

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, Lists, list[dict[str, Any]]]:
        """Lists first, since a rule may have waited for one."""
        lists, changes = self._waiting
        if self._lists is not None and lists is not None:
            # Kept until they are handed on: the log may not be written now.
            self._events += self._lists.take_up(lists, _now_ms())[1]
            self._waiting = (None, changes)
        rules, rule_events = self._log.take_up(changes, highest_ingest_ms, _now_ms(), self._clocks)
        events = [event.as_dict() for event in (*self._events, *rule_events)]
        self._waiting, self._events = (None, None), []
        return rules, self._lists.lists if self._lists else {}, events

    def close(self) -> None:
        """Let go of the rule log."""
        self._log.close()


class FixedFeed:
    """Rules that do not change: a backtest's."""

    def __init__(self, rules: RuleSet, lists: Lists) -> None:
        self._rules = rules
        self._lists = lists

    def start(self) -> tuple[RuleSet, Lists]:
        """The rules."""
        return self._rules, self._lists

    def events(self) -> list[dict[str, Any]]:
        """None."""
        return []

    def changed(self) -> bool:
        """Never."""
        return False

    def preview(self) -> tuple[RuleSet, Lists]:
        """The same rules and lists."""
        return self._rules, self._lists

    def note(self, event: EventKind, text: str) -> dict[str, Any]:
        """The event; nothing is logged."""
        return RuleEvent(event, _now_ms(), text=text).as_dict()

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, Lists, list[dict[str, Any]]]:  # noqa: ARG002
        """The same rules."""
        return self._rules, self._lists, []

    def close(self) -> None:
        """Nothing is held."""
