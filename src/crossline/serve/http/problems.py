"""What the API says where it cannot do as it was asked: RFC 9457, with the command line's own texts.

{"type": "about:blank", "title": "Not valid", "status": 422, "detail": "…",
 "errors": [{"pointer": "/steps/0/name", "found": "…", "expected": "…", "hint": "…"}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson

from crossline.core.basics.errors import (
    CrosslineError,
    RetryableError,
    StateError,
    StoppedError,
    UsageError,
)
from crossline.core.texts.problems import PROBLEMS_SHOWN, Finding, Path, Problem, RefusedError, cut
from crossline.logs import get_logger

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
_STEP = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")
_RETRY_AFTER_S = 1
log = get_logger(__name__)


@dataclass(eq=False)
class ProblemError(Exception):
    """Raised by a route; the client gets it as the answer.

    ``errors``: what is wrong, each with ``pointer`` (RFC 6901, into the body), ``found``, ``expected`` and, where there
    is one, ``hint``. ``headers``: to send beside it.

    Example:
        >>> ProblemError(409, "the id stands for another record").to_json()["title"]
        'Conflict'
    """

    status: int
    detail: str
    title: str = ""
    type: str = "about:blank"
    errors: Sequence[Mapping[str, Any]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the API says it."""
        said: dict[str, Any] = {
            "type": self.type,
            "title": self.title or HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            said["errors"] = [dict(each) for each in self.errors]
        return said

    def body(self) -> bytes:
        """Its JSON. What no UTF-8 can say (half a surrogate pair) is written out."""
        try:
            return orjson.dumps(self.to_json())
        except TypeError:
            return orjson.dumps(_sayable(self.to_json()))

    def response(self) -> Response:
        """As an answer of Starlette or FastAPI."""
        from starlette.responses import Response  # noqa: PLC0415 - the command line makes problems without a server

        return Response(self.body(), self.status, dict(self.headers), MEDIA_TYPE)

    def __str__(self) -> str:
        return self.detail


def error_entry(found: str, expected: str, hint: str | None = None, path: Path = ()) -> dict[str, str]:
    """An item of ``errors``."""
    said = {"pointer": pointer(path), "found": found, "expected": expected}
    return {**said, "hint": hint} if hint else said


def pointer(path: Path) -> str:
    """``("steps", 0, "a/b")`` as the JSON pointer ``/steps/0/a~1b``; the whole body is the empty text."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def path_of(text: str) -> Path:
    """``steps[0].name`` (of a ``Problem``) as the path that it was made of, for names without dots and brackets."""
    return tuple(int(number) if number else name for number, name in _STEP.findall(text))


def from_findings(findings: Iterable[Finding], detail: str, status: int = 422) -> ProblemError:
    """A problem of what a check of the body found.

    Example:
        >>> from_findings([Finding(("until",), "-1", "a time")], "the hold is refused").errors[0]["pointer"]
        '/until'
    """
    errors = [error_entry(cut(each.found), each.expected, each.hint, each.path) for each in findings]
    return ProblemError(status, _counted(detail, len(errors)), "Not valid", errors=errors[:PROBLEMS_SHOWN])


def from_problems(problems: Sequence[Problem], status: int = 422) -> ProblemError:
    """A problem of what the command line would print as a report: rules, lists, streams."""
    errors = []
    for each in problems[:PROBLEMS_SHOWN]:
        at = {"line": each.line} if each.line else {}
        errors.append({**error_entry(cut(each.found), each.expected, each.hint, path_of(each.path)), **at})
    first = problems[0] if problems else None
    said = "what was sent is refused" if first is None else f"found {cut(first.found)}; expected {first.expected}"
    return ProblemError(status, _counted(said, len(problems)), "Not valid", errors=errors)


def problem_of(error: BaseException) -> ProblemError:
    """The problem that an exception is told as.

    What was refused is 422 with each reason, other wrong input 422, wrong use 400, what may work later 503 with
    ``Retry-After``, damaged state 500. An error that is none of ours is 500 and says nothing of itself: its text may
    hold anything, and is logged.
    """
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, RefusedError):
        return from_problems(error.problems)
    if isinstance(error, RetryableError | StoppedError):
        after_ms = getattr(error, "retry_after_ms", None)
        after_s = _RETRY_AFTER_S if after_ms is None else max(1, -(-after_ms // 1000))
        return ProblemError(503, cut(str(error)), headers={"Retry-After": str(after_s)})
    if isinstance(error, StateError) or not isinstance(error, CrosslineError):
        log.error("a request could not be answered", exc_info=error)
        return ProblemError(500, "found a fault within the API; expected none. Its log says which")
    return ProblemError(400 if isinstance(error, UsageError) else 422, cut(str(error)))


def not_allowed() -> ProblemError:
    """The one answer to what is not there and to what may not be seen: nobody learns which of both it is."""
    return ProblemError(
        403,
        "found nothing at this address that this credential may see or do; expected an address of the API, and a "
        "credential with the scope that it needs (docs/access.md lists both)",
        "Not allowed, or not there",
    )


def install_handlers(app: Starlette) -> None:
    """Have ``app`` (of Starlette or FastAPI) answer every error with a problem."""
    from starlette.exceptions import HTTPException  # noqa: PLC0415 - as above
    from starlette.requests import ClientDisconnect  # noqa: PLC0415 - as above

    def of_crossline(_: Request, error: Exception) -> Response:
        return problem_of(error).response()

    def of_http(_: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 500)
        said = str(getattr(error, "detail", "") or HTTPStatus(status).phrase)
        return ProblemError(status, cut(said), headers=getattr(error, "headers", None) or {}).response()

    def of_validation(_: Request, error: Exception) -> Response:
        return _of_validation(getattr(error, "errors", list)()).response()

    def of_nobody(_: Request, __: Exception) -> Response:
        return ProblemError(400, "the client went away").response()  # nobody reads it, and it is no fault

    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(ClientDisconnect, of_nobody)
    for kind in (ProblemError, CrosslineError, Exception):
        app.add_exception_handler(kind, of_crossline)
    try:
        from fastapi.exceptions import RequestValidationError  # noqa: PLC0415 - only its apps raise it
    except ImportError:
        return
    app.add_exception_handler(RequestValidationError, of_validation)


def _of_validation(errors: Sequence[Mapping[str, Any]]) -> ProblemError:
    """What FastAPI found; the value itself is not repeated where it is long or no plain value."""
    entries = []
    for each in errors[:PROBLEMS_SHOWN]:
        where, *path = each.get("loc") or ("body",)
        value = each.get("input")
        plain = value is None or isinstance(value, str | int | float | bool)
        found = (
            f"{value!r}"[:100] if plain and each.get("type") != "missing" else "nothing" if plain else "another value"
        )
        if each.get("type") == "missing":
            found = "nothing"
        hint = None if where == "body" else f"in the {where} of the request"
        entries.append(error_entry(found, str(each.get("msg", "another value")), hint, tuple(path)))
    first = entries[0] if entries else error_entry("what was sent", "what the API describes")
    detail = f"found {first['found']}; expected {first['expected']}"
    return ProblemError(422, _counted(detail, len(errors)), "Not valid", errors=entries)


def _counted(detail: str, count: int) -> str:
    return detail if count <= 1 else f"{detail} ({count} problems)"


def _sayable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_sayable(key): _sayable(each) for key, each in value.items()}
    return [_sayable(each) for each in value] if isinstance(value, list | tuple) else value
