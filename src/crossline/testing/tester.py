"""Rules under test: records in, assertions about their hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crossline.api.declarations import FilePath, Stream, stream_of
from crossline.api.detector import Detector
from crossline.api.results import Alerts
from crossline.backtest.trial import as_if_active
from crossline.backtest.workbench.expected_hits import differences, expected_hits
from crossline.backtest.workbench.rule_cases import LATEST_MS, rules_reading
from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import UsageError
from crossline.basics.streams.inputs import as_came
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.rule_registry.rule_files import Known, read_rules
from crossline.rules.base import Defaults
from crossline.rules.composition import Sources
from crossline.rules.policy.policy import Policy
from crossline.rules.ruleset import RuleSet


class RuleTester:
    """Judges records by rules under test, in this process.

    Args:
        rules: a rule file or folder: the newest versions of its rules are tested, drafts and paused ones included, if
            they read only ``stream``; or a RuleSet, which is tested as it is.
        stream: a Stream of ``load_streams``, or a stream file with one stream.
        policy: a policy file; with it, ``decisions`` has a decision for each record.
        lists: values of the named lists that rules read, by name.
        defaults: the clock and lateness of rules that do not set them.

    Attributes:
        alerts: all alerts so far, as JSON values, after corrections.
        decisions: all decisions so far.
        dead_letters: records that could not be read; ``feed`` raises if there is one, unless ``refused`` is set.
    """

    def __init__(
        self,
        rules: RuleSet | FilePath,
        stream: Stream | FilePath,
        *,
        policy: Policy | FilePath | None = None,
        lists: Mapping[str, Sequence[Any]] | None = None,
        defaults: Defaults | None = None,
    ) -> None:
        given = stream_of(stream)
        declared = Stream(given.name, as_came(given.spec))
        chosen = rules if isinstance(rules, RuleSet) else _under_test(Path(rules), declared)
        self._detector = Detector(
            chosen, declared, policy=policy, lists=lists, defaults=defaults, clock_ms=lambda: LATEST_MS
        )
        self._alerts: list[Mapping[str, Any]] = []
        self.decisions: list[Mapping[str, Any]] = []
        self.dead_letters: list[DeadLetter] = []

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """All alerts so far, after corrections."""
        return current_states(self._alerts)

    def feed(self, records: Iterable[Mapping[str, Any]] | Any, *, refused: bool = False) -> Alerts:
        """Judge records, after those that were fed before.

        Args:
            records: an iterable of dicts, or a table of any Arrow library.
            refused: allow dead letters; without it a dead letter fails the test.

        Returns:
            The alerts that these records raised.

        Raises:
            AssertionError: a record is a dead letter.
        """
        alerts, decisions = self._detector.process(records)
        self._alerts += alerts
        self.decisions += decisions
        self.dead_letters += alerts.dead_letters
        if alerts.dead_letters and not refused:
            text = "\n".join(f"  record {each.offset}: {each.reason}: {each.detail}" for each in alerts.dead_letters)
            raise AssertionError(f"records that do not fit stream {self._detector.stream.name}:\n{text}")
        return alerts

    def assert_hits(self, expected: Iterable[str | Mapping[str, Any]], *, rule: str | None = None) -> None:
        """Assert that the hits so far are exactly the expected ones.

        Args:
            expected: each the id of a record, or a mapping with ``record`` and optional values: ``rule``, ``value``,
                ``key``, ``count``, ``records``.
            rule: only hits of this rule.

        Raises:
            AssertionError: a hit is missing, unexpected, or has other values.
        """
        alerts = self.alerts if rule is None else [each for each in self.alerts if each["rule_id"] == rule]
        if rule is not None and not any(each.rule.rule_id == rule for each in self._detector.rules.versions):
            raise UsageError(f"found no rule {rule} under test")
        found = differences(expected_hits(expected), alerts)
        if found:
            raise AssertionError("\n".join(["hits are not as expected:", *(f"  {each}" for each in found)]))

    def assert_no_hits(self, *, rule: str | None = None) -> None:
        """That nothing fired so far, or nothing of ``rule``. Raises AssertionError."""
        self.assert_hits([], rule=rule)


def _under_test(path: Path, stream: Stream) -> RuleSet:
    """The rules of a file or folder that records of ``stream`` are enough for."""
    fed = rules_reading(as_if_active(read_rules(path, Known(None))), {stream.name})
    if not fed.versions:
        raise UsageError(f"{path}: found no rule that reads {stream.name} and no other stream")
    sources = Sources({stream.name: stream.spec}, fed.heads)
    wrong = [
        f"rule {rule.rule_id}: found {each.found}, expected {each.expected}"
        for rule in (version.rule for version in fed.versions)
        for each in rule.stream_findings(rule.reading.judges, sources.of_reading(rule.reading), None)
    ]
    if wrong:
        raise UsageError("\n".join([f"{path} does not fit stream {stream.name}:", *wrong]))
    return fed
