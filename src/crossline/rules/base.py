"""What every rule has: the envelope, its life cycle, its clock and lateness, and what a rule type must add."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import check_conditions, parse_conditions
from crossline.basics.streams.clocks import clock_findings
from crossline.basics.streams.inputs import Reading, written_reading
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import (
    OptionalDuration,
    OptionalInstant,
    OptionalRecord,
    OptionalSeconds,
    OptionalShare,
    RecordAsked,
    RuleId,
    Texts,
)
from crossline.basics.texts.problems import Finding, Path
from crossline.basics.texts.validation import refusals
from crossline.basics.times import format_duration
from crossline.programs.alert_fields import record_findings
from crossline.programs.kinds import TimeMode
from crossline.programs.program import Feed, Program
from crossline.programs.thresholds import ThresholdLine
from crossline.rules.breaker import Breaker
from crossline.rules.holds.hold_check import hold_findings
from crossline.rules.sentence import Sentence, parse_description

NOT_YET = "Not in this version yet."
Status = Literal["draft", "shadow", "active", "paused", "retired"]
Severity = Literal["info", "low", "medium", "high", "critical"]
Action = Literal["allow", "review", "step_up", "block"]

_MOVES: dict[str, frozenset[str]] = {
    "draft": frozenset({"shadow", "active", "retired"}),
    "shadow": frozenset({"active", "retired"}),
    "active": frozenset({"shadow", "paused", "retired"}),
    "paused": frozenset({"active", "retired"}),
    "retired": frozenset(),
}


def legal_moves(status: Status) -> tuple[str, ...]:
    """The statuses that a rule in ``status`` may be given next."""
    return tuple(sorted(_MOVES[status]))


def legal_move(old: Status, new: Status) -> bool:
    """Whether a rule may go from ``old`` to ``new``; staying is no move."""
    return new in _MOVES[old]


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for rules that do not say otherwise: the pipeline's ``defaults``."""

    time_mode: TimeMode = "event_time"
    watermark_delay_ms: int = 45_000
    allowed_lateness_ms: int = 120_000
    record: RecordAsked = "none"

    def __post_init__(self) -> None:
        if isinstance(self.record, list):  # as JSON has it
            object.__setattr__(self, "record", tuple(self.record))


@dataclass(frozen=True, slots=True)
class Lateness:
    """Bounds on ingest time - event time. None: no bound.

    ``allowed_ms``: beyond it a record is neither judged nor in a window. ``judged_ms``: beyond it it is not judged.
    """

    allowed_ms: int | None
    judged_ms: int | None


def check_raw_conditions(raw: Any) -> Any:
    """Validator of conditions as they are written."""
    _, findings = parse_conditions(raw, path=())
    if findings:
        raise refusals(findings)
    return raw or None


