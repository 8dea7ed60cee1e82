"""What the parts of the rule editor show: faults, what was filled in, curves, samples, trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from crossline.analysis.forms.values import RuleForm, TypeChange
from crossline.serve.console.layout.moments import Moment


@dataclass(frozen=True, slots=True)
class TextFault:
    """What is wrong with a text: in the command line's own words."""

    line: int
    path: str
    found: str
    expected: str
    hint: str
    warning: bool


@dataclass(frozen=True, slots=True)
class CheckPart:
    """What a text means, or what is wrong with it. ``changed``: lines that differ from the version ``against``."""

    TEMPLATE: ClassVar[str] = "pages/rules/check.html"
    faults: tuple[TextFault, ...]
    caption: str
    ok: bool
    differs: int
    against: int
    changed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FilledPart:
    """A text as a form, or a threshold, made it, and what it means. ``wrong``: why it is as it was.

    ``wrongs``: what is wrong, by its place in the form; ``turn``: the type that was chosen, and not yet given.
    """

    TEMPLATE: ClassVar[str] = "pages/rules/filled.html"
    text: str
    form: RuleForm | None
    wrongs: Mapping[str, str]
    turn: TypeChange | None
    wrong: str
    faults: tuple[TextFault, ...]
    caption: str
    ok: bool
    differs: int
    against: int
    changed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CurveRow:
    """A threshold, what it gives, and where it stands in each drawing (pixels)."""

    threshold: str
    per_day: str
    found: str
    good: str
    places: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """What other thresholds would give. ``at``: the row of the draft; ``before``, ``after``: a step down and up."""

    job_id: str
    state: str
    caption: str
    share: float
    error: str
    named: str
    rows: tuple[CurveRow, ...] = ()
    at: int = 0
    live: str = ""
    before: str = ""
    after: str = ""
    drawings: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class CurvePart:
    """The thresholds alone, as they are computed."""

    TEMPLATE: ClassVar[str] = "pages/rules/curve.html"
    curve: Curve
    nonce: str


@dataclass(frozen=True, slots=True)
class SampleRow:
    """A record of a sample at which the rule fired, or nearly did. ``entities``: value and address."""

    record_id: str
    entities: tuple[tuple[str, str], ...]
    caption: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A trial on a sample."""

    job_id: str
    state: str
    error: str
    alerts: int
    first: tuple[SampleRow, ...]
    near: tuple[SampleRow, ...]


@dataclass(frozen=True, slots=True)
class SamplePart:
    """The trial alone, as it goes on."""

    TEMPLATE: ClassVar[str] = "pages/rules/sample.html"
    sample: Sample
    nonce: str


@dataclass(frozen=True, slots=True)
class AlertChange:
    """An alert that appears or disappears."""

    record_id: str
    at: str
    message: str


@dataclass(frozen=True, slots=True)
class BlastRow:
    """A fraud that is missed, or a good customer that is met. ``entities``: value and address; ``by``: how near."""

    record_id: str
    entities: tuple[tuple[str, str], ...]
    caption: str
    by: str


@dataclass(frozen=True, slots=True)
class Blasted:
    """The nearest of each, of how many."""

    missed: tuple[BlastRow, ...]
    missed_count: int
    met: tuple[BlastRow, ...]
    met_count: int


@dataclass(frozen=True, slots=True)
class TrialFigure:
    """A figure of a trial beside that of the live version. ``grade``: better (ok), worse (high), or neither."""

    name: str
    value: str
    small: str
    was: str
    grade: str


@dataclass(frozen=True, slots=True)
class TrialView:
    """A backtest. ``share``: how far it is, from 0 to 1; ``left``: how long it takes still.

    ``proof``: rows for the proof, where it is done.
    """

    job_id: str
    state: str
    caption: str
    share: float
    left: str
    error: str
    past: str
    figures: tuple[TrialFigure, ...]
    against: int
    appear: int
    disappear: int
    both: int
    appearing: tuple[AlertChange, ...]
    disappearing: tuple[AlertChange, ...]
    proof: tuple[tuple[str, str, str], ...]
    predicted: str
    blast: Blasted | None


@dataclass(frozen=True, slots=True)
class GoingOn:
    """A backtest of who looks that is not over. ``far``: how far it is."""

    job_id: str
    since: Moment
    far: str


@dataclass(frozen=True, slots=True)
class TrialPart:
    """The trial alone, as it goes on."""

    TEMPLATE: ClassVar[str] = "pages/rules/trial.html"
    trial: TrialView
    nonce: str
