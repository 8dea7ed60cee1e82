"""The log of a client's requests: a line before each request, and a line once it has its answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import orjson

from chaos.load.log import id_of

# Numbers of records that came through the API: no sender of the topic comes so far.
FIRST = 10**12
PREFIX = id_of(FIRST)[:5]

# Why it asks: for the first time, with the same record again, twice at the same time, with another body under the id.
Why = Literal["first", "again", "twice", "other"]


def asked_id(number: int) -> str:
    """The id of a record that is asked about."""
    return id_of(FIRST + number)


@dataclass(frozen=True, slots=True)
class Answer:
    """How an ask ended, ``waited_ms`` after it began.

    ``late_ms``: for how much of what is beyond the deadline this process was not run, by its own timer. ``statuses``:
    of each try, 0 where there was no answer of HTTP. ``answered``: ``exact``, ``peek``, ``fallback``, ``unreachable``,
    or ``refused`` by ``problem``.
    """

    waited_ms: float
    late_ms: float
    answered: str
    decision: str = ""
    decision_id: str = ""
    receipt: str = ""
    replayed: bool = False
    degraded: tuple[str, ...] = ()
    took_ms: float | None = None
    statuses: tuple[int, ...] = ()
    problem: str = ""

    @property
    def by_the_api(self) -> bool:
        """Whether the API answered, and decided."""
        return self.answered in {"exact", "peek", "fallback"}


@dataclass(frozen=True, slots=True)
class Ask:
    """An ask. ``at_s``: epoch seconds; ``answer``: None where it never came to its end."""

    number: int
    record_id: str
    why: Why
    mode: str
    deadline_ms: float
    at_s: float
    clock_ms: int = 0
    answer: Answer | None = None


@dataclass(slots=True)
class Notes:
    """Writes them: each line is with the system before the ask goes on, so no death of the caller loses it."""

    path: Path
    _file: int = field(init=False)

    def __post_init__(self) -> None:
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def asked(self, ask: Ask) -> None:
        """Before it goes out."""
        body = asdict(ask)
        del body["answer"]
        self._line({"asked": body})

    def answered(self, number: int, answer: Answer) -> None:
        """Once it has come to its end."""
        self._line({"of": number, **asdict(answer)})

    def _line(self, body: dict[str, Any]) -> None:
        os.write(self._file, orjson.dumps(body) + b"\n")

    def close(self) -> None:
        """On the disk."""
        os.fsync(self._file)
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_notes(path: Path) -> list[Ask]:
    """All asks, in their order; the last line may be cut where the caller was killed."""
    asks: dict[int, Ask] = {}
    for body in _lines(path):
        if "asked" in body:
            ask = Ask(**body["asked"])
            asks[ask.number] = ask
        else:
            ask = asks[body.pop("of")]
            body["degraded"], body["statuses"] = tuple(body["degraded"]), tuple(body["statuses"])
            asks[ask.number] = replace(ask, answer=Answer(**body))
    return list(asks.values())


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield orjson.loads(line)
