"""Asks a running crossline for decisions: ``Client`` and ``AsyncClient``.

Light: it loads httpx and Python's own library, and nothing else of crossline.

    with Client("http://127.0.0.1:8080", key=os.environ["CROSSLINE_KEY"], timeout=0.05, fallback="review") as client:
        if client.decide("payments", payment).decision == "allow":
            ...
"""

from __future__ import annotations

from crossline.client.aio import AsyncClient
from crossline.client.errors import (
    ApiError,
    BadAnswerError,
    ClientError,
    ConflictError,
    CredentialError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    RateLimitedError,
    TooLargeError,
    UnreachableError,
)
from crossline.client.sync import Client
from crossline.client.values import AsOf, Decision, Degraded, Event, Figure, Finding, Reason

__all__ = [
    "ApiError",
    "AsOf",
    "AsyncClient",
    "BadAnswerError",
    "Client",
    "ClientError",
    "ConflictError",
    "CredentialError",
    "Decision",
    "Degraded",
    "Event",
    "Figure",
    "Finding",
    "ForbiddenError",
    "InvalidError",
    "NotFoundError",
    "PreconditionError",
    "RateLimitedError",
    "Reason",
    "TooLargeError",
    "UnreachableError",
]
