"""Conditions on rows of the lake, as Iceberg plans files by them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression


def between(column: str, start_ms: int | None, end_ms: int | None) -> BooleanExpression:
    """Instants from ``start_ms`` up to and including ``end_ms``, in epoch milliseconds; None: without a bound."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    parts: list[Any] = []
    if start_ms is not None:
        parts.append(_made(expressions.GreaterThanOrEqual, column, instant_literal(start_ms)))
    if end_ms is not None:
        parts.append(_made(expressions.LessThanOrEqual, column, instant_literal(end_ms)))
    return all_of(parts)


def before(column: str, end_ms: int) -> BooleanExpression:
    """Instants before ``end_ms``, in epoch milliseconds."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    return _made(expressions.LessThan, column, instant_literal(end_ms))


def equal(column: str, value: str | int | bool) -> BooleanExpression:
    """Rows with this value."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    return _made(expressions.EqualTo, column, value)


def not_equal(column: str, value: str | int | bool) -> BooleanExpression:
    """Rows with another value."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    return _made(expressions.NotEqualTo, column, value)


def at_least(column: str, value: int) -> BooleanExpression:
    """Rows with this number or a higher one."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    return _made(expressions.GreaterThanOrEqual, column, value)


def below(column: str, value: int) -> BooleanExpression:
    """Rows with a lower number than this."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    return _made(expressions.LessThan, column, value)


def is_null(column: str) -> BooleanExpression:
    """Rows without a value."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    return _made(expressions.IsNull, column)


def one_of(column: str, values: Iterable[str | int]) -> BooleanExpression:
    """Rows with one of these values."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    return _made(expressions.In, column, set(values))


def none_of(column: str, values: Iterable[str | int]) -> BooleanExpression:
    """Rows with another value than these."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    return _made(expressions.NotIn, column, set(values))


def starts_with(column: str, text: str) -> BooleanExpression:
    """Rows whose value begins with ``text``."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    return _made(expressions.StartsWith, column, text)


def any_of(parts: Iterable[BooleanExpression]) -> BooleanExpression:
    """Rows for which one condition holds at least; without a condition, none."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    found: BooleanExpression = expressions.AlwaysFalse()
    for part in parts:
        found = _made(expressions.Or, found, part)
    return found


def all_of(parts: Iterable[BooleanExpression]) -> BooleanExpression:
    """Rows for which all conditions hold; without a condition, all rows."""
    from pyiceberg import expressions  # noqa: PLC0415 - an extra

    found: BooleanExpression = expressions.AlwaysTrue()
    for part in parts:
        found = _made(expressions.And, found, part)
    return found


def instant_literal(ms: int) -> str:
    """Epoch milliseconds as Iceberg reads an instant."""
    seconds, rest = divmod(ms, 1_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1_000).isoformat()


def _made(kind: Any, *given: Any) -> BooleanExpression:
    """The library's expressions are models whose types its own constructors do not have."""
    found: BooleanExpression = kind(*given)
    return found
