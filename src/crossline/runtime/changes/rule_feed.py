"""Rules, lists and tables as they change: the directory rule log on one side, the running pipeline on the other."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from crossline.basics.conditions.lists import Lists
from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.alerts.breaker import BreakerTrip
from crossline.ingest.enrich.versions import Tables, TableVersion
from crossline.io.tokens.lookup import list_tokens
from crossline.rule_registry.directory import PREVIEW_MS, Changes, DirectoryRuleLog, IngestClock, earliest_ms, log_path
from crossline.rule_registry.events import EventKind, RuleEvent
from crossline.rule_registry.list_log import ListContents, ListLog, contents_of
from crossline.rule_registry.lists import ListChanges, ListsDirectory
from crossline.rule_registry.log_file import read_log
from crossline.rule_registry.outcomes.policies import policy_events
from crossline.rule_registry.rows.row_log import RowLogs
from crossline.rule_registry.rows.tables import RowChanges, TopicTables
from crossline.rule_registry.table_log import TableLog, TableStore
from crossline.rule_registry.tables import TableChanges, TablesDirectory, forms_of
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.publications import lists_of, refusal_topic_of, row_reader, rules_of
from crossline.settings.config import PipelineConfig as Config
from crossline.settings.sinks import rule_topics

Streams = Mapping[str, StreamSpec]


class ListTimes(Protocol):
    """The lists and tables, and the times that they had.

    ``gone_ms``: by stream, the ingest time that none of its records to come is before.
    """

    def since(self, gone_ms: Mapping[str, int]) -> Lists:
        """The lists without the versions that no record to come meets."""
        ...

    def tables_since(self, gone_ms: Mapping[str, int], streams: Streams | None = None) -> Tables:
        """The same of tables; their contents are where tasks read them.

        ``streams``: what declares them, where not the streams of now.
        """
        ...


@dataclass(frozen=True, slots=True)
class LoggedTimes:
    """Those of a log. ``tables`` None: there are none of files; ``rows``: those of topics."""

    lists: ListLog
    tables: TableLog | None = None
    rows: RowLogs | None = None

    def since(self, gone_ms: Mapping[str, int]) -> Lists:
        """As of the log."""
        return self.lists.since(gone_ms)

    def tables_since(self, gone_ms: Mapping[str, int], streams: Streams | None = None) -> Tables:
        """As of the log. Raises StateError where a content that is needed is not to be had."""
        found = dict[str, tuple[TableVersion, ...]]()
        for each in (self.tables, self.rows):
            if each is not None:
                found |= (each if streams is None else each.as_declared(streams)).since(gone_ms)
        return found


class RuleFeed(Protocol):
    """Where rule changes come from. ``changed`` is called beside the batches, ``take_up`` between them only."""

    def start(self) -> tuple[RuleSet, ListTimes]:
        """The rules to begin with, lists and tables."""
        ...

    def events(self) -> list[dict[str, Any]]:
        """All that was logged before, for a history that may have missed some of it."""
        ...

    def refusals(self) -> list[dict[str, Any]]:
        """The refusals in force: of the start, and of the changes applied last."""
        ...

    def changed(self) -> bool:
        """Is there anything to take up? Cheap while nothing changes; what did is read and checked here."""
        ...

    @property
    def tables_alone(self) -> bool:
        """Whether what ``changed`` found is of tables, and of nothing else."""
        ...

    def preview(self) -> tuple[RuleSet, ListTimes]:
        """What rules, lists and tables would be with what ``changed`` found; what is new judges nothing yet."""
        ...

    def note(self, event: EventKind, text: str) -> dict[str, Any]:
        """Log that something happened to rules; the event."""
        ...

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, ListTimes, list[dict[str, Any]]]:
        """Log what ``changed`` found; rules, lists and tables from now on, and the events for the history. Fast.

        ``highest_ingest_ms``: by stream, of all records judged so far.
        """
        ...

    def trip(
        self, trips: Sequence[BreakerTrip], highest_ingest_ms: Mapping[str, int]
    ) -> tuple[RuleSet, list[dict[str, Any]]]:
        """Log that rules flood; the rules from now on, and the events. What ``changed`` found still waits."""
        ...

    def in_force(self, tables: Tables) -> None:
        """No task reads any other content of a table from here on; they may go."""
        ...

    def close(self) -> None:
        """Let go of the log."""
        ...


def _lists_of(config: Config, contents: ListContents) -> ListsDirectory | None:
    if config.lists is None:
        return None
    return ListsDirectory(lists_of(config.lists, config.rules), contents, list_tokens(config.streams))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class DirectoryFeed:
    """Implements RuleFeed over the folders or topics of rules and lists, and the files of tables.

    ``clocks``: by stream; where ingest time comes from the records, a publication holds from the highest one seen.
    ``folder``: where tasks read tables; beside the log where None. ``allow_no_rules``: may it start without?
    """

    def __init__(
        self,
        config: Config,
        clocks: Mapping[str, IngestClock],
        folder: Path | None = None,
        *,
        allow_no_rules: bool = True,
    ) -> None:
        self._allow_no_rules = allow_no_rules
        self._refused_rows: list[RuleEvent] = []
        self._path = log_path(config.rules.path, config.name)
        self._contents = contents_of(self._path)
        self._lists = _lists_of(config, self._contents)
        sorted_for_tasks = folder or self._path.parent / "tables"
        self._store = TableStore(self._path, sorted_for_tasks, forms_of(config))
        self._rows = TopicTables(config, self._path, sorted_for_tasks, row_reader)
        self._tables = TablesDirectory(config, self._store) if config.tables else None
        topics = rule_topics(config.sinks)
        need = config.rules.review
        self._log = DirectoryRuleLog(
            config.rules.path,
            config.name,
            config.streams,
            list_names=self._list_names,
            sink_topics=topics,
            figures=config.figures,
            publications=rules_of(config.rules),
            review=need != "none",
            proven=need == "proven",
        )
        self._refusals = refusal_topic_of(config.rules, self._path)
        self._streams = tuple(config.streams)
        self._policy = config.policy
        self._clocks = clocks
        self._waiting = _Waiting()

    def _list_names(self) -> Collection[str]:
        """The current ones, with the changes that wait to be applied."""
        return self._preview().lists.versions

    def _preview(self) -> LoggedTimes:
        waiting, then_ms = self._waiting, dict.fromkeys(self._streams, PREVIEW_MS)
        lists = self._lists.preview(waiting.lists, then_ms) if self._lists else ListLog(self._contents.entries)
        tables = self._tables.preview(waiting.tables, then_ms) if self._tables else None
        return LoggedTimes(lists, tables, self._rows.preview(waiting.rows, then_ms))

    def start(self) -> tuple[RuleSet, ListTimes]:
        """Those of the log, or at the first start those of the folders; lists that it does not know from theirs."""
        now_ms = _now_ms()
        rules = self._log.start(now_ms, partial(self._begun, now_ms), allow_no_rules=self._allow_no_rules)
        if self._refusals is not None:
            self._refusals.begin(read_log(self._path))
        return rules, self._preview()

    def _begun(self, now_ms: int, events: Sequence[RuleEvent]) -> list[RuleEvent]:
        """The events of lists, tables and the policy that a log with ``events`` does not know."""
        begun = self._lists.start(events, now_ms) if self._lists else []
        begun += self._tables.start(events, now_ms) if self._tables else []
        rows = self._rows.start(events, now_ms)
        self._refused_rows = [event for event in rows if event.event == "refused"]
        return [*begun, *rows, *policy_events(events, self._policy, now_ms)]

    def events(self) -> list[dict[str, Any]]:
        """The rule log."""
        return [event.as_dict() for event in read_log(self._path)]

    def refusals(self) -> list[dict[str, Any]]:
        """Of rules, shared figures, lists and tables; of rows of topics those that the start met."""
        lists = self._lists.refusals if self._lists is not None else ()
        tables = self._tables.refusals.values() if self._tables is not None else ()
        return [each.as_dict() for each in (*self._log.refusals.values(), *lists, *tables, *self._refused_rows)]

    def changed(self) -> bool:
        """Whether a file of any kind changed since the last take-up; those that did are read and checked."""
        if self._refusals is not None:
            self._refusals.send()
        lists = self._lists.poll() if self._lists else None
        tables = self._tables.poll() if self._tables else None
        rows = self._rows.poll()
        self._waiting = _Waiting(lists, tables, rows)
        rules = self._log.poll()
        self._waiting = _Waiting(lists, tables, rows, rules)
        return any(each is not None for each in (lists, tables, rows, rules))

    @property
    def tables_alone(self) -> bool:
        """As of the protocol."""
        return self._waiting.lists is None and self._waiting.rules is None

    def preview(self) -> tuple[RuleSet, ListTimes]:
        """As the log would have it."""
        return self._log.preview(self._waiting.rules), self._preview()

    def note(self, event: EventKind, text: str) -> dict[str, Any]:
        """Write it to the rule log, so that a start reports it again where it was not delivered."""
        return self._log.note(event, text, _now_ms()).as_dict()

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, ListTimes, list[dict[str, Any]]]:
        """All with one write, from the same instants: a rule may have waited for a list."""
        waiting, now_ms = self._waiting, _now_ms()
        lists, tables = waiting.lists, waiting.tables
        begins_ms = {name: earliest_ms(name, highest_ingest_ms, now_ms, self._clocks) for name in self._streams}
        changed = self._lists.events(lists, now_ms, begins_ms) if self._lists and lists else []
        joined = self._tables.events(tables, now_ms, begins_ms) if self._tables and tables else []
        rows = waiting.rows or {}
        more = [*changed, *joined, *self._rows.events(rows, now_ms)]
        undo = self._rows.commit(rows, begins_ms)
        try:
            rules, events = self._log.take_up(waiting.rules, highest_ingest_ms, now_ms, self._clocks, more)
        except BaseException:
            undo()
            raise
        self._rows.take(rows, begins_ms)
        if self._lists and lists:
            self._lists.take(lists, changed)
        if self._tables and tables:
            self._tables.take(tables, joined)
        self._waiting = _Waiting()
        if self._refusals is not None:
            self._refusals.add(events)
        return rules, self._preview(), [event.as_dict() for event in events]

    def trip(
        self, trips: Sequence[BreakerTrip], highest_ingest_ms: Mapping[str, int]
    ) -> tuple[RuleSet, list[dict[str, Any]]]:
        """In the log, so that a replay meets it."""
        rules, events = self._log.trip(trips, highest_ingest_ms, _now_ms())
        return rules, [event.as_dict() for event in events]

    def in_force(self, tables: Tables) -> None:
        """Contents that are not among ``tables`` go; they can be made again."""
        used = {path for versions in tables.values() for each in versions for path in (each.path, each.overlay) if path}
        self._store.prune(used | self._rows.in_force(tables))

    def close(self) -> None:
        """Let go of the rule log, and of topics."""
        self._log.close()
        self._rows.close()
        if self._lists is not None:
            self._lists.close()
        if self._refusals is not None:
            self._refusals.close()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Changes that were read and are not applied yet."""

    lists: ListChanges | None = None
    tables: TableChanges | None = None
    rows: RowChanges | None = None
    rules: Changes | None = None


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Lists and tables that do not change while they judge."""

    lists: Lists
    tables: Tables

    def since(self, gone_ms: Mapping[str, int]) -> Lists:  # noqa: ARG002 - of history, any record may come
        """All of them."""
        return self.lists

    def tables_since(self, gone_ms: Mapping[str, int], streams: Streams | None = None) -> Tables:  # noqa: ARG002 - as with lists
        """All of them."""
        return self.tables


class FixedFeed:
    """Rules that do not change: a backtest's."""

    def __init__(self, rules: RuleSet, lists: Lists, tables: Tables | None = None) -> None:
        self._rules = rules
        self._lists = _Fixed(lists, tables or {})

    def start(self) -> tuple[RuleSet, ListTimes]:
        """The rules."""
        return self._rules, self._lists

    def events(self) -> list[dict[str, Any]]:
        """None."""
        return []

    def refusals(self) -> list[dict[str, Any]]:
        """None: what is wrong in them ended the command."""
        return []

    def changed(self) -> bool:
        """Never."""
        return False

    @property
    def tables_alone(self) -> bool:
        """Nothing changes."""
        return True

    def preview(self) -> tuple[RuleSet, ListTimes]:
        """The same rules and lists."""
        return self._rules, self._lists

    def note(self, event: EventKind, text: str) -> dict[str, Any]:
        """The event; nothing is logged."""
        return RuleEvent(event, _now_ms(), text=text).as_dict()

    def take_up(self, highest_ingest_ms: Mapping[str, int]) -> tuple[RuleSet, ListTimes, list[dict[str, Any]]]:  # noqa: ARG002
        """The same rules."""
        return self._rules, self._lists, []

    def trip(
        self,
        trips: Sequence[BreakerTrip],  # noqa: ARG002 - it goes on
        highest_ingest_ms: Mapping[str, int],  # noqa: ARG002 - as above
    ) -> tuple[RuleSet, list[dict[str, Any]]]:
        """The same rules."""
        return self._rules, []

    def in_force(self, tables: Tables) -> None:
        """Whoever gave them keeps them."""

    def close(self) -> None:
        """Nothing is held."""
