"""What the pages of dead letters show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class ReasonTab:
    """A reason with how many are open. ``count``: as text."""

    reason: str
    path: str
    count: str
    current: bool


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A dead letter. ``at``: None if that was not noted; ``some``: the first of its bytes, as they can be shown."""

    address: str
    reason: str
    detail: str
    stream: str
    where: str
    at: Moment | None
    some: str
    size: str
    sent: str


@dataclass(frozen=True, slots=True)
class DeadPage:
    """``means``: what the reason is; ``states``: of (label, address, current); ``older``: empty: there are none.

    ``missing``: why nothing can be read back; ``counted``: what the counts are of, where they are not of all.
    """

    TEMPLATE: ClassVar[str] = "pages/dead_letters/dead_letters.html"
    shell: Shell
    reason: str
    means: str
    tabs: tuple[ReasonTab, ...]
    states: tuple[tuple[str, str, bool], ...]
    rows: tuple[LetterRow, ...]
    kept_in: str
    missing: str
    counted: str
    older: str
    newest: str


@dataclass(frozen=True, slots=True)
class HexLine:
    """16 bytes: where they stand, in hex, and as characters of ASCII."""

    at: str
    octets: str
    text: str


@dataclass(frozen=True, slots=True)
class SentRecord:
    """That it was sent again."""

    by: str
    at: Moment
    record_id: str
    where: str


@dataclass(frozen=True, slots=True)
class LetterPage:
    """``text``: its bytes as text, what does not print written out; ``octets``: in hex, where they are no UTF-8.

    ``read``: of a record of Avro, what of it was read, as JSON; ``broke``: why no more was, empty if all was.
    ``draft``: what the form has; ``lost``: what of the bytes it has not; ``why_not``: why it cannot be sent again.
    """

    TEMPLATE: ClassVar[str] = "pages/dead_letters/letter.html"
    shell: Shell
    name: str
    reason: str
    means: str
    detail: str
    stream: str
    partition: str
    offset: int
    record_id: str
    at: Moment | None
    size: str
    text: str
    octets: tuple[HexLine, ...]
    read: str
    broke: str
    cut: str
    sent: SentRecord | None
    why_not: str
    draft: str
    lost: str
    wrong: str
