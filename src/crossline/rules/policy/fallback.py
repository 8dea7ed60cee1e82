"""The policy's ``fallback``: a decision on a record by its own fields and by lists, where nothing else can be judged.

It needs no state: no hits, no figures, no windows, no tables. So it answers when a deadline has passed, or when the
state is too old, missing or broken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Self, assert_never

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.evaluation import holds, lookup
from crossline.basics.conditions.lists import Lists
from crossline.basics.conditions.tree import AllOf, AnyOf, Leaf, ListRef, Node, Not, check_conditions, parse_conditions
from crossline.basics.fields import FieldKind
from crossline.basics.formula.check import check, check_form
from crossline.basics.formula.diagnostics import A_NAME
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.naive import evaluate
from crossline.basics.formula.sensitive import wrong_in
from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.basics.texts.problems import Finding, Problem, path_text
from crossline.basics.texts.report import place
from crossline.basics.texts.validation import refusals
from crossline.basics.texts.yamltext import load_yaml
from crossline.basics.times import parse_instant_ms
from crossline.rules.base import Action, check_raw_conditions
from crossline.rules.policy.membership import Membership
from crossline.rules.policy.words import NAMES, RULES, TAGS

SAFE: Action = "review"  # where no branch holds: a person looks at it; never a silent allow

_NO_FIGURES = "a fallback reads the record's own fields and lists: no hits, no figures"
_QUOTED = re.compile(r"`([^`]*)`\Z")


def _check_when(value: Any) -> Any:
    findings = [] if value is None else check_form(value, ())
    if findings:
        raise refusals(findings)
    return value


class FallbackBranch(BaseModel):
    """An item of `fallback`. With `when` and `conditions` both must hold; with neither it holds for every record."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    when: Annotated[str | None, BeforeValidator(_check_when)] = Field(
        default=None, description="A formula over the record's fields: `amount_cents > 50000`. No hits, no figures."
    )
    conditions: Annotated[Any, BeforeValidator(check_raw_conditions)] = Field(
        default=None,
        description="Conditions on the record, as in a rule; they look up lists: "
        "`[{field: merchant_id, operator: in, value: {list: watched}}]`.",
    )
    decision: Action = Field(description="What is decided where it holds.")

    @property
    def holds_always(self) -> bool:
        """Whether it asks for nothing."""
        return self.when is None and self.condition.node == AllOf(())

    @cached_property
    def condition(self) -> Condition:
        """``conditions``, parsed."""
        return Condition(parse_conditions(self.conditions)[0])


def order_findings(branches: Sequence[FallbackBranch]) -> list[Finding]:
    """Branches that hold for every record and so make the branches after them unreachable."""
    return [
        Finding(("fallback", number), "a branch without when and conditions", "such a branch as the last one")
        for number, branch in enumerate(branches[:-1])
        if branch.holds_always
    ]


class FallbackDecision(NamedTuple):
    """What the fallback decided. ``branch``: its number, from 0; None where none spoke. ``why``: for people."""

    decision: Action
    branch: int | None
    why: str


