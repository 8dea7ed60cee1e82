"""The policy file: how the hits of a record become a decision, read from text and checked whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from crossline.basics.formula.formula import Formula
from crossline.basics.texts.problems import Finding, RefusedError, shown
from crossline.basics.texts.report import place
from crossline.basics.texts.validation import findings_from_validation, refusals
from crossline.basics.texts.yamltext import load_yaml
from crossline.rules.base import Action
from crossline.rules.policy.fallback import FallbackBranch, order_findings
from crossline.rules.policy.words import RULES, check_when


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _check_when(value: Any) -> Any:
    checked = check_when(value, ())
    if not isinstance(checked, Formula):
        raise refusals(checked)
    return value


class Branch(_Model):
    """An item of `decide`."""

    when: Annotated[str, BeforeValidator(_check_when)] = Field(
        description="A formula over what is known of the record's hits, see below."
    )
    decision: Action = Field(description="What is decided where it holds.")

    @cached_property
    def formula(self) -> Formula:
        """``when``, parsed."""
        checked = check_when(self.when, ())
        if not isinstance(checked, Formula):
            raise TypeError(f"{self.when!r} was checked, and is no formula: {checked}")
        return checked


class Band(_Model):
    """An item of `bands`."""

    at_least: int = Field(alias="from", ge=0, lt=2**31, description="The lowest score of the band.")
    decision: Action = Field(description="What is decided from there up to the next band.")


class Policy(_Model):
    """What the hits on a record mean for it.

    `decide` speaks first, then `bands`. Where neither is given, or `decide` alone and nothing in it holds, the gravest
    `action` of the hits is the decision.
    """

    schema_version: Literal[1] = Field(description="Version of this form of file.")
    version: int = Field(
        ge=1, lt=2**31, description="Stands in each decision, and is part of its id; another policy has another one."
    )
    decide: list[Branch] = Field(default=[], description="Tried in this order; the first that holds decides.")
    score: Literal["sum", "max"] = Field(
        default="sum", description="The score of a record: the sum of the scores of its hits, or the highest of them."
    )
    bands: list[Band] = Field(
        default=[], description="Decisions by score, in any order; a score below the lowest band is `allow`."
    )

    fallback: list[FallbackBranch] = Field(
        default=[],
        description="Tried in this order where the decision API cannot judge a record in time; without a branch that "
        "holds it is `review`. See Fallback in semantics.md.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        findings, seen = [], set[int]()
        for number, band in enumerate(self.bands):
            if band.at_least in seen:
                findings.append(Finding(("bands", number, "from"), shown(band.at_least), "each score once"))
            seen.add(band.at_least)
        findings += order_findings(self.fallback)
        if findings:
            raise refusals(findings)
        return self

    def to_json(self) -> dict[str, Any]:
        """As plain JSON that loads again as the same policy."""
        data = self.model_dump(mode="json", by_alias=True)
        # What a policy without one has always been: its digest stands in plan snapshots and in receipts.
        if not self.fallback:
            del data["fallback"]
        return data

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its content, in hex: equal for policies that are written alike."""
        return hashlib.sha256(orjson.dumps(self.to_json(), option=orjson.OPT_SORT_KEYS)).hexdigest()

    def unknown_rules(self, rule_ids: Iterable[str]) -> list[str]:
        """The rules that it names and that are none of ``rule_ids``: most often misspelt, or not published yet."""
        names = (name for branch in self.decide for name in branch.formula.names)
        named = {name.removeprefix(RULES) for name in names if name.startswith(RULES)}
        return sorted(named - set(rule_ids))

    def unknown_lists(self, lists: Iterable[str]) -> list[str]:
        """The lists that its fallback looks something up in and that are none of ``lists``."""
        return sorted({name for branch in self.fallback for name in branch.condition.lists()} - set(lists))


@dataclass(frozen=True, slots=True)
class Deciding:
    """By which policy is decided, and what is reported: ``every`` record's decision, or of those with hits.

    ``sink_topic``: stands in each decision, for sinks with topics. ``folder``: where tasks write those of every record,
    in files that belong to ``pipeline``; None where all of them go the way of alerts.
    """

    policy: Policy
    every: bool = False
    sink_topic: str | None = None
    folder: str | None = None
    pipeline: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "policy": self.policy.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of ``to_json``."""
        return cls(**{**data, "policy": Policy.model_validate(data["policy"])})


def load_policy(text: str, source: str) -> Policy:
    """The policy that ``text`` writes; ``source`` is what the file is called in messages.

    Raises RefusedError with all that is wrong in it.
    """
    document = load_yaml(text, source)
    if not isinstance(document.data, dict):
        found = Finding(
            (), shown(document.data), "a mapping with schema_version, version, decide, score, bands, fallback"
        )
        raise RefusedError([place(found, document)])
    try:
        return Policy.model_validate(document.data)
    except ValidationError as error:
        problems = [place(each, document) for each in findings_from_validation(error, Policy)]
    raise RefusedError(sorted(problems, key=lambda problem: problem.line))
