"""RFC 9457 problems: what an error looks like over HTTP. Their texts are those of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from crossline.basics.errors import CrosslineError, PermanentError, RetryableError, StateError, UsageError
from crossline.basics.texts.plaintext import printable, printable_lines
from crossline.basics.texts.problems import PROBLEMS_SHOWN, RefusedError, cut, shown
from crossline.logs import get_logger
from crossline.serve.fault_log import TellableError, noted, with_fault

MEDIA_TYPE = "application/problem+json"
# A problem names its kind: by it a program distinguishes one 409 from another.
KINDS = "urn:crossline:problem:"
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_RETRY_S = 1
_DETAIL_CHARS = 20_000

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a request. ``pointer``: a JSON pointer into its body, or ``?NAME`` of its query."""

    pointer: str
    found: str
    expected: str
    hint: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """As the API returns it; what does not print is written out."""
        hint = None if self.hint is None else printable(self.hint)
        found, expected = printable(cut(self.found)), printable(cut(self.expected))
        return {"pointer": printable(cut(self.pointer)), "found": found, "expected": expected, "hint": hint}


class ProblemError(Exception):
    """Ends a request with a problem.

    ``status``: of HTTP. ``kind``: the kind of problem, such as ``not-found``. ``detail``: what was
    found, what was expected, what to do. ``errors``: each thing that is wrong.

    >>> ProblemError(404, "not-found", "there is no alert 11aa").to_json()["title"]
    'Not Found'
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        errors: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.errors, self.headers = tuple(errors), dict(headers or {})

    def to_json(self) -> dict[str, Any]:
        """The body."""
        return {
            "type": f"{KINDS}{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": printable_lines(self.detail[:_DETAIL_CHARS]),
            "errors": [each.to_json() for each in self.errors],
        }

    def body(self) -> bytes:
        """Its JSON."""
        return orjson.dumps(self.to_json(), option=orjson.OPT_APPEND_NEWLINE)

    def response(self) -> Response:
        """The answer to the request."""
        return Response(self.body(), self.status, self.headers, MEDIA_TYPE)


_KIND_OF = {
    400: "malformed",
    401: "no-credential",
    403: "not-allowed",
    405: "method",
    408: "too-slow",
    413: "too-large",
    429: "too-many",
    431: "too-large",
    500: "fault",
    503: "try-again",
}


def refusal(status: int, detail: str, *, headers: Mapping[str, str] | None = None) -> ProblemError:
    """A problem whose kind follows from its status: of what is refused before any route sees it."""
    return ProblemError(status, _KIND_OF.get(status, "http"), detail, headers=headers)


def not_allowed() -> ProblemError:
    """The one answer to what is not there and to what may not be seen: they look the same."""
    return refusal(
        403,
        "found nothing at this address that this credential may see or do; expected an address of the API, and a "
        "credential with the scope that it needs (docs/access.md lists both)",
    )


def wrong_method(found: str, allowed: Sequence[str]) -> ProblemError:
    """The address is there, by the methods ``allowed``."""
    detail = f"found the method {cut(found)}; expected one that this address supports: {', '.join(allowed)}"
    return refusal(405, detail, headers={"Allow": ", ".join(allowed)})


def not_found(what: str, hint: str | None = None) -> ProblemError:
    """There is no such thing, or the caller may not know that there is."""
    return ProblemError(404, "not-found", f"found no {what}" + (f"; {hint}" if hint else ""))


def invalid(pointer: str, found: str, expected: str, hint: str | None = None, status: int = 422) -> ProblemError:
    """One thing is wrong with a request."""
    detail = f"{pointer}: found {found}; expected {expected}" + (f"; {hint}" if hint else "")
    return ProblemError(status, "invalid", detail, [Fault(pointer, found, expected, hint)])


def conflict(detail: str, kind: str = "conflict") -> ProblemError:
    """What stands there does not allow it."""
    return ProblemError(409, kind, detail)


def problem_of(error: Exception) -> ProblemError:
    """The problem that an exception is; an internal error is logged, and answered without its text."""
    match error:
        case ProblemError():
            return error
        case RequestValidationError():
            return _of_request(error)
        case HTTPException():
            return _of_http(error)
        case CrosslineError():
            return _of_crossline(error)
        case _:
            fault = noted("a request could not be answered", error)
            log.error("this is why a request could not be answered", fault=fault, exc_info=error)
            return ProblemError(500, "fault", with_fault("this is a fault of crossline: please report it", fault))


def install(app: Starlette) -> None:
    """Have every error of the app's routes (of Starlette or FastAPI) end as a problem."""

    async def handle(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette hands it in
        return problem_of(error).response()

    async def client_gone(request: Request, error: Exception) -> Response:  # noqa: ARG001 - as above
        return refusal(400, "the client went away").response()  # the client does not read it, and it is no fault

    app.add_exception_handler(ClientDisconnect, client_gone)
    for kind in (ProblemError, RequestValidationError, HTTPException, CrosslineError, Exception):
        app.add_exception_handler(kind, handle)


def pointer_of(path: str) -> str:
    """A place as reports of the command line name it, as a JSON pointer.

    >>> pointer_of("[2].conditions[0].field")
    '/2/conditions/0/field'
    """
    return "".join(f"/{number or name}" for number, name in _STEP.findall(path))


def _of_crossline(error: CrosslineError) -> ProblemError:
    match error:
        case RefusedError():
            faults = [
                Fault(pointer_of(each.path), each.found, each.expected, each.hint)
                for each in error.problems[:PROBLEMS_SHOWN]
            ]
            return ProblemError(422, "refused", str(error), faults)
        case UsageError():
            return ProblemError(400, "wrong-use", str(error))
        case StateError():
            fault = noted("a request met a state that cannot be read", error)
            return ProblemError(500, "state", with_fault("what is kept of this cannot be read", fault))
        case PermanentError():
            return ProblemError(409, "conflict", str(error))
        case RetryableError():
            after_s = _RETRY_S if error.retry_after_ms is None else max(1, -(-error.retry_after_ms // 1000))
            text = str(error)
            if not isinstance(error, TellableError):
                fault = noted("a request could not be answered now", error)
                text = with_fault("it cannot be done now; send it again later", fault)
            return ProblemError(503, "try-again", text, headers={"Retry-After": str(after_s)})
        case _:
            text = with_fault("the server ends; send it again later", noted("a request was stopped", error))
            return ProblemError(503, "stopped", text, headers={"Retry-After": str(_RETRY_S)})


def _of_http(error: HTTPException) -> ProblemError:
    kinds = {404: "not-found", 405: "method", 413: "too-large", 400: "malformed"}
    body = {404: "there is nothing at this address: GET /v1/openapi.json names what there is"}
    kind = kinds.get(error.status_code, "http")
    return ProblemError(
        error.status_code, kind, body.get(error.status_code, str(error.detail)), headers=error.headers or {}
    )


def _of_request(error: RequestValidationError) -> ProblemError:
    faults = [_fault(each) for each in error.errors()]
    text = "; ".join(f"{each.pointer}: found {each.found}, expected {each.expected}" for each in faults[:3])
    more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
    return ProblemError(422, "invalid", text + more, faults)


def _fault(error: Mapping[str, Any]) -> Fault:
    where, *rest = error["loc"]
    if error["type"] == "json_invalid":
        return Fault("", "a body that is no JSON", "a JSON value in UTF-8", str(error.get("ctx", {}).get("error", "")))
    steps = "/".join(str(each).replace("~", "~0").replace("/", "~1") for each in rest)
    pointer = {"body": f"/{steps}" if rest else "", "query": f"?{steps}", "header": f"header {steps}"}.get(where, steps)
    missing = error["type"] == "missing"
    found = "nothing" if missing else shown(error.get("input"))
    message = str(error["msg"])
    expected = "a value" if missing else message[:1].lower() + message[1:]
    return Fault(pointer, found, expected)
