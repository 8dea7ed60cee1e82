"""Problems in a file that a person wrote: where, what was found, what was expected, and the nearest valid name."""

from __future__ import annotations

import difflib
import json
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from crossline.core.errors import UsageError

if TYPE_CHECKING:
    from crossline.core.yamltext import Document

Path = tuple[str | int, ...]

SNIPPET_WIDTH = 110
_VALUE_WIDTH = 60
# What a message takes over from a file: names in it may be as long as the file.
_SAID_WIDTH = 1_000
_NAME_WIDTH = 100
PROBLEMS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem before its place is known: ``path`` from the top of the rule (or file) to the value."""

    path: Path
    found: str
    expected: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem at its place. ``line`` counts from 1; ``path`` reads like ``[2].conditions[0].field``."""

    source: str
    line: int
    path: str
    found: str
    expected: str
    hint: str | None = None
    snippet: str = ""

    def render(self) -> str:
        """The problem in two to four lines."""
        lines = [f"{self.source}:{self.line}: {self.path}".rstrip(": ")]
        if self.snippet:
            lines.append(f"{self.line:>6} | {self.snippet}")
        lines.append(f"  found {self.found}; expected {self.expected}")
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


class RefusedError(UsageError):
    """What was written is refused. ``problems`` has all that is wrong with it; the message is the rendered report.

    ``faults``: exceptions of the checks themselves, which are ours and belong into a log.
    """

    def __init__(self, problems: Sequence[Problem], faults: Sequence[Exception] = ()) -> None:
        super().__init__(render(problems))
        self.problems = tuple(problems)
        self.faults = tuple(faults)

    def __reduce__(self) -> tuple[type[RefusedError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


@dataclass
class Report:
    """Collects the problems of one file, so that a person meets all of them at once."""

    document: Document
    problems: list[Problem] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)

    def add(self, path: Path, found: str, expected: str, hint: str | None = None) -> None:
        """Note a problem at ``path`` of the document."""
        self.take(Finding(path, found, expected, hint))

    def take(self, finding: Finding, base: Path = ()) -> None:
        """Note ``finding``, whose path starts at ``base`` of the document."""
        self.problems.append(place(finding, self.document, base))

    def raise_if_any(self) -> None:
        """Raise RefusedError with all problems, in the order of the file; nothing where there are none."""
        if self.problems:
            raise RefusedError(sorted(self.problems, key=lambda problem: problem.line), self.faults)

    def fault(self, base: Path, error: Exception) -> None:
        """Note that checking what stands at ``base`` ended in ``error``, which no check may raise."""
        self.faults.append(error)
        self.take(fault_finding(error), base)


def place(finding: Finding, document: Document, base: Path = ()) -> Problem:
    """``finding`` as a problem of ``document``, its path starting at ``base``."""
    path = (*base, *finding.path)
    line, _ = document.position(path)
    return Problem(
        document.source,
        line,
        _cut_inside(path_text(path)),
        cut(finding.found),
        cut(finding.expected),
        cut(finding.hint) if finding.hint else None,
        document.snippet(path),
    )


def fault_finding(error: Exception) -> Finding:
    """What to say of a file or rule on which a check ended in ``error``."""
    found = f"what the check of it does not cope with ({type(error).__name__}: {error})"
    hint = "this is a fault of crossline, and the log has more: please report it with the file"
    return Finding((), found, "a rule that can be checked", hint)


def cut(text: str) -> str:
    """``text`` as far as a message takes it over from a file."""
    return text if len(text) <= _SAID_WIDTH else text[: _SAID_WIDTH - 1] + "…"


def render(problems: Sequence[Problem]) -> str:
    """``problems`` as text, a blank line between them, headed by their number where there are several.

    Of very many the first are told: the text goes to a screen, and into the rule log.
    """
    parts = [problem.render() for problem in problems[:PROBLEMS_SHOWN]]
    if len(problems) > 1:
        sources = sorted({problem.source for problem in problems})
        parts.insert(0, f"{len(problems)} problems in {listed(sources)}")
    if len(problems) > PROBLEMS_SHOWN:
        parts.append(f"and {len(problems) - PROBLEMS_SHOWN:,} more")
    return "\n\n".join(parts)


def _cut_inside(text: str) -> str:
    """``text`` with its end, which says what kind of field it is."""
    half = _SAID_WIDTH // 2
    return text if len(text) <= _SAID_WIDTH else f"{text[:half]}…{text[-half:]}"


def path_text(path: Path) -> str:
    """``("steps", 0, "name")`` as ``steps[0].name``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def shown(value: Any) -> str:
    """``value`` as JSON for a message, cut short."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        text = repr(value)
    return text if len(text) <= _VALUE_WIDTH else text[: _VALUE_WIDTH - 1] + "…"


def nearest(name: object, names: Iterable[str]) -> str | None:
    """``did you mean …?`` for the closest of ``names``; None where nothing is close."""
    if not isinstance(name, str | int | float) or len(str(name)) > _NAME_WIDTH:
        return None
    known = {known.lower(): known for known in names}
    close = difflib.get_close_matches(str(name).lower(), list(known), n=1, cutoff=0.6)
    return f"did you mean {known[close[0]]}?" if close else None


def one_of(names: Iterable[str], limit: int = 12) -> str:
    """``one of a, b, c``, cut after ``limit`` names."""
    known = list(names)
    return ("one of " if len(known) > 1 else "") + listed(known, limit)


def listed(names: Sequence[str], limit: int = 12) -> str:
    """``a, b, c``, cut after ``limit`` names."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def crop(lines: Sequence[str], line: int, column: int) -> str:
    """Number ``line`` of ``lines``, cut to a readable width around ``column``."""
    whole = lines[line - 1].rstrip() if 0 < line <= len(lines) else ""
    if len(whole) <= SNIPPET_WIDTH:
        return whole
    start = max(0, min(column - 21, len(whole) - SNIPPET_WIDTH))
    end = start + SNIPPET_WIDTH
    return ("…" if start else "") + whole[start:end] + ("…" if end < len(whole) else "")


def refusal(expected: str, hint: str | None = None, found: str | None = None) -> PydanticCustomError:
    """The error that a field's validator raises: what was ``expected``; what was found is the input unless given."""
    return PydanticCustomError("refused", "expected {expected}", {"expected": expected, "hint": hint, "found": found})


def refusals(findings: Sequence[Finding]) -> PydanticCustomError:
    """The error that a model's validator raises for ``findings``, all at once."""
    text = "; ".join(f"{path_text(each.path)}: found {each.found}, expected {each.expected}" for each in findings)
    return PydanticCustomError("findings", "{text}", {"text": text, "findings": tuple(findings)})


def problems_from_validation(
    error: ValidationError, document: Document, model: type[BaseModel], base: Path = ()
) -> list[Problem]:
    """Every error that pydantic found, as problems of ``document``; ``base`` is where the validated value stands."""
    return [place(finding, document, base) for finding in findings_from_validation(error, model)]


def findings_from_validation(error: ValidationError, model: type[BaseModel]) -> list[Finding]:
    """Every error that pydantic found, told in our own words; what is only misspelt is not told as missing too."""
    findings = [finding for details in error.errors(include_url=False) for finding in _findings(details, model)]
    meant = {(*each.path[:-1], each.hint) for each in findings if each.hint}
    return [each for each in findings if each.found != _NOTHING or (*each.path[:-1], _did_you_mean(each)) not in meant]


_NOTHING = "nothing"


def _did_you_mean(missing: Finding) -> str:
    return f"did you mean {missing.path[-1]}?" if missing.path else ""


_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of names to values",
    "list_type": "a list",
    "tuple_type": "a list",
}


