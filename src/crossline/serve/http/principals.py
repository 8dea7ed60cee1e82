"""Who asks, as the access layer found out; and what a route is for, which that layer holds against the scopes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from crossline.serve.http.problems import ProblemError

SCOPE = "x-crossline-scope"  # the field of an OpenAPI operation with the scope that it needs


class Principal(Protocol):
    """The caller."""

    @property
    def name(self) -> str:
        """As it stands in logs and in the audit."""
        ...

    @property
    def scopes(self) -> frozenset[str]:
        """What it may do, such as ``read:alerts``."""
        ...


def let_in(scope: Mapping[str, Any]) -> Principal | None:
    """The principal that the access layer found for this request; None: there is none."""
    found: Principal | None = scope.get("state", {}).get("principal")
    return found


def principal_of(request: Request) -> Principal:
    """The caller. Raises ProblemError (401) if the access layer found none."""
    found = let_in(request.scope)
    if found is None:
        raise ProblemError(
            401,
            "no-credential",
            "found no credential; expected Authorization: Bearer KEY, a key of crossline serve keys create",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return found


Asking = Annotated[Principal, Depends(principal_of)]


def may_read(who: Principal, stream: str | None = None) -> bool:
    """Whether decisions of ``stream`` are for ``who`` to read; None: those of all streams."""
    reads = "read:alerts" in who.scopes or "read:records" in who.scopes
    return reads or (stream is not None and not {f"decide:{stream}", "decide:*"}.isdisjoint(who.scopes))


def needs(scope: str) -> dict[str, Any]:
    """The scope that an operation needs, in the OpenAPI file (``openapi_extra`` of a route)."""
    return {SCOPE: scope}
