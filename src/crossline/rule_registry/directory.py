"""The directory rule log: people edit rule files in a folder; what became of them is appended to a log.

The files are wishes, the log is what judged. It lies in ``.log/<pipeline>.jsonl`` in the folder. Messages of a topic
are wishes as well, and are files here, each called as its key is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from crossline.basics.errors import PermanentError, RetryableError, UsageError
from crossline.basics.streams.inputs import rule_of
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import RefusedError
from crossline.basics.times import FOREVER_MS
from crossline.rule_registry.content import is_folder
from crossline.rule_registry.events import EventKind, RuleEvent, published_by
from crossline.rule_registry.file_check import judge
from crossline.rule_registry.history import History, trip_events
from crossline.rule_registry.log_file import LogFile, read_log
from crossline.rule_registry.outcomes.publications import approved, publication, waiting
from crossline.rule_registry.outcomes.refusals import Refusals, check_rules_left, refusals_in
from crossline.rule_registry.rule_files import Known, Read, folder_of_rules, read_files
from crossline.rule_registry.sources.folder import Files
from crossline.rule_registry.sources.holds import hold_events, with_wishes
from crossline.rule_registry.sources.keys import key_of
from crossline.rule_registry.sources.ownership import OwnedFolder, me, owner_of
from crossline.rule_registry.sources.publications import Publications, WithFigures
from crossline.rule_registry.sources.releases import release_events
from crossline.rule_registry.sources.review import Reviewed, misplaced, reviewed, split
from crossline.rules.base import Rule
from crossline.rules.composition import Head, Sources, heads_of_rules, way_of
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet

if TYPE_CHECKING:  # else a check would load what judges, numpy and Arrow
    from crossline.evaluate.alerts.breaker import BreakerTrip

IngestClock = Literal["wall", "records"]
# Where what is not logged yet would hold from: after all records, so that it judges none.
PREVIEW_MS = FOREVER_MS - 1
_ASKED = "effective_from"
_Begin = Callable[[Sequence[RuleEvent]], list[RuleEvent]]


def log_path(rules: str | Path, pipeline: str) -> Path:
    """Where the log of ``pipeline`` lies, for rules in the folder ``rules``."""
    return Path(rules) / ".log" / f"{pipeline}.jsonl"


@dataclass(frozen=True, slots=True)
class _Effective:
    """From when on what is loaded holds: ``of`` a rule, ``at`` a stream; None: from the beginning."""

    of: Callable[[Rule], int | None]
    at: Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class Changes:
    """The files, rules of which are read and checked, and the names of lists that they were checked against.

    Of review, ``files`` has approvals too, which are not in ``read``.
    """

    files: Files
    names: frozenset[str] | None
    read: Read


class DirectoryRuleLog:
    """The rules of one pipeline. Only this class writes the log, and one process at a time does.

    ``streams`` is what rules are checked against; ``list_names`` gives the names of the lists there are, so that a rule
    that waits for one is loaded when it comes (None: not checked). ``sink_topics``: where alerts may go.
    ``figures``: a folder of shared figures, which is watched as that of the rules is; the names of files in it begin
    with its path. ``publications``: where rules come from; None: from files in the folder. ``review``: whether a
    version needs approval. ``proven``: whether that names a proof.
    """

    def __init__(
        self,
        path: str | Path,
        pipeline: str,
        streams: Mapping[str, StreamSpec],
        list_names: Callable[[], Collection[str]] | None = None,
        sink_topics: Collection[str] | None = None,
        figures: str | Path | None = None,
        publications: Publications | None = None,
        *,
        review: bool = False,
        proven: bool = False,
    ) -> None:
        self.path = Path(path)
        apart = publications is not None or figures is None or Path(figures).resolve() != self.path.resolve()
        self._figures = Path(figures) if figures is not None and apart else None
        further = folder_of_rules(self._figures) if self._figures is not None else None
        self._elsewhere = publications is not None
        rules = folder_of_rules(self.path)
        owned = with_wishes(OwnedFolder(rules, speaker=me()) if review else rules, self.path, owner_of)
        self._folder = WithFigures(publications or owned, further)
        self._review, self._proven = review, proven
        self._file = LogFile(log_path(path, pipeline))
        self._streams = streams
        self._list_names = list_names
        self._sink_topics = sink_topics
        self._history = History()
        self._names: frozenset[str] | None = None
        self._files: Files = {}
        self._ready: Changes | None = None
        self._refused: Refusals = {}
        self.refusals: Refusals = {}  # of the files as they were last looked at

    def start(self, now_ms: int, begin: _Begin | None = None, *, allow_no_rules: bool = True) -> RuleSet:
        """The rules to begin with; hold the log until ``close``.

        ``begin`` makes of the events of the log (none at the first start) more that it begins with: those of lists.

        At the pipeline's first start, those in the folder, from the beginning (or from the ``effective_from`` they
        give), without the files that have errors. Later, those of the log: what changed meanwhile comes with ``poll``.
        Raises UsageError where the folder or the topic is missing, SourceError where a topic is needed and does not
        answer, StateError where the log is damaged or held by another process,
        PermanentError where a rule of the log no longer fits the streams, or no rule is left to judge by and that is
        not allowed: nothing is logged then, so that what is mended is there from the beginning.
        """
        if self._elsewhere:
            self.path.mkdir(parents=True, exist_ok=True)
        elif not is_folder(self.path):
            raise UsageError(
                f"found no folder {self.path}; expected the folder of the rule files: make it, or name another"
            )
        events = self._file.open()
        try:
            self._folder.begin(events, first=not events)
            more = begin(events) if begin is not None else []
            self._history = History(events)
            if events:
                self._check_streams()
                self._file.append(more)
                self._look(allow_no_rules=allow_no_rules)
            else:
                self._begin(more, now_ms, allow_no_rules=allow_no_rules)
        except BaseException:
            self.close()
            raise
        return self._history.rule_set()

    def _begin(self, logged: Sequence[RuleEvent], now_ms: int, *, allow_no_rules: bool) -> None:
        """All that is there, from the beginning, in the order in which it came; behind what was ``logged``."""
        logged = list(logged)
        while True:
            changes = self._checked(self._folder.changed() or self._files, self._current_names())
            events = list(self._events(changes, now_ms, _AS_GIVEN))
            logged += events
            if not self._folder.more:
                break
            self._apply(events, changes)
        self._check_left(changes, allow_no_rules=allow_no_rules)
        self._record([*logged, RuleEvent("started", now_ms)], changes, events)

    def _look(self, *, allow_no_rules: bool) -> None:
        """See what is refused of the files as they stand; what changed is loaded with ``poll``."""
        changes = None
        with suppress(RetryableError):  # a folder that cannot be read now is reported when it is polled
            changes = self.poll()
        self._check_left(changes, allow_no_rules=allow_no_rules)
        self.refusals = self._refused

    def _check_left(self, changes: Changes | None, *, allow_no_rules: bool) -> None:
        rules = self.preview(changes)
        if not allow_no_rules:
            written = changes is not None and any(isinstance(each, list) and each for each in changes.read.values())
            # A topic may be empty: rules are published once the pipeline runs.
            known = written or bool(self._history.rules) or self._elsewhere
            judges = any(version.endless for version in rules.versions)
            check_rules_left(self._refused, any_known=known, any_judges=judges, place=str(self.path))

    def poll(self) -> Changes | None:
        """What to hand to ``take_up``, read and checked, or None where nothing changed.

        Cheap while nothing changes (names, times and sizes, then contents); else as slow as the files are large, so no
        batch waits for it. Raises RetryableError where the log is no longer the file that this run holds.
        """
        self._file.check()
        files, names = self._folder.changed(), self._current_names()
        if files is None:
            if names == self._names:
                return None
            # A rule may have waited for a list, or stand on one that is gone.
            files = self._files
        if self._ready is None or (self._ready.files, self._ready.names) != (files, names):
            self._ready = self._checked(files, names)
        return self._ready

    def take_up(
        self,
        changes: Changes | None,
        highest_ingest_ms: Mapping[str, int],
        now_ms: int,
        clocks: Mapping[str, IngestClock] | None = None,
        more: Sequence[RuleEvent] = (),
    ) -> tuple[RuleSet, list[RuleEvent]]:
        """Log what follows from ``changes`` (all files of the folder), and give the rules from now on.

        ``changes`` is what ``poll`` gave: None changes nothing, no files at all means that every file is gone.

        ``highest_ingest_ms``: by stream, of all records judged so far. What is published holds from just after that of
        the stream that it reads, or from the ``effective_from`` it asks for if that is later; on a ``wall`` clock (that
        of a stream which is not in ``clocks``) not before ``now_ms``. A file is loaded whole or not at all.

        ``more``: what happened to lists, logged before, all or nothing.
        """
        heads = self._history.heads | _heads(changes)

        def at(stream: str) -> int | None:
            return earliest_ms(stream, highest_ingest_ms, now_ms, clocks or {})

        def effective(rule: Rule) -> int | None:
            base = way_of(rule.reading.judged[0], heads)[-1]  # hits have the clock of what was hit
            return _later(at(base), rule.effective_from)

        if changes is None:
            self._file.append(more)
            return self._history.rule_set(), list(more)
        events = list(self._events(changes, now_ms, _Effective(effective, at)))
        self._record([*more, *events], changes, events)
        return self._history.rule_set(), [*more, *events]

    def preview(self, changes: Changes | None) -> RuleSet:
        """What the rules would be with ``changes``, which judge nothing yet and are not logged."""
        history = self._history.copy()
        if changes is not None:
            _go_on(history, self._events(changes, 0, _Effective(lambda _: PREVIEW_MS, lambda _: PREVIEW_MS)), changes)
        return history.rule_set()

    def note(self, kind: EventKind, text: str, now_ms: int) -> RuleEvent:
        """Log an event that changes no rule. Raises RetryableError as ``take_up``."""
        event = RuleEvent(kind, now_ms, text=text)
        self._file.append([event])
        return event

    def trip(
        self, trips: Iterable[BreakerTrip], highest_ingest_ms: Mapping[str, int], now_ms: int
    ) -> tuple[RuleSet, list[RuleEvent]]:
        """Log that rules flood, and give the rules from now on. Raises RetryableError as ``take_up``."""
        events = list(trip_events(self._history, trips, highest_ingest_ms, now_ms))
        self._file.append(events)
        for event in events:
            self._history.add(event)
        return self._history.rule_set(), events

    def close(self) -> None:
        """Let go of the log; safe to call twice."""
        self._folder.close()
        self._file.close()

    def _checked(self, files: Files, names: frozenset[str] | None) -> Changes:
        known = Known(self._streams, names, self._sink_topics, self.path, self._figures)
        rules, _ = split(files)
        read = read_files(rules, known.with_heads(self._history.heads))
        return Changes(files, names, {**read, **misplaced(read)})

    def _record(self, logged: list[RuleEvent], changes: Changes, events: Sequence[RuleEvent]) -> None:
        self._file.append(logged)
        self._apply(events, changes)

    def _apply(self, events: Sequence[RuleEvent], changes: Changes) -> None:
        _go_on(self._history, events, changes)
        self._folder.take(changes.files)
        self._files, self._names, self._ready = changes.files, changes.names, None
        self.refusals = self._refused

    def _current_names(self) -> frozenset[str] | None:
        return None if self._list_names is None else frozenset(self._list_names())

    def _events(self, changes: Changes, now_ms: int, effective: _Effective) -> Iterator[RuleEvent]:
        """What follows from the files: refusals, then publications by rule and version, then warnings."""
        asked = self._reviewed(changes)
        accepted, refused = judge(asked.read, self._history)
        self._refused = refusals_in(refused, changes.read, changes.files, now_ms)
        yield from (e for e in self._refused.values() if (e.source, e.digest) not in self._history.refused)
        for each in asked.waiting:
            waits = waiting(each, now_ms, changes.files[each.source].origin)
            if (waits.rule_id, waits.version, waits.digest) not in self._history.waiting:
                yield waits
        going = self._history.copy()  # of several versions at once each follows the one before it
        for each in accepted:
            if going.moves(each.rule):
                moved = going.in_force_elsewhere(each.rule)
                if moved is not None:  # it ends where its own stream stands: the new version goes by another clock
                    yield RuleEvent(
                        "ended", now_ms, moved.rule_id, moved.version, effective_from_ms=effective.of(moved)
                    )
                event = published_by(
                    publication(each, going, now_ms, effective.of(each.rule)), changes.files[each.source].origin
                )
                event = approved(event, asked.approvals.get((each.rule.rule_id, each.rule.version)))
                going.add(event, each.rule)
                yield event
        yield from release_events(changes.files, going, now_ms, effective.of)
        yield from hold_events(changes.files, going, self._streams or {}, now_ms, effective.at)
        standing = {each.rule.rule_id for each in (*accepted, *asked.waiting)}
        for rule_id, rule in self._history.rules.items():
            if rule_id not in standing and rule.source not in refused and rule.judges and not rule.absent:
                where = "file" if key_of(rule.source) is None else "message"
                text = f"{rule_id} stands in no {where} any more (it was in {rule.source}) and stays live; "
                yield RuleEvent(
                    "absent", now_ms, rule_id, rule.in_force, text=text + "to end it, set its status to retired"
                )

    def _reviewed(self, changes: Changes) -> Reviewed:
        if not self._review:
            return Reviewed(changes.read)
        rules, approvals = split(changes.files)
        accepted = judge(changes.read, self._history)[0]
        return reviewed(changes.read, accepted, rules, approvals, self._history, proven=self._proven)

    def _check_streams(self) -> None:
        sources = None if self._streams is None else Sources(self._streams, self._history.heads, any_key=True)
        for version in self._history.rule_set().versions:
            if any(rule_of(source) is not None for source in version.rule.reading.sources):
                continue  # what it reads may have become another since; it is left out of the plans where it cannot fit
            _, findings = read_rule(version.rule.to_json(), sources, self._current_names())
            if findings:
                text = "; ".join(f"found {each.found}, expected {each.expected}" for each in findings)
                raise PermanentError(
                    f"rule {version.rule.rule_id} version {version.rule.version} of the log {self._file.path} does not "
                    f"fit the streams and lists: {text}. Put back what it needs, or run under another pipeline name"
                )


def _heads(changes: Changes | None) -> dict[str, Head]:
    read = changes.read.values() if changes is not None else ()
    rules = (each.rule for found in read if not isinstance(found, RefusedError) for each in found)
    return heads_of_rules(rules)


def _go_on(history: History, events: Iterable[RuleEvent], changes: Changes) -> None:
    """Add ``events`` of ``changes`` to ``history``, by the rules as they were read.

    That is the same as what their lines in the log say, without reading them again while a batch waits.
    """
    rules = [each.rule for read in changes.read.values() if not isinstance(read, RefusedError) for each in read]
    known: dict[tuple[object, ...], Rule] = {(r.body_digest(), r.status, r.share, r.effective_from): r for r in rules}
    for event in list(events):
        body = event.body or {}
        history.add(event, known.get((event.digest, event.status, body.get("share"), body.get(_ASKED))))


def earliest_ms(
    stream: str, highest_ingest_ms: Mapping[str, int], now_ms: int, clocks: Mapping[str, IngestClock]
) -> int | None:
    """The first instant of the ingest clock of ``stream`` that what is loaded now may hold from; None: the beginning.

    Just after the highest one seen; on a ``wall`` clock (that of a stream which is not in ``clocks``) not before now.
    """
    highest_ms = highest_ingest_ms.get(stream)
    floor_ms = None if highest_ms is None else highest_ms + 1
    if clocks.get(stream, "wall") == "records":
        return floor_ms
    return now_ms if floor_ms is None else max(now_ms, floor_ms)


_AS_GIVEN = _Effective(lambda rule: rule.effective_from, lambda _: None)


def _later(floor_ms: int | None, given_ms: int | None) -> int | None:
    return given_ms if floor_ms is None else max(floor_ms, given_ms if given_ms is not None else floor_ms)


def ruleset_of_log(path: str | Path) -> RuleSet:
    """The rules of a log as they judged, every version with its interval: what a backtest judges by ``--as-of-log``."""
    return History(read_log(Path(path))).rule_set()


def logs_in(rules: str | Path) -> dict[str, Path]:
    """The logs in the folder ``rules``, by the name of their pipeline."""
    return {path.stem: path for path in sorted((Path(rules) / ".log").glob("*.jsonl"))}


def find_log(rules: str | Path, pipeline: str | None = None) -> Path | None:
    """The log in the folder ``rules``: that of ``pipeline``, or the only one there; None where there is none.

    Raises UsageError where there are several and no name is given, or none of that name.
    """
    logs = logs_in(rules)
    if pipeline is not None and pipeline not in logs:
        there = f"those of {', '.join(logs)}" if logs else "none: the pipeline has not run yet"
        raise UsageError(f"found no rule log of pipeline {pipeline} in {rules}; there are {there}")
    if pipeline is None and len(logs) > 1:
        raise UsageError(f"found the rule logs of {', '.join(logs)} in {rules}; expected --pipeline with one of them")
    return logs[pipeline] if pipeline is not None else next(iter(logs.values()), None)
