"""``model``: an ONNX model scores the record by its fields and figures, and the score crosses a line."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from crossline.basics.formula.check import check
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.tree import Compare, Constant, Name
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Number
from crossline.basics.texts.problems import Finding, Path, shown
from crossline.basics.texts.validation import refusal
from crossline.programs.kinds import Operator
from crossline.programs.program import SCORE, Evidence, FormulaPredicate, Program, Scored
from crossline.rules.base import Defaults
from crossline.rules.figure import FigureFields
from crossline.rules.predicate_rule import PredicateRule
from crossline.rules.registry import rule_type
from crossline.rules.sentence import number
from crossline.rules.types.formula import check_figures

if TYPE_CHECKING:  # it loads numpy, for which who reads other rules need not wait
    from crossline.basics.models.model import Model, Scorer

_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)
_NOTES = ("model", "model_version", "model_digest")


def _features(value: Any) -> Any:
    """``[amount, usual]``, ``{share: amount / usual}`` or ``[amount, {share: amount / usual}]``, as the second."""
    given = value
    if isinstance(value, list) and all(isinstance(each, str) or _is_pair(each) for each in value):
        given = dict(pair for each in value for pair in ({each: each} if isinstance(each, str) else each).items())
    if not isinstance(given, dict) or not given or len(given) < len(value):
        form = "names of fields and figures, each once, or {name: formula}"
        raise refusal(f"{form}, in the order in which the model takes them")
    for name, formula in given.items():
        if str(formula).startswith("rule:"):
            expected = "a field, a figure or a formula of them; values of other rules are not in this version yet"
            raise refusal(expected, found=shown(formula))
        if not isinstance(name, str) or not _FEATURE.fullmatch(name) or not isinstance(formula, str):
            raise refusal("{name: formula}, such as {share: amount / usual}", found=shown({name: formula}))
    return given


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1


def _listed(features: Mapping[str, str]) -> list[str | dict[str, str]]:
    """In the order in which the model takes them, which a mapping in JSON has not."""
    return [name if name == formula else {name: formula} for name, formula in features.items()]


def _data(value: Any) -> Any:
    try:
        base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise refusal("bytes in base64") from None
    return value


@rule_type("model")
class ModelRule(PredicateRule):
    """Fires where the score of a model is beyond a line."""

    rule_type: Literal["model"] = Field(description="`model`.")
    model: str = Field(
        min_length=1,
        description="The file of the model, in ONNX, by its name in the folder of the rules; at most 4 MiB. Its bytes "
        "are part of the rule's body: another model is another version.",
    )
    model_data: Annotated[str, BeforeValidator(_data)] | None = Field(
        None, description="The bytes of the model in base64. None: they are read from `model` as the rule is."
    )
    figures: Annotated[dict[str, FigureFields], BeforeValidator(check_figures)] = Field(
        description="Figures by the names that `features` have for them, one at least. See Figures."
    )
    features: Annotated[dict[str, str], BeforeValidator(_features), PlainSerializer(_listed)] = Field(
        description="What the model takes, in its order: names of fields and figures, or `{name: formula}`, or a list "
        "of both; see Formulas. One that is missing is NaN; `coalesce(usual, 0)` is another default."
    )
    output: str | None = Field(
        None, description="The output that is the score. None: the only one of real numbers; of two classes the second."
    )
    threshold: Number = Field(description="The line.")
    operator: Operator = Field(">=", description="The rule is satisfied where score `operator` threshold.")
    emit: Literal["on_crossing", "every"] = Field(
        "every", description="Alert at every record beyond the line, or where it is crossed for the key."
    )

    files: ClassVar[Mapping[str, str]] = {"model": "model_data"}
    example: ClassVar[str] = """\
rule_id: card_model
version: 3
rule_type: model
source_topic: payments
severity: high
score: 70
action: step_up
description: "score {value} for card {card_hash} by {model} {model_version}"
model: card-fraud-3.onnx
figures:
  tries: {count: true, group_by: card_hash, window: 10m}
  usual: {avg: amount_cents, group_by: card_hash, window: 30d, include_current: false}
features:
  amount_cents: amount_cents
  tries: tries
  share: amount_cents / coalesce(usual, amount_cents)
