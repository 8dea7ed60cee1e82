"""Rules and lists as they change: the directory rule log on one side, the running pipeline on the other."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Protocol

from crossline.core.conditions.lists import Lists
from crossline.core.rules.ruleset import RuleSet
from crossline.core.settings.config import PipelineConfig as Config
from crossline.core.settings.sinks import rule_topics
from crossline.rulelog.directory import PREVIEW_MS, Changes, DirectoryRuleLog, IngestClock, earliest_ms, log_path
from crossline.rulelog.events import EventKind, RuleEvent
from crossline.rulelog.listlog import ListLog, contents_of
from crossline.rulelog.lists import ListChanges, ListsDirectory
from crossline.rulelog.logfile import read_log


class ListTimes(Protocol):
    """The lists, and the times that they had."""

    def since(self, gone_ms: Mapping[str, int]) -> Lists:
        """Without the versions that no record to come meets.

        ``gone_ms``: by stream, the ingest time that none of its records to come is before.
        """
        ...


class RuleFeed(Protocol):
    """Where rule changes come from. ``changed`` is called beside the batches, ``take_up`` between them only."""

    def start(self) -> tuple[RuleSet, ListTimes]:
        """The rules and lists to begin with."""
        ...

    def events(self) -> list[dict[str, Any]]:
        """All that was logged before, for a history that may have missed some of it."""
        ...

    def changed(self) -> bool:
        """Is there anything to take up? Cheap while nothing changes; what did is read and checked here."""
        ...

    def preview(self) -> tuple[RuleSet, ListTimes]:
        """What rules and lists would be with what ``changed`` found; what is new judges nothing yet."""
        ...

    def note(self, event: EventKind, text: str) -> dict[str, Any]:
        """Log that something happened to rules; the event."""
        ...

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, ListTimes, list[dict[str, Any]]]:
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
        self._path = log_path(config.rules.path, config.name)
        self._contents = contents_of(self._path)
        self._lists = ListsDirectory(config.lists.path, self._contents) if config.lists else None
        topics = rule_topics(config.sinks)
        self._log = DirectoryRuleLog(config.rules.path, config.name, config.streams, self._list_names, topics)
        self._streams = tuple(config.streams)
        self._clocks = clocks
        self._waiting: tuple[ListChanges | None, Changes | None] = (None, None)

    def _list_names(self) -> Collection[str]:
        """Those that there are, or will be once what waits is taken up."""
        return self._preview().versions

    def _preview(self) -> ListLog:
        if self._lists is None:
            return ListLog(self._contents.entries)
        return self._lists.preview(self._waiting[0], dict.fromkeys(self._streams, PREVIEW_MS))

    def start(self) -> tuple[RuleSet, ListTimes]:
        """Those of the log, or at the first start those of the folders; lists that it does not know from theirs."""
        now_ms = _now_ms()
        rules = self._log.start(now_ms, partial(self._lists.start, now_ms=now_ms) if self._lists else None)
        return rules, self._preview()

    def events(self) -> list[dict[str, Any]]:
        """The rule log."""
        return [event.as_dict() for event in read_log(self._path)]

    def changed(self) -> bool:
        """Whether a file of rules or lists changed since the last take-up; those that did are read and checked."""
        lists = self._lists.poll() if self._lists else None
        self._waiting = (lists, None)
        rules = self._log.poll()
        self._waiting = (lists, rules)
        return lists is not None or rules is not None

    def preview(self) -> tuple[RuleSet, ListTimes]:
        """As the log would have it."""
        return self._log.preview(self._waiting[1]), self._preview()

    def note(self, event: EventKind, text: str) -> dict[str, Any]:
        """In the log, so that a start tells it again where it was not delivered."""
        return self._log.note(event, text, _now_ms()).as_dict()

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, ListTimes, list[dict[str, Any]]]:
        """Lists and rules with one write, from the same instants: a rule may have waited for a list."""
        (lists, changes), now_ms = self._waiting, _now_ms()
        begins_ms = {name: earliest_ms(name, highest_ingest_ms, now_ms, self._clocks) for name in self._streams}
        changed = self._lists.events(lists, now_ms, begins_ms) if self._lists and lists else []
        rules, events = self._log.take_up(changes, highest_ingest_ms, now_ms, self._clocks, changed)
        if self._lists and lists:
            self._lists.take(lists, changed)
        self._waiting = (None, None)
        return rules, self._preview(), [event.as_dict() for event in events]

    def close(self) -> None:
        """Let go of the rule log."""
        self._log.close()


class _Fixed:
    """Lists that do not change while they judge."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists

    def since(self, gone_ms: Mapping[str, int]) -> Lists:  # noqa: ARG002 - of history, any record may come
        """All of them."""
        return self._lists


class FixedFeed:
    """Rules that do not change: a backtest's."""

    def __init__(self, rules: RuleSet, lists: Lists) -> None:
        self._rules = rules
        self._lists = _Fixed(lists)

    def start(self) -> tuple[RuleSet, ListTimes]:
        """The rules."""
        return self._rules, self._lists

    def events(self) -> list[dict[str, Any]]:
        """None."""
        return []

    def changed(self) -> bool:
        """Never."""
        return False

    def preview(self) -> tuple[RuleSet, ListTimes]:
        """The same rules and lists."""
        return self._rules, self._lists

    def note(self, event: EventKind, text: str) -> dict[str, Any]:
        """The event; nothing is logged."""
        return RuleEvent(event, _now_ms(), text=text).as_dict()

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, ListTimes, list[dict[str, Any]]]:  # noqa: ARG002
        """The same rules."""
        return self._rules, self._lists, []

    def close(self) -> None:
        """Nothing is held."""
