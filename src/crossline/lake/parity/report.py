"""The report of a comparison of stream, API and lake: a JSON file that the console shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from crossline.io.sinks.outfile import draft_file

FILE = "lake-parity.json"  # in the folder of serve.path
SCHEMA_VERSION = 1
DIFFERENCES_MAX = 20  # of a rule, or of a kind of decision


@dataclass(frozen=True, slots=True)
class AlertDifference:
    """An alert that is not the same in both places.

    Attributes:
        alert_id: Its id.
        record_id: The record that it is on.
        other: What the stream was compared with: ``lake`` or ``api``.
        what: The fields that differ; ``only in the stream``, ``only in the lake`` or ``no figure`` where it is missing.
    """

    alert_id: str
    record_id: str
    other: str
    what: str


@dataclass(frozen=True, slots=True)
class RuleParity:
    """What was compared of a rule.

    Attributes:
        rule_id: The rule.
        alerts: Alerts of the stream in the span.
        sampled: Alerts of the stream or the lake that were compared.
        equal: How many of them are the same in both.
        answered: How many are on a record that the API had answered with a figure.
        answered_equal: How many of these have the figure of the stream.
        differences: What differs; ``DIFFERENCES_MAX`` at most.
    """

    rule_id: str
    alerts: int
    sampled: int
    equal: int
    answered: int
    answered_equal: int
    differences: tuple[AlertDifference, ...] = ()

    @property
    def differ(self) -> int:
        """How many comparisons found a difference, with the lake or with the API."""
        return self.sampled - self.equal + self.answered - self.answered_equal


@dataclass(frozen=True, slots=True)
class DecisionDifference:
    """A decision that is not the same in both places.

    Attributes:
        stream: The stream of its record.
        record_id: The record that it is on.
        other: What the stream was compared with: ``lake`` or ``api``.
        what: What differs; ``only in the stream`` or ``only in the lake`` where it is missing.
    """

    stream: str
    record_id: str
    other: str
    what: str


@dataclass(frozen=True, slots=True)
class DecisionParity:
    """What was compared of a kind of decision.

    Attributes:
        decision: What was decided, such as ``block``.
        decisions: Decisions of the stream in the span.
        sampled: Decisions of the stream or the lake that were compared.
        equal: How many of them are the same in both.
        answered: How many are on a record that the API had answered by rules.
        answered_equal: How many of these have the answer of the stream.
        differences: What differs; ``DIFFERENCES_MAX`` at most.
    """

    decision: str
    decisions: int
    sampled: int
    equal: int
    answered: int
    answered_equal: int
    differences: tuple[DecisionDifference, ...] = ()

    @property
    def differ(self) -> int:
        """How many comparisons found a difference, with the lake or with the API."""
        return self.sampled - self.equal + self.answered - self.answered_equal


@dataclass(frozen=True, slots=True)
class ParityReport:
    """A comparison of alerts and decisions on records of a span of ingest times. Instants are RFC 3339.

    ``decisions`` are by kind; nothing for a pipeline without a policy.
    """

    pipeline: str
    at: str
    since: str
    until: str
    records: int
    rules: tuple[RuleParity, ...]
    decisions: tuple[DecisionParity, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not any(each.differ for each in self.rules) and not any(each.differ for each in self.decisions)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"schema_version": SCHEMA_VERSION, "same": self.same, **asdict(self)}

    @staticmethod
    def from_json(body: dict[str, Any]) -> ParityReport:
        """Raises KeyError or TypeError for what is no report."""
        names = ("pipeline", "at", "since", "until", "records")
        rules = [
            RuleParity(**{**each, "differences": tuple(AlertDifference(**one) for one in each["differences"])})
            for each in body["rules"]
        ]
        decisions = [
            DecisionParity(**{**each, "differences": tuple(DecisionDifference(**one) for one in each["differences"])})
            for each in body.get("decisions", ())  # which reports of before do not have
        ]
        return ParityReport(**{name: body[name] for name in names}, rules=tuple(rules), decisions=tuple(decisions))


def write_report(report: ParityReport, folder: Path) -> Path:
    """Replace the report in ``folder``; readers see the one before or this one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # as the API makes it
    path = folder / FILE
    with draft_file(path) as draft:
        draft.write_bytes(orjson.dumps(report.to_json(), option=orjson.OPT_INDENT_2) + b"\n")
    return path


def read_report(folder: Path, pipeline: str) -> ParityReport | None:
    """The last report on a pipeline; None: there is none that can be read."""
    try:
        found = ParityReport.from_json(orjson.loads((folder / FILE).read_bytes()))
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return found if found.pipeline == pipeline else None
