"""Entity tags: a change names the state that it applies to, and is refused if the state has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

import orjson

from crossline.serve.http.problems import ProblemError

ANY = "*"


def etag_of(value: Any) -> str:
    """The entity tag of a JSON value: equal for equal values, whatever the order of their names.

    >>> etag_of({"a": 1, "b": 2}) == etag_of({"b": 2, "a": 1})
    True
    """
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str)
    return f'"{hashlib.sha256(text).hexdigest()[:32]}"'


def check_match(if_match: str | None, current: str, what: str, more: Collection[str] = ()) -> None:
    """Raise ProblemError unless ``If-Match`` names the state ``current`` of ``what``; ``more``: its other names.

    428 where the header is missing, 412 where it names another state. ``*`` is whatever state there is.
    """
    if if_match is None:
        raise ProblemError(
            428,
            "precondition-required",
            f"found no If-Match; expected the ETag that GET answered for {what}, or * for whatever is there",
        )
    given = {each.strip().removeprefix("W/") for each in if_match.split(",")}
    if given.isdisjoint({ANY, current, *more}):
        raise ProblemError(
            412,
            "changed",
            f"{what} was changed meanwhile: found If-Match {if_match[:200]}, and its ETag is {current}; look at it "
            "again, and send the new ETag",
            headers={"ETag": current},
        )


def check_match_of_new(if_match: str | None, what: str) -> None:
    """Raise ProblemError (412) if a state is named, and there is no ``what`` at all."""
    if if_match is not None:
        raise ProblemError(412, "changed", f"found If-Match {if_match[:200]}, and there is no {what}")
