"""Pages of lists: an opaque cursor names the start of the next one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import orjson
from fastapi import Query

from crossline.basics.times import format_instant, parse_instant_ms
from crossline.serve.http.problems import ProblemError, invalid

LIMIT_MAX = 500
LIMIT_DEFAULT = 50
CURSOR_CHARS = 1_000

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="The most entries of a page.")]
Cursor = Annotated[
    str | None,
    Query(max_length=CURSOR_CHARS, description="`next_cursor` of the page before; the filters must be the same."),
]


def cursor_of(place: Sequence[str | int], of: str) -> str:
    """``place`` as opaque text. ``of``: the query of the list; the cursor is valid only for it.

    >>> place_of(cursor_of(["2026-01-01T00:00:00.000Z", 7], "alerts"), "alerts")
    ['2026-01-01T00:00:00.000Z', 7]
    """
    return base64.urlsafe_b64encode(orjson.dumps([of, *place])).decode().rstrip("=")


def place_of(cursor: str, of: str, fits: Callable[[list[Any]], bool] = lambda _: True) -> list[Any]:
    """Inverse of ``cursor_of``. Raises ProblemError (400) for one that was not made here, or for another list."""
    try:
        whole = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (ValueError, binascii.Error):
        whole = None
    if not isinstance(whole, list) or not whole or not fits(whole[1:]):
        raise invalid("?cursor", "no cursor of this API", "next_cursor of the page before, as it was", status=400)
    if whole[0] != of:
        raise ProblemError(
            400, "invalid", "?cursor: found the cursor of another list; expected one of a list with the same filters"
        )
    return whole[1:]


def mark_fits(place: list[Any]) -> bool:
    """Whether it is a mark of a store: an event time, and a number."""
    if len(place) != 2 or not isinstance(place[0], str) or type(place[1]) is not int:
        return False
    try:
        return place[0] == format_instant(parse_instant_ms(place[0])) and 0 <= place[1] < 2**63
    except (ValueError, OverflowError):
        return False


def page(items: Sequence[Any], next_cursor: str | None) -> dict[str, Any]:
    """A page as the API returns it."""
    return {"items": list(items), "next_cursor": next_cursor}