def _findings(details: ErrorDetails, model: type[BaseModel]) -> list[Finding]:
    path, context, kind = details["loc"], details.get("ctx", {}), details["type"]
    found = shown(details["input"])
    match kind:
        case "findings":
            return [Finding((*path, *each.path), each.found, each.expected, each.hint) for each in context["findings"]]
        case "refused":
            return [Finding(path, context["found"] or found, context["expected"], context["hint"])]
        case "extra_forbidden":
            names = field_names(model, path[:-1])
            hint = nearest(path[-1], names)
            expected = "a known one" if hint and len(names) > 12 else one_of(names, 40)
            return [Finding(path, f"unknown field {path[-1]}", expected, hint)]
        case "missing":
            return [Finding(path, _NOTHING, f"field {path[-1]}, which is required")]
        case "literal_error":
            options = _literal_options(context["expected"])
            return [Finding(path, found, one_of(options), nearest(details["input"], options))]
        case _:
            return [Finding(path, found, _EXPECTED.get(kind) or _limits(details["msg"]))]


def _limits(message: str) -> str:
    lowered = message[:1].lower() + message[1:]
    for prefix in ("input should be ", "string should ", "value error, "):
        lowered = lowered.removeprefix(prefix)
    return lowered


def _literal_options(expected: str) -> list[str]:
    return [option.strip("'") for option in expected.replace(" or ", ", ").split(", ")]


def field_names(model: type[BaseModel], path: Path) -> list[str]:
    """The fields that may stand at ``path`` below ``model``."""
    current: Any = model
    for step in path:
        current = _step(current, step)
    return [info.alias or name for name, info in current.model_fields.items()] if _is_model(current) else []


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _step(annotation: Any, step: str | int) -> Any:
    if _is_model(annotation):
        for name, info in annotation.model_fields.items():
            if (info.alias or name) == step:
                return _bare(info.annotation)
        return None
    arguments = typing.get_args(annotation)
    return _bare(arguments[-1 if isinstance(step, str) else 0]) if arguments else None


def _bare(annotation: Any) -> Any:
    """The annotation without Annotated and without None."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif origin in {typing.Union, types.UnionType}:
            kept = [each for each in typing.get_args(annotation) if each is not type(None)]
            if len(kept) != 1:
                return annotation
            annotation = kept[0]
        else:
            return annotation
