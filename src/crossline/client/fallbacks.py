"""The client's own decision, where the API gave none in time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crossline.client.calls import Record
from crossline.client.errors import ApiError, ClientError
from crossline.client.values import ACTIONS, Decision, Degraded

DEFAULT = "review"

Fallback = str | Callable[[str, Mapping[str, Any]], str]


def checked_fallback(fallback: Fallback) -> Fallback:
    """``fallback``; raises ValueError where it is a text that is no decision."""
    if callable(fallback) or fallback in ACTIONS:
        return fallback
    raise ValueError(f"fallback: found {fallback!r}; expected one of {', '.join(ACTIONS)}, or a function")


def unreachable(fallback: Fallback, stream: str, record: Record, why: ClientError | str) -> Decision:
    """The decision of ``fallback``; if that fails, ``review`` with the reason in ``degraded``."""
    degraded = [Degraded("client", str(why))]
    decided = fallback
    if callable(fallback):
        try:
            decided = fallback(stream, json.loads(record) if isinstance(record, bytes) else record)
            if decided not in ACTIONS:
                raise ValueError(f"found {decided!r}; expected one of {', '.join(ACTIONS)}")  # noqa: TRY301 - raised in one place
        except Exception as error:  # noqa: BLE001 - the caller's own function; a payment waits for an answer
            decided = DEFAULT
            degraded.append(Degraded("client.fallback", f"{type(error).__name__}: {error}"))
    return Decision(decision=str(decided), answered="unreachable", degraded=tuple(degraded), stream=stream)


def settled(
    fallback: Fallback, stream: str, records: Sequence[Record], found: Sequence[Decision | ClientError]
) -> list[Decision | ApiError]:
    """``found`` with the decision of ``fallback`` if there was no answer."""
    return [
        each if isinstance(each, Decision | ApiError) else unreachable(fallback, stream, record, each)
        for record, each in zip(records, found, strict=True)
    ]