threshold: 0.9
"""

    @cached_property
    def _model(self) -> Model:
        from crossline.basics.models.model import Model  # noqa: PLC0415 - as above

        return Model.of(self.model, base64.b64decode(self.model_data or ""))

    @property
    def model_digest(self) -> str:
        """SHA-256 of the model's bytes, in hex."""
        return self._model.digest

    @cached_property
    def _scorer(self) -> Scorer:
        from crossline.basics.models.model import Scorer  # noqa: PLC0415 - as above

        return Scorer(self._model, tuple(self.features), self.output)

    def figures_of(self) -> Mapping[str, FigureFields]:
        """As they are written."""
        return self.figures or {}

    def formulas_of(self) -> tuple[str, str | None]:
        """The score against the line; the score."""
        return f"score {self.operator} {self.threshold}", "score"

    def line_of(self) -> tuple[str, Operator, float | None, Path]:
        """The score."""
        return "score", self.operator, self.threshold, ("threshold",)

    def texts(self) -> list[str]:
        """Those of the features."""
        return list((self.features or {}).values())

    def path_of(self, part: str) -> Path:
        """The field itself."""
        return ("figures", part)

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """What does not fit the stream; and what the model does not take or give, which is tried out."""
        from crossline.basics.models.model import ModelError  # noqa: PLC0415 - as above

        findings = super().stream_findings(name, spec, lists)
        if self.model is None or not self.features or findings:
            return findings
        if self.model_data is None:
            expected = f"the bytes of {self.model}, which are read where the rule is read from a file"
            return [Finding(("model_data",), "nothing", expected)]
        try:
            self._scorer.check()
        except ModelError as error:
            return [Finding(("model",), f"{self.model}: {error.found}", error.expected)]
        return []

    def _unread(self, spec: StreamSpec) -> Iterator[Finding]:
        """Its figures, where none is part of a feature: most often one was meant."""
        read = {name for formula in self._formulas(spec)[0] if formula is not None for name in formula.names}
        for name in self.figures if self.features and not read & set(self.figures) else ():
            if name not in read:
                yield Finding(("figures", name), f"figure {name}", "a figure that one of the features names")

    def _formulas(self, spec: StreamSpec) -> tuple[list[Formula | None], list[Finding]]:
        known = self.known_in(spec)
        found = [check(text, known, ("features", name), wanted="value") for name, text in (self.features or {}).items()]
        findings = [finding for each in found if not isinstance(each, Formula) for finding in each]
        return [each if isinstance(each, Formula) else None for each in found], findings

    def verdict(self, spec: StreamSpec) -> FormulaPredicate:
        """The score of the features, held against the line."""
        features, findings = self._formulas(spec)
        known = tuple(each for each in features if each is not None)
        if findings or len(known) < len(features):
            raise ValueError(f"{self.rule_id} does not fit its stream: {findings}")
        score = Name(SCORE, "number")
        line = Constant(self.threshold, "integer" if isinstance(self.threshold, int) else "number")
        when = Formula(self.formulas_of()[0], Compare((score, line), (self.operator,)))
        return FormulaPredicate(self.own_figures, when, Formula("score", score), scored=Scored(self._scorer, known))

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:
        """As of figures and a formula; its alerts cite the model."""
        from crossline.basics.models.model import ModelError  # noqa: PLC0415 - as above

        made = super().program(spec, defaults)
        try:
            version = self._model.version
        except ModelError:
            version = "unknown"
        notes = zip(_NOTES, (self.model, version, self._model.digest), strict=True)
        return replace(made, evidence=Evidence(notes=tuple(notes)))

    def placeholder_names(self, spec: StreamSpec | None) -> Collection[str] | None:
        """What features read, the fields of the key, the model, and what every alert has."""
        names = super().placeholder_names(spec)
        return None if names is None else (*names, *_NOTES)

    def in_words(self, value: float | None, read: Mapping[str, Any], by: str = "") -> str:  # noqa: ARG002 - the score is in the sentence
        """``score 0.93 by card c1 by card-fraud-3.onnx``."""
        return f"score {number(value)}{by} by {self.model}"
