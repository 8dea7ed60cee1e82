"""The state of each rule by a rule log, and its legal changes: versions rise, bodies stay, statuses move legally."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import orjson

from crossline.basics.errors import StateError
from crossline.basics.streams.inputs import Reading, rule_of, several_of
from crossline.basics.texts.problems import Finding, shown
from crossline.basics.times import BEGINNING_MS, format_duration, format_instant
from crossline.rule_registry.events import RuleEvent
from crossline.rules.base import Rule, Status, legal_move, legal_moves
from crossline.rules.composition import Head, Sources, heads_of_rules, way_of
from crossline.rules.figure import FigureFields
from crossline.rules.holds.placed_hold import PlacedHold
from crossline.rules.holds.release import Release, release_key
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet
from crossline.rules.shared_figures import shared_in

if TYPE_CHECKING:  # else a check would load what judges, numpy and Arrow
    from crossline.evaluate.alerts.breaker import BreakerTrip

BREAKER = "breaker"  # who it is that made a rule shadow


@dataclass(slots=True)
class RuleHistory:
    """The versions of one rule by number, as the last event of each has it; the last file; whether it is in none now.

    ``effective_from`` of a version is what it asked for; the instant that holds is in the rule set. So is the status:
    versions that ``tripped`` judge as shadow, whatever their files ask for, until those ask for something else.
    """

    versions: dict[int, Rule] = field(default_factory=dict)
    source: str = ""
    absent: bool = False
    tripped: set[int] = field(default_factory=set)

    @property
    def latest(self) -> int:
        """The highest version that was published."""
        return max(self.versions)

    @property
    def in_force(self) -> int | None:
        """The highest version that is no draft."""
        return max((number for number, each in self.versions.items() if each.status != "draft"), default=None)

    def status(self, version: int) -> Status:
        """The status that the version has."""
        return "shadow" if version in self.tripped else self.versions[version].status

    @property
    def judges(self) -> bool:
        """Whether the version in force is active or shadow."""
        current = self.in_force
        return current is not None and self.versions[current].status in {"active", "shadow"}


class History:
    """The state that the events of a log add up to."""

    def __init__(self, events: Iterable[RuleEvent] = ()) -> None:
        self.rules: dict[str, RuleHistory] = {}
        self.refused: set[tuple[str, str]] = set()
        self.waiting: dict[tuple[str | None, int | None, str | None], str | None] = {}  # who published it first
        self.released: set[tuple[str, str]] = set()  # as those refused: by source and digest
        self._releases: list[Release] = []
        self.placed: dict[str, PlacedHold] = {}  # by their ids
        self._approved: set[tuple[str, int]] = set()
        self._bodies: list[Rule] = []
        for event in events:
            self.add(event)

    def add(self, event: RuleEvent, rule: Rule | None = None) -> None:
        """Go on by one event; ``rule`` is the one it is about, where it was read already.

        Raises StateError for a body that this crossline does not read.
        """
        match event.event:
            case "published" | "status_changed":
                published = rule or event_rule(event)
                self._publish(event, published)
                if event.approved_by is not None:
                    self._approved.add((published.rule_id, published.version))
            case "ended" if event.rule_id in self.rules and event.version is not None:
                ended = self.rules[event.rule_id].versions[event.version]
                changes = {"status": "retired", "effective_from": event.effective_from_ms}
                self._bodies.append(ended.model_copy(update=changes))
            case "tripped" if event.rule_id in self.rules and event.version is not None:
                history = self.rules[event.rule_id]
                history.tripped.add(event.version)
                changes = {"status": "shadow", "effective_from": event.effective_from_ms}
                self._bodies.append(history.versions[event.version].model_copy(update=changes))
            case "held" | "released":
                self.released.add((str(event.source), str(event.digest)))
                self._hold(event)
            case "refused" if event.list_name is None and event.table_name is None:
                self.refused.add((str(event.source), str(event.digest)))
            case "waiting":
                self.waiting.setdefault((event.rule_id, event.version, event.digest), event.who)
            case "absent" if event.rule_id in self.rules:
                self.rules[event.rule_id].absent = True
            case _:
                pass

    def _hold(self, event: RuleEvent) -> None:
        """Somebody holds a key, or releases what is held of it."""
        if event.hold_id is not None:
            placed = self.placed.get(event.hold_id)
            if event.event == "held":
                self.placed[event.hold_id] = self._placed(event, event.hold_id)
            elif placed is not None:
                self.placed[event.hold_id] = placed.released(begins_of(event))
        elif event.rule_id is not None and event.key is not None and event.effective_from_ms is not None:
            key, from_ms = release_key(event.key), event.effective_from_ms
            self._releases.append(Release(event.rule_id, key, from_ms))
            for each in list(self.placed.values()):
                if (each.rule_id, each.key) == (event.rule_id, key):
                    self.placed[each.hold_id] = each.released({stream: from_ms for stream, _ in each.begins})

    def _placed(self, event: RuleEvent, hold_id: str) -> PlacedHold:
        placed = PlacedHold(
            hold_id,
            release_key(event.key or {}),
            event.action or "review",
            event.who or "",
            event.until_ms or 0,
            tuple(begins_of(event).items()),
        )
        if event.rule_id is None or event.version is None:
            return placed
        rule = self.rules[event.rule_id].versions[event.version]
        of_rule = replace(placed, rule_id=rule.rule_id, rule_version=rule.version)
        return replace(of_rule, score=rule.score, severity=rule.severity, tags=tuple(rule.tags))

    def _publish(self, event: RuleEvent, rule: Rule) -> None:
        history = self.rules.setdefault(rule.rule_id, RuleHistory())
        history.versions[rule.version] = rule
        history.tripped.discard(rule.version)
        history.source, history.absent = str(event.source), False
        self._bodies.append(rule.model_copy(update={"effective_from": event.effective_from_ms}))

    @property
    def heads(self) -> dict[str, Head]:
        """What rules that read hits must know of each rule."""
        return heads_of_rules(rule for each in self.rules.values() for rule in each.versions.values())

    def copy(self) -> History:
        """One that goes on for itself."""
        other = History()
        other.rules = {
            rule_id: RuleHistory(dict(each.versions), each.source, each.absent, set(each.tripped))
            for rule_id, each in self.rules.items()
        }
        other.refused, other.waiting, other._bodies = set(self.refused), dict(self.waiting), list(self._bodies)
        other.released, other._releases = set(self.released), list(self._releases)
        other.placed, other._approved = dict(self.placed), set(self._approved)
        return other

    def in_force_elsewhere(self, rule: Rule) -> Rule | None:
        """The version that ``rule`` replaces, where that one reads another stream and is not retired."""
        history = self.rules.get(rule.rule_id)
        number = history.in_force if history is not None else None
        if history is None or number is None or rule.status == "draft" or rule.version <= number:
            return None
        before = history.versions[number]
        return before if before.source_topic != rule.source_topic and before.status != "retired" else None

    def rule_set(self) -> RuleSet:
        """Every version that judges or judged, each with its interval of the ingest clock; and what people hold."""
        rules = RuleSet.from_rules(self._bodies)
        return replace(rules, releases=tuple(self._releases), placed=tuple(self.placed.values()))

    def finding(self, rule: Rule) -> Finding | None:
        """Why ``rule``, valid in itself, may not follow what was published; None where it may, or is there already."""
        other = self._other_figure(rule)
        if other is not None:
            return other
        history = self.rules.get(rule.rule_id)
        if history is None:
            return None
        moved = self._moved(rule)
        if moved is not None:
            return moved
        known = history.versions.get(rule.version)
        if known is not None:
            return _same_version(history, known, rule)
        if rule.version > history.latest:
            return None
        expected = f"a version above {history.latest}, which is published"
        return Finding(("version",), f"version {rule.version}", expected, _next_version(history))

    def _other_figure(self, rule: Rule) -> Finding | None:
        """A version of a shared figure has one definition, that which rules were published with."""
        for name, figure in shared_in(rule).items():
            known = self._figures().get((str(figure.shared), figure.version))
            if known is not None and known[1] != figure:
                first, text = known[0], f"version {figure.version} of figure {figure.shared}"
                expected = f"the one that version {first.version} of {first.rule_id} was published with"
                hint = f"a figure that changes gets a new version: put back {text}, and write the next one beside it"
                return Finding(("figures", name), f"{text} with another definition", expected, hint)
        return None

    def _figures(self) -> dict[tuple[str, int | None], tuple[Rule, FigureFields]]:
        """The shared figures that rules were published with, each with the first of these."""
        found: dict[tuple[str, int | None], tuple[Rule, FigureFields]] = {}
        for rule in (rule for each in self.rules.values() for rule in each.versions.values()):
            for figure in shared_in(rule).values():
                found.setdefault((str(figure.shared), figure.version), (rule, figure))
        return found

    def _moved(self, rule: Rule) -> Finding | None:
        """A rule whose hits are read stays with its streams, whose fields its hits have, and as deep as it is.

        Rules that read its hits keep what they know of these one depth above it.
        """
        history = self.rules[rule.rule_id]
        before, now = history.versions[history.in_force or history.latest].reading, rule.reading
        if before == now or rule.status in {"draft", "retired"}:
            return None
        heads = self.heads
        if _stands(before, heads) == _stands(now, heads):
            return None
        readers = [name for name, each in self.heads.items() if rule.rule_id in _named(each.reading)]
        reader = next((name for name in readers if self.rules[name].judges), None)
        if reader is None:
            return None
        lines = [each.text for each in (now, before)]
        if lines[0] == lines[1]:
            lines = [f"figures of {'several keys' if each.cross_key else 'one key'}" for each in (now, before)]
        fresh = next((source for source in now.sources if source not in before.sources), now.judged[0])
        expected = f"{lines[1]}, since rule {reader} reads its hits"
        return Finding(rule.place_of_source(fresh), shown(lines[0]), expected, "give the new rule an id of its own")

    def knows(self, rule: Rule) -> bool:
        """Whether this version of the rule was published."""
        history = self.rules.get(rule.rule_id)
        return history is not None and rule.version in history.versions

    def approves(self, rule: Rule) -> bool:
        """Whether ``rule`` is approved: this version, or an earlier one with the same text, to which it goes back.

        A rule with the text of the version in force does not go back.
        """
        if (rule.rule_id, rule.version) in self._approved:
            return True
        mine = self.rules.get(rule.rule_id)
        if mine is None or mine.in_force is None or self.knows(rule) or rule.status not in {"active", "shadow"}:
            return False
        digest = wording_digest(rule)
        before = (number for name, number in self._approved if name == rule.rule_id)
        words = {wording_digest(mine.versions[number]) for number in before}
        return digest in words and digest != wording_digest(mine.versions[mine.in_force])

    def moves(self, rule: Rule) -> bool:
        """Whether loading ``rule``, for which there is no finding, changes anything."""
        if not self.knows(rule):
            return True
        known = self.rules[rule.rule_id].versions[rule.version]
        return (known.status, known.share) != (rule.status, rule.share)


def _stands(reading: Reading, heads: Mapping[str, Head]) -> tuple[frozenset[str], int]:
    """The streams that ``reading`` comes from in the end, whose records it judges or looks at, and its depth."""
    found, left = set[str](), [*reading.judged, *(look.source for look in reading.side_inputs)]
    seen = set[str]()
    while left:
        source = left.pop()
        head = heads.get(rule_of(source) or "")
        if head is None:
            found.add(source)
        elif source not in seen:
            seen.add(source)
            left += [*head.reading.judged, *(look.source for look in head.reading.side_inputs)]
    return frozenset(found), Sources({}, heads).depth_of(reading)


def wording_digest(rule: Rule) -> str:
    """The digest of a rule's content without its version and its status."""
    body = {name: value for name, value in rule.canonical().items() if name != "version"}
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()