class UnknownListError(LookupError):
    """A branch looks something up in a list that is not there."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    decision: Action
    formula: Formula | None
    condition: Condition
    text: str


class Fallback:
    """A policy's fallback over one stream, ready to be asked. From any thread.

    >>> fallback = Fallback.of(policy.fallback, "payments", streams)
    >>> fallback.decide({"amount_cents": 60_000}, {}, ingest_ms=1_767_225_607_120)
    FallbackDecision(decision='review', branch=0, why='fallback[0]: amount_cents > 50000')
    """

    def __init__(self, branches: Sequence[_Compiled], stream: str, columns: Mapping[str, FieldSpec]) -> None:
        self._branches = tuple(branches)
        self._stream = stream
        read = {name for each in branches for name in (*_names(each.formula), *each.condition.fields())}
        self._columns = {name: columns[name] for name in sorted(read)}
        self._membership = Membership(stream)

    @classmethod
    def of(cls, branches: Sequence[FallbackBranch], stream: str, streams: Mapping[str, StreamSpec]) -> Self:
        """The fallback of a policy over ``stream``, which is one of ``streams``.

        Args:
            branches: ``Policy.fallback``; none is a fallback too: it answers `review`.
            stream: The stream whose records are decided.
            streams: All streams of the pipeline: a field that only others have is missing here.

        Raises:
            ValueError: A branch does not fit the stream (``load_pipeline`` has reported it before).
        """
        columns = _columns(stream, streams)
        for each in _branch_findings(branches, stream, columns):
            raise ValueError(f"{path_text(each.path)}: found {each.found}; expected {each.expected}")
        compiled = []
        for number, branch in enumerate(branches):
            formula = None if branch.when is None else check(branch.when, _kinds(columns), (), wanted="verdict")
            parts = [] if branch.when is None else [branch.when]
            parts += [branch.condition.text] if branch.condition.node != AllOf(()) else []
            text = f"fallback[{number}]: {' and '.join(parts) or 'every record'}"
            compiled.append(
                _Compiled(branch.decision, formula if isinstance(formula, Formula) else None, branch.condition, text)
            )
        return cls(compiled, stream, columns)

    @property
    def lists(self) -> tuple[str, ...]:
        """The names of the lists that it reads, sorted."""
        return tuple(sorted({name for each in self._branches for name in each.condition.lists()}))

    def prepare(self, lists: Lists) -> None:
        """Index the lists that it reads, so that no request waits for that: a million values take a second or two.

        An index is of the very ``NamedList``: hand in the same objects while the lists have not changed.
        """
        for name in self.lists:
            if name in lists:
                self._membership.of(name, lists[name])

    def decide(self, fields: Mapping[str, Any], lists: Lists, ingest_ms: int) -> FallbackDecision:
        """The decision of the first branch that holds; `review` where none does. Never raises, whatever the record.

        Args:
            fields: The record, nested or flat with dotted names. A field that is missing, null or of another type than
                its stream declares is missing, as in formulas. Timestamps are epoch milliseconds or RFC 3339 texts.
            lists: The named lists in force, by name.
            ingest_ms: When the record came, epoch milliseconds: lists are read as of then.

        Returns:
            The decision, and the number of the branch. Where a branch reads a list that is missing, its result is
            unknown, so no later branch may decide: `review`, and no branch.
        """
        known = {name: _fit(lookup(fields, name), spec) for name, spec in self._columns.items()}
        for number, each in enumerate(self._branches):
            try:
                if self._holds(each, known, lists, ingest_ms):
                    return FallbackDecision(each.decision, number, each.text)
            except UnknownListError as error:
                return FallbackDecision(SAFE, None, f"fallback[{number}] reads list {error}, which is not there")
        return FallbackDecision(
            SAFE, None, "no branch of the fallback holds" if self._branches else "the policy has no fallback"
        )

    def _holds(self, branch: _Compiled, known: Mapping[str, Any], lists: Lists, ingest_ms: int) -> bool:
        if branch.formula is not None and evaluate(branch.formula.root, known) is not True:
            return False
        for name in branch.condition.lists():
            if name not in lists:
                raise UnknownListError(name)
        return self._meets(branch.condition.node, known, lists, ingest_ms)

    def _meets(self, node: Node, known: Mapping[str, Any], lists: Lists, ingest_ms: int) -> bool:
        match node:
            case AllOf(parts):
                return all(self._meets(each, known, lists, ingest_ms) for each in parts)
            case AnyOf(parts):
                return any(self._meets(each, known, lists, ingest_ms) for each in parts)
            case Not(part):
                return not self._meets(part, known, lists, ingest_ms)
            case Leaf(field, operator, ListRef(name)):
                stands = self._membership.of(name, lists[name]).holds(known.get(field), ingest_ms)
                return stands == (operator == "in")
            case Leaf():
                return holds(node, known)
            case _:
                assert_never(node)


def fallback_problems(
    text: str, source: str, branches: Sequence[FallbackBranch], streams: Mapping[str, StreamSpec]
) -> list[Problem]:
    """What of a policy's fallback does not fit the streams: names that no stream has, types that do not go together.

    ``text``: of the policy file, ``source`` what it is called.
    """
    if not branches:
        return []
    document = load_yaml(text, source)
    known: dict[tuple[Any, ...], Finding] = {}
    for stream in streams:
        for each in _branch_findings(branches, stream, _columns(stream, streams)):
            known.setdefault((each.path, each.found), each)
    problems = [place(each, document) for each in known.values()]
    return sorted(problems, key=lambda problem: problem.line)


def _branch_findings(
    branches: Sequence[FallbackBranch], stream: str, columns: Mapping[str, FieldSpec]
) -> list[Finding]:
    found: list[Finding] = []
    for number, branch in enumerate(branches):
        base = ("fallback", number)
        if branch.when is not None:
            formula = check(branch.when, _kinds(columns), (*base, "when"), wanted="verdict")
            wrong = wrong_in([formula], columns, [(*base, "when")])
            found += wrong if isinstance(formula, Formula) else map(_of_a_record, wrong)
        conditions = check_conditions(branch.condition.node, columns, stream)
        found += [replace(each, path=(*base, *each.path)) for each in conditions]
    return found


def _of_a_record(finding: Finding) -> Finding:
    """``finding`` in the words of a fallback, which has no figures."""
    if finding.expected != A_NAME:
        return finding
    quoted = _QUOTED.search(finding.found)
    name = quoted[1] if quoted else ""
    hint = _NO_FIGURES if name in set(NAMES) or name.startswith((RULES, TAGS)) else finding.hint
    return replace(finding, expected="a field of the record", hint=hint)


def _columns(stream: str, streams: Mapping[str, StreamSpec]) -> dict[str, FieldSpec]:
    """The fields that records themselves have: those of ``stream``, then those that only others do."""
    columns = dict(streams[stream].own_columns)
    for spec in streams.values():
        columns |= {name: each for name, each in spec.own_columns.items() if name not in columns}
    return columns


def _kinds(columns: Mapping[str, FieldSpec]) -> dict[str, FieldKind]:
    return {name: each.kind for name, each in columns.items() if not each.is_list}


def _names(formula: Formula | None) -> tuple[str, ...]:
    return () if formula is None else formula.names


def _fit(value: Any, spec: FieldSpec) -> Any:  # noqa: PLR0911 - a table
    """``value`` as a field of ``spec`` has it; None where it is none."""
    if spec.is_list:
        inner = replace(spec, is_list=False)
        return [_fit(each, inner) for each in value] if isinstance(value, list) else None
    match spec.kind:
        case "string":
            return value if isinstance(value, str) and _is_whole_text(value) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer":
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case "number":
            return _real(value)
        case "timestamp":
            try:
                return parse_instant_ms(value)
            except ValueError:
                return None
        case _:
            assert_never(spec.kind)


def _real(value: Any) -> float | None:
    """A number as the double nearest to it; one beyond all doubles is larger than all of them, and no less suspect."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return None if math.isnan(value) else float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value > 0 else -1)


def _is_whole_text(value: str) -> bool:
    """No half of a character, which nothing that looks into texts can take."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
