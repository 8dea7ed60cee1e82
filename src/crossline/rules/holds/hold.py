"""``hold``: what an alert asks of a decision goes on for a time, for all records of its key.

A hold is what composition can already say: a formula over the stream that the rule judges, with a figure that counts
the rule's alerts of the key. So each version that holds gets a derived rule of its own: it is compiled
and judged as others are, and its hits are no alerts, but reasons of decisions (``evaluate/decisions/holds.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import Leaf
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.tree import Compare, Constant, Name
from crossline.basics.streams.inputs import HIT, RULE, Reading, SideInput
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Finding
from crossline.basics.times import FOREVER_MS
from crossline.programs.program import Emission, Feed, Figure, FormulaPredicate, Program, Window
from crossline.rules.base import Defaults, Rule
from crossline.rules.composition import Sources, way_of
from crossline.rules.holds.manual import placed_rules
from crossline.rules.ruleset import RuleSet, RuleVersion

HOLD = "hold:"  # no rule of a file has such an id
_ALERTS = "alerts"
_HELD = Formula(f"{_ALERTS} >= 1", Compare((Name(_ALERTS, "integer"), Constant(1, "integer")), (">=",)))


class HoldRule(Rule):
    """Satisfied at every record of ``stream`` within the hold of an alert of the version ``held``.

    Whatever that version asks of records: it has no conditions of its own.
    """

    is_hold: ClassVar[bool] = True

    held: Rule
    stream: str
    key_fields: tuple[str, ...]

    @property
    def reading(self) -> Reading:
        """The stream, and the rule's hits beside it."""
        return Reading((self.stream,), (SideInput(f"{RULE}{self.held.rule_id}"),), holds=True)

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:  # noqa: ARG002
        """None: it is made where it fits."""
        return []

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:  # noqa: ARG002 - its fields were looked at
        """A count of the version's alerts over the length of the hold."""
        feed = self.feed(defaults, self.key_fields)
        mine = Condition(Leaf(f"{HIT}.version", "==", self.version))
        alerts = Feed(self.reading.side_inputs[0].name, self.key_fields, feed.time_mode, mine, feed.allowed_lateness_ms)
        figure = Figure(alerts, "count", Window(self.held.hold or 0))
        return Program(feed, (figure,), FormulaPredicate((_ALERTS,), _HELD), Emission(delivered=False))

    def canonical(self) -> dict[str, Any]:
        """By what it is made of."""
        return {**self.held.canonical(), "rule_id": self.rule_id, "stream": self.stream}


def lasts_ms(rule: Rule, defaults: Defaults) -> int:
    """For how long after a version ended, on the ingest clock, its alerts may hold records that are decided about."""
    return 0 if rule.hold is None else rule.hold + defaults.watermark_delay_ms


def holds_of(rules: RuleSet, sources: Sources, defaults: Defaults) -> tuple[RuleVersion, ...]:
    """The rules that holds become, each as long as an active version of the held rule is in force.

    A version that is replaced holds on by the alerts that it gave, until the last of these is over. What people hold is
    looked for at all times: whichever process decides knows when.
    """
    spans: dict[str, list[tuple[int, int]]] = {}
    mine: dict[tuple[str, int], list[RuleVersion]] = {}
    for version in rules.versions:
        if version.kind == "active":
            rule = version.rule
            spans.setdefault(rule.rule_id, []).append((version.effective_from_ms, version.effective_until_ms))
            if rule.hold is not None and getattr(rule, "emit_to_sink", True):
                mine.setdefault((rule.rule_id, rule.version), []).append(version)
    found: list[RuleVersion] = []
    for (rule_id, _), versions in mine.items():
        first_ms = min(each.effective_from_ms for each in versions)
        last_ms = max(each.effective_until_ms for each in versions)
        if last_ms < FOREVER_MS:
            last_ms = min(FOREVER_MS, last_ms + lasts_ms(versions[0].rule, defaults))
        # The last body of a version has its status; what it holds by is the same in all.
        for rule in _rules_of(versions[-1].rule, sources):
            for start_ms, end_ms in _joined(spans[rule_id]):
                from_ms, until_ms = max(start_ms, first_ms), min(end_ms, last_ms)
                if from_ms < until_ms:
                    found.append(RuleVersion(rule, from_ms, until_ms))
    found += [RuleVersion(rule) for rule in placed_rules(rules.placed, sources.streams)]
    return tuple(found)


def _rules_of(held: Rule, sources: Sources) -> Iterator[HoldRule]:
    """One for each stream whose records ``held`` judges, where that has the fields of the key."""
    keys = held.key_of_alerts
    if not keys or sources.finding(f"{RULE}{held.rule_id}") is not None:
        return
    alert = sources[f"{RULE}{held.rule_id}"].columns
    for stream in streams_of(held, sources):
        own = sources[stream].columns
        if all(key in own and key in alert and own[key].kind == alert[key].kind for key in keys):
            yield _made(held, stream, keys)


def streams_of(rule: Rule, sources: Sources) -> list[str]:
    """The streams whose records ``rule`` judges, itself or through other rules."""
    found = (way_of(source, sources.heads)[-1] for source in rule.reading.judged)
    return [stream for stream in dict.fromkeys(found) if stream in sources.streams]


def _made(held: Rule, stream: str, keys: tuple[str, ...]) -> HoldRule:
    clock = ("time_mode", "timestamp_field", "watermark_delay", "allowed_lateness")
    given: Mapping[str, Any] = {name: getattr(held, name) for name in clock}
    return HoldRule.model_construct(
        rule_id=f"{HOLD}{held.rule_id}:{stream}",
        version=held.version,
        rule_type="hold",
        source_topic=stream,
        held=held,
        stream=stream,
        key_fields=keys,
        **given,
    )


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """``spans`` in order, those that follow each other as one."""
    found: list[tuple[int, int]] = []
    for start_ms, end_ms in sorted(spans):
        if found and start_ms <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end_ms)
        else:
            found.append((start_ms, end_ms))
    return found