def begins_of(event: RuleEvent) -> dict[str, int]:
    """By stream, from when on what people ask for holds; None in the log is the beginning."""
    return {stream: BEGINNING_MS if ms is None else ms for stream, ms in (event.begins_ms or {}).items()}


def event_rule(event: RuleEvent) -> Rule:
    """The rule that a ``published`` or ``status_changed`` event is about, as it was asked for."""
    rule, findings = read_rule(event.body)
    if rule is None:
        text = "; ".join(f"found {each.found}, expected {each.expected}" for each in findings)
        raise StateError(
            f"the rule log has a version {event.version} of {event.rule_id} that this crossline does not read: {text}"
        )
    return rule


def _next_version(history: RuleHistory) -> str:
    return f"set version: {history.latest + 1}"


def _same_version(history: RuleHistory, known: Rule, rule: Rule) -> Finding | None:
    if known.body_digest() != rule.body_digest():
        moved = _figure_moved(history, known, rule)
        if moved is not None:
            return moved
        found = f"version {rule.version} with other {_difference(known, rule)}"
        hint = f"version {rule.version} is published with another body; {_next_version(history)}"
        return Finding(("version",), found, "the body that was published", hint)
    if (known.status, known.share) != (rule.status, rule.share):
        return _move(history, rule, known.status)
    if known.effective_from != rule.effective_from:
        asked_ms = known.effective_from
        asked = "none" if asked_ms is None else format_instant(asked_ms)
        found = "none" if rule.effective_from is None else format_instant(rule.effective_from)
        return Finding(("effective_from",), found, f"{asked}, as it was published", _next_version(history))
    return None


