"""What pydantic found wrong, in our own words."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from crossline.basics.texts.problems import Finding, Path, nearest, one_of, path_text, shown


def refusal(expected: str, hint: str | None = None, found: str | None = None) -> PydanticCustomError:
    """The error that a field's validator raises: what was ``expected``; what was found is the input unless given."""
    return PydanticCustomError("refused", "expected {expected}", {"expected": expected, "hint": hint, "found": found})


def refusals(findings: Sequence[Finding]) -> PydanticCustomError:
    """The error that a model's validator raises for ``findings``, all at once."""
    text = "; ".join(f"{path_text(each.path)}: found {each.found}, expected {each.expected}" for each in findings)
    return PydanticCustomError("findings", "{text}", {"text": text, "findings": tuple(findings)})


def findings_from_validation(error: ValidationError, model: type[BaseModel]) -> list[Finding]:
    """Every error that pydantic found, in our own words; a misspelt field is not reported as missing too."""
    findings = [finding for details in error.errors(include_url=False) for finding in _findings(details, model)]
    meant = {(*each.path[:-1], each.hint) for each in findings if each.hint}
    return [each for each in findings if each.found != _NOTHING or (*each.path[:-1], _did_you_mean(each)) not in meant]


_NOTHING = "nothing"
_DIGITS = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_ITEMS = re.compile(r"\w+ should have (at (?:least|most) \d+ items?) after validation, not \d+", re.ASCII)


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
            own = getattr(model, "meant_by", {}) if len(path) == 1 else {}
            hint = own.get(path[-1]) or nearest(path[-1], names)
            expected = "a known one" if hint and len(names) > 12 else one_of(names, 40)
            return [Finding(path, f"unknown field {path[-1]}", expected, hint)]
        case "missing":
            return [Finding(path, _NOTHING, f"field {path[-1]}, which is required")]
        case "literal_error":
            options = _literal_options(context["expected"])
            return [Finding(path, found, one_of(options), nearest(details["input"], options))]
        case _:
            return [
                Finding(path, found, _EXPECTED.get(kind) or _limits(details["msg"]), _plain(kind, details["input"]))
            ]


def _plain(kind: str, given: Any) -> str | None:
    """How a number is written that was given in quotes, or with a needless decimal point."""
    if kind in {"int_type", "float_type"} and isinstance(given, str) and _DIGITS.fullmatch(given):
        return f"without quotes: {given}"
    whole = kind in {"int_type", "int_from_float"} and isinstance(given, float) and given.is_integer()
    return f"without the point: {int(given)}" if whole else None


def _limits(message: str) -> str:
    lowered = message[:1].lower() + message[1:]
    items = _ITEMS.fullmatch(lowered)
    if items is not None:
        return items[1]
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
    return [info.alias or name for name, info in current.model_fields.items()] if is_model(current) else []


def is_model(annotation: Any) -> bool:
    """Whether ``annotation`` is a model itself."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _step(annotation: Any, step: str | int) -> Any:
    if is_model(annotation):
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