class Rule(BaseModel):
    """One version of a rule, checked and frozen. Types add their fields and what they need of the plan."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    rule_id: RuleId = Field(description="Stable name: 1 to 64 characters out of `a-z 0-9 _ . -`.")
    version: int = Field(ge=1, lt=2**31, description="A new version replaces the older; one version has one body.")
    rule_type: str = Field(description="What kind of rule this is.")
    status: Status = Field(
        "active",
        description="`draft` is never evaluated, `shadow` is evaluated and recorded but not delivered. Moves: draft to "
        "shadow or active, shadow to active and back, active to paused and back, any to retired.",
    )
    share: OptionalShare = Field(
        None,
        description="Of an active version: the share of keys that it decides about, `10%`. The others it judges as a "
        "shadow, and the version before goes on for them. None: all keys. See Shares in semantics.md.",
    )
    source_topic: str = Field(description="The stream that it reads; `rule:<rule_id>`: the hits of another rule.")
    sink_topic: str | None = Field(
        None,
        description="Kafka topic for its alerts, out of `topic` and `topics` of the Kafka sinks; none: their "
        "`topic`. Sinks of other kinds take the alerts of all rules.",
    )
    conditions: Annotated[Any, BeforeValidator(check_raw_conditions)] = Field(
        None, description="Which records it looks at; none: all of them. See Conditions."
    )
    severity: Severity = Field("medium", description="How grave a hit is.")
    score: int = Field(0, ge=0, le=100, description="Weight of a hit, 0 to 100.")
    action: Action = Field("allow", description="What a hit asks of the decision; the gravest of all hits counts.")
    hold: OptionalDuration = Field(
        None,
        description="From an alert on, every record with the alert's key takes the rule's action for so long: `30m`. "
        "It holds decisions, so it needs a policy: see Holds in semantics.md.",
    )
    description: str | None = Field(
        None, description="The sentence of its alerts; may hold `{value}` and the like, see Sentences."
    )
    owner: str | None = Field(None, description="Who answers for it.")
    tags: Texts = Field((), description="Free marks.")
    effective_from: OptionalInstant = Field(
        None, description="Instant on the ingest clock from which it judges; none: from when it is loaded."
    )
    time_mode: TimeMode | None = Field(
        None, description="Clock: `event_time`, or `processing_time`, which is ingest time. None: the pipeline's."
    )
    timestamp_field: str | None = Field(
        None,
        description="The clock that windows and lateness are measured on: the field of the event time, or another of "
        "the stream's `clocks`, by its name or its field. None: the event time.",
    )
    watermark_delay: OptionalSeconds = Field(
        None,
        description="Up to this lateness a record is on time; a bare number is seconds. None: the pipeline's (45 s).",
    )
    allowed_lateness: OptionalSeconds = Field(
        None, description="Beyond this lateness a record is never judged. None: the pipeline's (2 min)."
    )
    late_policy: Literal["evaluate", "reevaluate", "skip"] = Field(
        "evaluate",
        description="Records between the two bounds: `evaluate` judges them, `skip` only lets them into windows. With "
        "`reevaluate` a record out of order also has later records judged again, if it may change their results; "
        "changes are emitted as corrections.",
    )
    resolution: OptionalDuration = Field(
        None,
        description="Keeps panes of this length instead of records, for long windows; of `velocity`, `burst` and "
        "`anomaly`, and of each figure of a `formula`. See Figures.",
    )
    record: OptionalRecord = Field(
        None,
        description="What its alerts carry of their record, fields of tables included: `none`, `all`, or a list of "
        "fields, where `location` is all that is within it. None: the pipeline's (`none`).",
    )
    breaker: Breaker | None = Field(
        None,
        description="Most alerts in a time; with more the rule goes to shadow until its status is set. None: the "
        "pipeline's. See Breaker.",
    )

    # Names of the fields in other programs, and their names here.
    meant_by: ClassVar[Mapping[str, str]] = {
        "enabled": "write status: active, or status: paused for a rule that is not",
        "disabled": "write status: paused, or status: active for a rule that is not",
        "name": "a rule's name is its rule_id; what its alerts say is its description",
        "id": "did you mean rule_id?",
        "stream": "did you mean source_topic?",
        "topic": "did you mean source_topic?",
        "message": "did you mean description?",
    }
    example: ClassVar[str] = ""
    takes_resolution: ClassVar[bool] = False
    is_hold: ClassVar[bool] = False  # derived from a hold rather than written
    is_table: ClassVar[bool] = False  # figures, emitted for every record
    # Fields that name a file, and those that its bytes, in base64, are put into by the one that reads rules.
    files: ClassVar[Mapping[str, str]] = {}

    def __hash__(self) -> int:
        return hash((self.rule_id, self.version))

    @cached_property
    def filter(self) -> Condition:
        """The conditions, parsed."""
        return Condition(parse_conditions(self.conditions)[0])

    def all_conditions(self) -> tuple[Condition, ...]:
        """Every condition that the rule asks of records: its own, and those of its figures."""
        return (self.filter,)

    @property
    def judges_again(self) -> bool:
        """Whether records that come out of order may correct its alerts."""
        return self.late_policy == "reevaluate"

    @property
    def reading(self) -> Reading:
        """What it reads: its stream, where a type does not say otherwise."""
        return Reading((self.source_topic,))

    @classmethod
    def reading_written(cls, body: Mapping[str, Any]) -> Reading | None:
        """``reading`` of a rule as it is written, which may be wrong in any way; None where it does not say."""
        return written_reading(body)

    @classmethod
    def keys_written(cls, body: Mapping[str, Any]) -> Any:
        """The fields of its key, or of that of its first figure or step, as they are written; None: none."""
        figures, steps = body.get("figures"), body.get("steps")
        more = figures.values() if isinstance(figures, dict) else ()
        parts = [body, *more, *(steps if isinstance(steps, list) else ())]
        given = (part.get("group_by") for part in parts if isinstance(part, dict))
        return next((each for each in given if each is not None), None)

    def place_of_source(self, source: str) -> Path:  # noqa: ARG002 - for types that read several
        """Where in the rule stands that it reads ``source``."""
        return ("source_topic",)

    def lateness(self, defaults: Defaults) -> Lateness:
        """The bounds on lateness; none on the ingest clock.

        A rule that only widens ``watermark_delay`` past the pipeline's allowed lateness allows as much.
        """
        if (self.time_mode or defaults.time_mode) == "processing_time":
            return Lateness(None, None)
        delay_ms = defaults.watermark_delay_ms if self.watermark_delay is None else self.watermark_delay
        allowed_ms = self.allowed_lateness
        if allowed_ms is None:
            allowed_ms = max(defaults.allowed_lateness_ms, self.watermark_delay or 0)
        return Lateness(allowed_ms, delay_ms if self.late_policy == "skip" else None)

    def feed(self, defaults: Defaults, key_fields: tuple[str, ...] = ()) -> Feed:
        """The records that meet its conditions, by ``key_fields``."""
        mode = self.time_mode or defaults.time_mode
        return Feed(self.reading.judges, key_fields, mode, self.filter, self.lateness(defaults).allowed_ms)

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:
        """What the rule becomes on a stream of ``spec``: all that is asked of a type by what compiles and judges."""
        raise NotImplementedError

    def lingers_ms(self, defaults: Defaults) -> int:  # noqa: ARG002 - types whose records wait know
        """For how long after a version ended, on the ingest clock, there may be hits at records that it judged."""
        return 0

    def canonical(self) -> dict[str, Any]:
        """The body as plain JSON in one way of writing it: without defaults, status, share and effective_from."""
        left_out = {"status", "share", "effective_from"}
        body = self.model_dump(mode="json", exclude_defaults=True, exclude=left_out, by_alias=True)
        return {**body, "rule_type": self.rule_type}

    def to_json(self) -> dict[str, Any]:
        """The whole rule as plain JSON that loads again as the same rule."""
        whole = {**self.canonical(), "status": self.status}
        if self.share is not None:
            whole["share"] = self.share
        return whole if self.effective_from is None else {**whole, "effective_from": self.effective_from}

    def display_json(self) -> dict[str, Any]:
        """As ``to_json``, for people: of the bytes of a file only how many they are."""
        body = self.to_json()
        for name in self.files.values():
            given = body.get(name)
            if isinstance(given, str):
                body[name] = f"{len(given) * 3 // 4 - given.count('='):,} bytes"
        return body

    def body_digest(self) -> str:
        """SHA-256 of the canonical body, in hex: the same for the same version in every run."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(orjson.dumps(self.canonical(), option=orjson.OPT_SORT_KEYS)).hexdigest()

    @model_validator(mode="after")
    def _check(self) -> Self:
        findings = self.findings() or hold_findings(self)
        if findings:
            raise refusals(findings)
        return self

    @property
    def key_of_alerts(self) -> tuple[str, ...]:
        """The fields of its alerts' key; none where they have no key."""
        given = getattr(self, "entity", None) or getattr(self, "group_by", None) or getattr(self, "key_fields", ())
        keys = [given] if isinstance(given, str) else given or ()
        return tuple(key for key in keys if isinstance(key, str))

    def findings(self) -> list[Finding]:
        """Impossible combinations of fields, all of them. A field that could not be read is None here."""
        findings: list[Finding] = []
        delay_ms, allowed_ms = self.watermark_delay, self.allowed_lateness
        if delay_ms is not None and allowed_ms is not None and allowed_ms < delay_ms:
            least = f"at least watermark_delay, which is {format_duration(delay_ms)}"
            findings.append(Finding(("allowed_lateness",), format_duration(allowed_ms), least))
        if self.resolution is not None and not self.takes_resolution:
            expected = "no resolution here: it belongs to velocity, burst and anomaly, and to the figures of a formula"
            findings.append(Finding(("resolution",), format_duration(self.resolution), expected))
        if self.late_policy == "reevaluate" and self._has_panes():
            expected = "evaluate or skip beside a resolution: panes keep no records that could be judged again"
            findings.append(Finding(("late_policy",), "reevaluate", expected))
        if self.share is not None and not self.key_of_alerts:
            expected = "no share here: a rule without a key (group_by, entity) has no keys to share out"
            findings.append(Finding(("share",), self.share, expected))
        if self.description is not None and self.rule_id is not None:
            findings += parse_description(self.description, self.rule_id, self.placeholder_names(None))[1]
        return findings

    def _has_panes(self) -> bool:
        """Whether it, or a figure of it, has a resolution."""
        figures = getattr(self, "figures", None) or {}
        return any(getattr(each, "resolution", None) is not None for each in (self, *figures.values()))

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """What does not fit the stream ``name`` that the rule reads; ``lists``: names of the lists there are."""
        findings = check_conditions(self.filter.node, spec.columns, name, lists)
        findings += record_findings(self.record, spec, name)
        if self.late_policy == "reevaluate" and self.reading.judged_once:
            expected = "evaluate or skip beside a risk score, which is that of then; what is corrected, in another rule"
            findings.append(Finding(("late_policy",), "reevaluate", expected))
        findings += clock_findings(self.timestamp_field, self.time_mode, self.reading, name, spec)
        if self.description is not None:
            findings += parse_description(self.description, self.rule_id, self.placeholder_names(spec))[1]
        return findings

    def remark(self) -> str | None:
        """A sentence that a type adds to the description of its program (`rules explain`); None: none."""
        return None

    def place_of(self, part: str, figure: str = "") -> Path:  # noqa: ARG002 - types that have several figures know them
        """The place in the rule of a ``part`` of its program; ``figure``: the name of its figure, if it has one.

        ``part``: ``conditions``, ``group_by``, ``window``, or ``when`` for the comparison.
        """
        return (part,) if getattr(self, part, None) is not None else ()

    def drawn(self, spec: StreamSpec) -> ThresholdLine | None:  # noqa: ARG002 - a formula is read with its stream
        """The threshold of the rule, if it has exactly one (`rules suggest-threshold`)."""
        return None

    def redrawn(self, threshold: float, spec: StreamSpec) -> Self:
        """The same rule with another threshold, and an alert that shows the compared value."""
        raise NotImplementedError

    def placeholder_names(self, spec: StreamSpec | None) -> Collection[str] | None:
        """The names that the description may hold in braces; None: any."""
        raise NotImplementedError

    def default_sentence(self, value: float | None) -> Sentence:
        """The text of an alert of a rule without a description."""
        raise NotImplementedError

    @cached_property
    def _described(self) -> Sentence | None:
        if not self.description:
            return None
        return parse_description(self.description, self.rule_id, None)[0]

    def template(self, value: float | None) -> Sentence:
        """The description, or a plain sentence of the type."""
        return self._described or self.default_sentence(value)

    def sentence(
        self,
        value: float | None,
        threshold: float | None,
        operator: str | None,
        window_ms: int | None,
        key: Mapping[str, Any],
        count: int | None,
        evidence: Mapping[str, Any],
    ) -> str:
        """The alert's message: the description with its placeholders filled in, or a plain sentence of the type."""
        return self.template(value).say(value, threshold, operator, window_ms, key, count, evidence)


class Envelope(Rule):
    """What every rule has: stands in for a rule whose type is not known, so that all else of it is reported."""

    rule_type: str = ""

    def placeholder_names(self, spec: StreamSpec | None) -> Collection[str] | None:  # noqa: ARG002 - the type would know
        """Any."""
        return None
