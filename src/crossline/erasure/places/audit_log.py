"""The audit log of the API: events stay, without values and ids, and its chain holds.

An event keeps its ``sequence``, ``previous`` and ``digest``. ``erased`` is the digest that its content gives from now
on. Half a line, as a kill leaves it, keeps its length alone, which the line after it names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossline.erasure.place import Counts
from crossline.erasure.places.line_files import LinesPlace
from crossline.erasure.rows import decoded, parsed_bytes, treat
from crossline.erasure.subject import Subject, dumped
from crossline.erasure.torn import has_trace, may_be_torn
from crossline.serve.access.audit import ERASED, digest_of
from crossline.serve.access.auditfiles import FILE, FOLDER, held, parts_of

_NEVER = 1 << 62  # bytes of a file that is put away
_CHAIN = ("sequence", "at_ms", "begun", "torn", "previous", "digest", ERASED)


def audit_place(folder: Path) -> AuditPlace:
    """The log in ``serve.path``."""
    newest = folder / FOLDER / FILE

    def files() -> Iterable[Path]:
        return [*(each.path for each in parts_of(newest)), newest]

    return AuditPlace("audit log of the API", files, newest=newest)


@dataclass(slots=True)
class AuditPlace(LinesPlace):
    """The files of a log. The API must be stopped; commands that write to it wait.

    Attributes:
        newest: The file that is written.
    """

    newest: Path = Path(FILE)

    def erase(self, subject: Subject) -> Counts:
        """See ``Place``. Who waited for the file meanwhile opens the new one."""
        if not self.newest.exists():
            return LinesPlace.erase(self, subject)
        with held(self.newest, _NEVER):
            return LinesPlace.erase(self, subject)

    def _line(self, subject: Subject, body: bytes) -> Any:
        text = decoded(body)
        if not (text is None or subject.suspects(text) or may_be_torn(body, text)):
            return body
        event = parsed_bytes(body)
        if not isinstance(event, dict) or not isinstance(event.get("digest"), str):
            return b"x" * len(body) if has_trace(subject, body) else body
        told = {name: value for name, value in event.items() if name not in _CHAIN}
        after = treat(subject, told, keeps=True)
        if after is told:
            return body
        line = {**after, **{name: event[name] for name in _CHAIN if name in event and name != ERASED}}
        return dumped({**line, ERASED: digest_of(line)}).encode()
