"""The numeric parameters of a rule: its thresholds, its windows, the values of its conditions."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from crossline.backtest.investigation.figure_bars import comparisons
from crossline.backtest.investigation.key_records import KeyRecord
from crossline.backtest.investigation.variant_runner import VariantRunner, rule_from_body
from crossline.basics.conditions.tree import ORDERING
from crossline.basics.formula.canonical import canonical
from crossline.basics.formula.tree import Constant, Node, walk
from crossline.basics.times import parse_duration_ms
from crossline.programs.program import FormulaPredicate
from crossline.programs.registry import declared
from crossline.rules.base import Rule

Kind = Literal["amount", "time", "window", "threshold", "condition", "record"]
Body = dict[str, Any]
BodyPath = tuple[str | int, ...]
_WINDOWS = ("window", "within")
_LINE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*(-?\d+(?:\.\d+)?)\s*", re.ASCII)
DECIMALS_MAX = 6


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number of a rule that can be changed.

    Attributes:
        kind: What kind of change it is.
        what: Its name for people.
        present: Its present value.
        step: The smallest change of it.
        unit: ``ms`` for durations, else the field that it is compared with, or "".
        with_value: Gives the rule with another number; None if that is no valid rule.
        field: Of a condition, the field that it tests.
        least: The smallest value.
    """

    kind: Kind
    what: str
    present: float
    step: Decimal
    unit: str
    with_value: Callable[[float], Rule | None]
    field: str = ""
    least: float = float("-inf")


def parameters_of(runner: VariantRunner, records: Sequence[KeyRecord]) -> list[Parameter]:
    """All parameters of a rule: thresholds first, then windows, then conditions."""
    body = runner.rule.canonical()
    found = [*_thresholds(runner, body, records), *_windows(body), *_conditions(body, records)]
    return [each for each in found if each.with_value(each.present) is not None]


def step_of(values: Sequence[Any]) -> Decimal:
    """The finest decimal place among the numbers: 1 for whole numbers, 0.01 for prices; at most six places."""
    places = 0
    for value in values:
        if isinstance(value, float) and value.is_integer() is False and abs(value) < 1e15:
            exponent = Decimal(repr(value)).as_tuple().exponent
            places = max(places, -exponent if isinstance(exponent, int) else 0)
    return Decimal(1).scaleb(-min(places, DECIMALS_MAX))


def plain(value: Decimal | float) -> float:
    """A number as people write it: whole ones as integers."""
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return int(number) if number == number.to_integral_value() else float(number)


def _at(body: Body, place: BodyPath) -> Any:
    found: Any = body
    for part in place:
        found = found[part]
    return found


def body_with(body: Mapping[str, Any], places: Sequence[BodyPath], value: Any) -> Body:
    """The body of a rule with ``value`` at each of the paths."""
    made = copy.deepcopy(dict(body))
    for place in places:
        into = _at(made, place[:-1])
        into[place[-1]] = value
    return made


def _windows(body: Body) -> Iterator[Parameter]:
    """The windows; windows of the same length are one parameter."""
    lengths: dict[int, list[BodyPath]] = {}
    for place in _places(body, lambda name, value: name in _WINDOWS and isinstance(value, str)):
        lengths.setdefault(parse_duration_ms(_at(body, place)), []).append(place)
    for length_ms, places in lengths.items():
        names = [str(place[1]) for place in places if len(place) == 3]
        what = "Window" if len(lengths) == 1 or not names else f"Window of {', '.join(names)}"
        yield Parameter(
            "window", what, length_ms, Decimal(1), "ms", _putter(body, places, lambda v: f"{int(v)}ms"), least=1
        )


def _conditions(body: Body, records: Sequence[KeyRecord]) -> Iterator[Parameter]:
    """The conditions that compare a number by order; the same condition in several figures is one parameter."""
    leaves: dict[tuple[str, str, float], list[BodyPath]] = {}
    for place in _places(body, lambda _, value: _is_leaf(value)):
        leaf = _at(body, place)
        leaves.setdefault((leaf["field"], leaf["operator"], leaf["value"]), []).append((*place, "value"))
    for (name, operator, value), places in leaves.items():
        end = "Smallest" if operator.startswith(">") else "Largest"
        step = step_of([value, *(each.value(name) for each in records)])
        yield Parameter("condition", f"{end} {name} that counts", value, step, name, _putter(body, places, plain), name)


