"""What is read of a query, and how JSON is answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import Request
from starlette.responses import Response

from crossline.basics.texts.problems import nearest, one_of, shown
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.serve.http.problems import invalid

KEY = "key."
KEYS_MAX = 8
VALUE_CHARS = 1_000


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """``value`` as it stands in stores and topics: numbers keep their digits."""
    return Response(json_bytes(value), status, headers, "application/json")


def only_known(request: Request, *prefixes: str) -> None:
    """Refuse a parameter that the route does not have: a filter with a slip of the pen would else be none.

    Raises ProblemError (422). ``prefixes``: what other parameters may begin with.
    """
    dependant = getattr(request.scope.get("route"), "dependant", None)
    known = set(_parameters(dependant))
    for name in request.query_params:
        if name not in known and not name.startswith(prefixes):
            more = (*sorted(known), *(f"{each}FIELD" for each in prefixes))
            expected = one_of(more, 30) if more else "no parameter"
            raise invalid(f"?{name}", f"the parameter {shown(name)}", expected, nearest(name, known))
    for name, value in request.query_params.multi_items():
        if not name.startswith(KEY) and len(request.query_params.getlist(name)) > 1:
            raise invalid(f"?{name}", f"{shown(name)} several times", "it once")
        if len(value) > VALUE_CHARS or "\0" in value:
            raise invalid(f"?{name}", shown(value), f"at most {VALUE_CHARS:,} characters, without a NUL")


def _parameters(dependant: Any) -> Iterator[str]:
    """The parameters of a route, and of what it depends on."""
    yield from (each.alias for each in getattr(dependant, "query_params", ()))
    for each in getattr(dependant, "dependencies", ()):
        yield from _parameters(each)


def keys_in(request: Request) -> dict[str, str]:
    """The filters ``key.FIELD=VALUE``. Raises ProblemError for one without a field, and for too many."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name.startswith(KEY):
            field = name.removeprefix(KEY)
            if not field:
                raise invalid(f"?{name}", "no field", "key.FIELD=VALUE, for example key.account_id=a1")
            if found.setdefault(field, value) != value:
                raise invalid(f"?{name}", f"{shown(found[field])} and {shown(value)}", "one value for each field")
    if len(found) > KEYS_MAX:
        raise invalid("?key.", f"{len(found)} fields", f"at most {KEYS_MAX}")
    return found
