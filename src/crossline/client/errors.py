"""What the client raises: one tree, with the texts of the server's problems (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from crossline.client.values import Finding

TEXT_MAX = 500


class ClientError(Exception):
    """Root of what the client raises."""


class UnreachableError(ClientError):
    """No answer in time: nothing listens, the connection broke, or the server answered 503 until the time was over.

    It is never raised for a decision, which the client's fallback answers.
    """


class BadAnswerError(ClientError):
    """What answered does not speak as the API does: a redirect, a page of a proxy, JSON of another form."""


class ApiError(ClientError):
    """The API refused the request. ``status``, ``title``, ``detail``, ``type`` and ``errors`` are its problem's."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after_s: float | None = None) -> None:
        self.status, self.problem = status, problem
        self.type = str(problem.get("type") or "about:blank")
        self.title = str(problem.get("title") or f"HTTP {status}")
        self.detail = str(problem.get("detail") or "")
        found = problem.get("errors")
        items = found if isinstance(found, list) else []
        self.errors = tuple(Finding.from_json(each) for each in items if isinstance(each, Mapping))
        self.retry_after_s = retry_after_s
        super().__init__("\n".join([f"{status} {self.title}: {self.detail}".rstrip(": "), *map(str, self.errors)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.problem, self.retry_after_s)


class CredentialError(ApiError):
    """401: no key, or one that is wrong, expired or revoked."""


class ForbiddenError(ApiError):
    """403: the key lacks the permission, or the named resource does not exist; the API does not reveal which."""


class NotFoundError(ApiError):
    """404: no such stream or resource."""


class ConflictError(ApiError):
    """409: this id was decided before, with another record."""


class PreconditionError(ApiError):
    """412 or 428: the resource has changed since it was read (``if_match``)."""


class TooLargeError(ApiError):
    """413: the record or the batch is larger than the API takes."""


class InvalidError(ApiError):
    """422: the record does not fit the stream, or the body its form; ``errors`` has each reason."""


class RateLimitedError(ApiError):
    """429: the key's rate limit is exceeded; try again after ``retry_after_s`` seconds."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: CredentialError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    412: PreconditionError,
    413: TooLargeError,
    422: InvalidError,
    428: PreconditionError,
    429: RateLimitedError,
}


def api_error(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The exception of an answer; a body that is no problem document is in ``detail``, truncated."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": body[:TEXT_MAX].decode("utf-8", "replace").strip()}
    return problem_error(status, problem, retry_after)


def problem_error(status: int, problem: Mapping[str, Any], retry_after: str | None = None) -> ApiError:
    """The exception of a problem that was read."""
    seconds = (
        float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdigit() else None
    )
    return _BY_STATUS.get(status, ApiError)(status, problem, seconds)