def _figure_moved(history: RuleHistory, known: Rule, rule: Rule) -> Finding | None:
    """A rule that is as it was, but for a version of a shared figure that it names."""
    before, now = shared_in(known), shared_in(rule)
    for name, figure in now.items():
        was = before.get(name)
        if was is not None and was.shared == figure.shared and was.version != figure.version:
            found = f"version {rule.version} with version {figure.version} of figure {figure.shared}"
            expected = f"version {was.version} of it, as version {rule.version} of the rule was published with"
            hint = f"the figure has moved since: name version: {was.version} of it to stay, or {_next_version(history)}"
            return Finding(("figures", name), found, expected, hint)
    return None


def _move(history: RuleHistory, rule: Rule, old: Status) -> Finding | None:
    if history.in_force is not None and rule.version < history.in_force:
        expected = f"status: {old}, since version {history.in_force} has replaced it"
        return Finding(("status",), f"status {rule.status} for version {rule.version}", expected)
    if legal_move(old, rule.status) or (old == rule.status and old != "retired"):
        return None
    legal = " or ".join(legal_moves(old))
    hint = None if legal else f"to use the rule again, publish version {history.latest + 1}"
    expected = f"{old} to become {legal}" if legal else f"{old} to stay so"
    return Finding(("status",), f"a move from {old} to {rule.status}", expected, hint)