def _is_leaf(value: Any) -> bool:
    """Whether it is a condition of a field. That of a correlation has no field; it is its threshold."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("field"), str)
        and value.get("operator") in ORDERING
        and isinstance(value.get("value"), int | float)
        and not isinstance(value.get("value"), bool)
    )


def _places(body: Any, wanted: Callable[[str, Any], bool], at: BodyPath = ()) -> Iterator[BodyPath]:
    pairs = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in pairs:
        if wanted(str(name), value):
            yield (*at, name)
        else:
            yield from _places(value, wanted, (*at, name))


def _putter(body: Body, places: Sequence[BodyPath], written: Callable[[float], Any]) -> Callable[[float], Rule | None]:
    return lambda value: rule_from_body(body_with(body, places, written(value)))


def _thresholds(runner: VariantRunner, body: Body, records: Sequence[KeyRecord]) -> Iterator[Parameter]:
    rule, program = runner.rule, runner.program()
    if program.verdict is None:
        return  # its thresholds are its conditions
    if rule.rule_type == "burst":
        yield from _of_cases(body)
    elif rule.rule_type == "geo_velocity":
        for name, what in (("max_speed_kmh", "Threshold of speed"), ("min_distance_km", "Smallest distance")):
            present = getattr(rule, name)
            yield Parameter("threshold", what, present, step_of([present]), "", _putter(body, [(name,)], plain))
    elif rule.rule_type == "formula" and program.formula is not None:
        yield from _of_formula(program.formula, body, records)
    else:
        drawn = rule.drawn(runner.spec)
        if drawn is not None:
            place = tuple(drawn.path)
            values = [each.value(str(getattr(rule, "aggregation_field", ""))) for each in records]
            counted = getattr(rule, "aggregation_type", None)
            whole = counted is not None and declared(counted).counts
            real = counted is None or declared(counted).gives == "number"
            step = Decimal(1) if whole else step_of([drawn.threshold, *values, *([0.01] if real else [])])
            with_value = _putter(body, [place], plain)
            yield Parameter(
                "threshold", f"Threshold of {drawn.named}", drawn.threshold, step, drawn.field or "", with_value
            )


def _of_cases(body: Body) -> Iterator[Parameter]:
    for number, case in enumerate(body["any_of"]):
        for name, text in case.items():
            found = _LINE.fullmatch(text)
            if found is None:
                continue
            operator, present = found[1], plain(Decimal(found[2]))
            step = Decimal(1) if declared(name).counts else step_of([present, 0.01])

            def written(value: float, operator: str = operator) -> str:
                return f"{operator} {Decimal(repr(value)):f}"

            with_value = _putter(body, [("any_of", number, name)], lambda v, w=written: w(plain(v)))  # type: ignore[misc]
            several = f", case {number + 1}" if len(body["any_of"]) > 1 else ""
            yield Parameter("threshold", f"Threshold of {name}{several}", present, step, "", with_value)


def _of_formula(verdict: FormulaPredicate, body: Body, records: Sequence[KeyRecord]) -> Iterator[Parameter]:
    """Each comparison with exactly one number on its right side."""
    text = verdict.when.text
    if text != body["when"]:
        return
    for left, operator, right in comparisons(verdict.when.root):
        numbers = [each for each in walk(right) if isinstance(each, Constant) and _is_number(each)]
        if len(numbers) != 1 or operator in {"==", "!="}:
            continue
        number = numbers[0]
        of = f"Threshold of {canonical(left)}" if number is right else f"Factor of {canonical(right)}"
        yield Parameter(
            "threshold", of, _value(number), _step(left, number, right, records), "", _in_text(body, number)
        )


def _is_number(node: Constant) -> bool:
    return isinstance(node.value, int | float) and not isinstance(node.value, bool) and node.span.end > node.span.start


def _value(number: Constant) -> float:
    return number.value  # type: ignore[return-value]


def _step(left: Node, number: Constant, right: Node, records: Sequence[KeyRecord]) -> Decimal:
    if number is right and left.kind == "integer":
        return Decimal(1)
    names = {name for each in records for name in each.fields}
    values = [each.value(name) for each in records for name in names] if left.kind == "number" else []
    floats = [each for each in values if isinstance(each, float)]
    return min(step_of([_value(number), 0.01]), step_of(floats) if floats else Decimal(1))


def _in_text(body: Body, number: Constant) -> Callable[[float], Rule | None]:
    text, span = body["when"], number.span

    def with_value(value: float) -> Rule | None:
        written = f"{Decimal(repr(plain(value))):f}"
        return rule_from_body({**body, "when": f"{text[: span.start]}{written}{text[span.end :]}"})

    return with_value
