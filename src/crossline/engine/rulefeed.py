"""Rules and lists as they change: the directory rule log on one side, the running pipeline on the other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from crossline.core.config import Pipeline as Config
from crossline.core.rules.ruleset import RuleSet
from crossline.rulelog.directory import DirectoryRuleLog, IngestClock, log_path
from crossline.rulelog.lists import ListsDirectory
from crossline.rulelog.logfile import read_log

Lists = Mapping[str, Sequence[Any]]


class RuleFeed(Protocol):
    """Where rule changes come from. ``take_up`` is called between batches only."""

    def start(self) -> tuple[RuleSet, Lists]:
        """The rules and lists to begin with."""
        ...

    def events(self) -> list[dict[str, Any]]:
        """All that was logged before, for a history that may have missed some of it."""
        ...

    def changed(self) -> bool:
        """Cheap: is there anything to take up?"""
        ...

    def preview(self) -> RuleSet:
        """What the rules would be with what ``changed`` found; what is new judges nothing yet."""
        ...

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, Lists, list[dict[str, Any]]]:
        """Validate and log what changed; rules and lists from now on, and the events for the history.

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
        self._log = DirectoryRuleLog(config.rules.path, config.name, config.streams, self._list_names)
        self._path = log_path(config.rules.path, config.name)
        self._clocks = clocks
        self._waiting: tuple[Any, Any] = (None, None)

    def _list_names(self) -> Sequence[str]:
        return list(self._lists.lists) if self._lists else []

    def start(self) -> tuple[RuleSet, Lists]:
        """The rules of the log, or at the first start those of the folder."""
        lists = self._lists.load() if self._lists else {}
        return self._log.start(_now_ms()), lists

    def events(self) -> list[dict[str, Any]]:
        """The rule log."""
        return [event.as_dict() for event in read_log(self._path)]

    def changed(self) -> bool:
        """Whether a file of rules or lists changed since the last take-up."""
        lists = self._lists.poll() if self._lists else None
        rules = self._log.poll()
        self._waiting = (lists, rules)
        return lists is not None or rules is not None

    def preview(self) -> RuleSet:
        """As the log would have it."""
        return self._log.preview(self._waiting[1])

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, Lists, list[dict[str, Any]]]:
        """Lists first, since a rule may have waited for one."""
        events: list[Any] = []
        changed_lists, changed_rules = self._waiting
        if self._lists is not None and changed_lists is not None:
            events += self._lists.take_up(changed_lists, _now_ms())[1]
            changed_rules = self._log.poll()
        rules, rule_events = self._log.take_up(changed_rules, highest_ingest_ms, _now_ms(), self._clocks)
        events += rule_events
        return rules, self._lists.lists if self._lists else {}, [event.as_dict() for event in events]

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

    def preview(self) -> RuleSet:
        """The same rules."""
        return self._rules

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, Lists, list[dict[str, Any]]]:  # noqa: ARG002
        """The same rules."""
        return self._rules, self._lists, []

    def close(self) -> None:
        """Nothing is held."""