def _difference(published: Rule, found: Rule) -> str:
    """The fields that differ, so that a person sees what was touched."""
    old, new = published.canonical(), found.canonical()
    return ", ".join(name for name in sorted({*old, *new}) if old.get(name) != new.get(name))


def _named(reading: Reading) -> set[str | None]:
    """The rules whose hits are read, by their ids; those of every risk score are whatever rules there are."""
    several = (several_of(source) for source in reading.sources)
    return {*(rule_of(source) for source in reading.sources), *(each for ids in several for each in ids or ())}


def trip_events(
    history: History, trips: Iterable[BreakerTrip], highest_ingest_ms: Mapping[str, int], now_ms: int
) -> Iterator[RuleEvent]:
    """An event for each of ``trips`` that changes anything: of a version that is in force, and active.

    It holds from just after every judged record of the stream: a pipeline that is behind would else go on to flood.
    """
    for trip in trips:
        mine = history.rules.get(trip.rule_id)
        if mine is None or mine.in_force != trip.version or mine.status(trip.version) != "active":
            continue
        stream = way_of(mine.versions[trip.version].reading.judged[0], history.heads)[-1]
        last_ms = highest_ingest_ms.get(stream, trip.begins_ms + trip.bound.per_ms - 1)
        yield RuleEvent(
            "tripped",
            now_ms,
            trip.rule_id,
            trip.version,
            "shadow",
            last_ms + 1,
            source=mine.source,
            text=_trip_text(trip, last_ms + 1),
            who=BREAKER,
            count=trip.count,
        )


def _trip_text(trip: BreakerTrip, from_ms: int) -> str:
    per, since, until = format_duration(trip.bound.per_ms), format_instant(trip.begins_ms), format_instant(from_ms)
    return (
        f"the breaker: {trip.rule_id} had {trip.count:,} alerts at records ingested in the {per} from {since} on, "
        f"where {trip.bound.alerts_max:,} are allowed. It judges as shadow records ingested from {until} on; its "
        "alerts at records before that are emitted. To have it active again, set its status to shadow, then to active, "
        "or publish another version"
    )
