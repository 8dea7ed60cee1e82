"""All problems of one file, each at its place."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from crossline.basics.texts.problems import (
    Finding,
    Path,
    Problem,
    RefusedError,
    cut,
    cut_inside,
    fault_finding,
    path_text,
)
from crossline.basics.texts.validation import findings_from_validation
from crossline.basics.texts.yamltext import Document


@dataclass
class Report:
    """Collects the problems of one file, so that a person meets all of them at once."""

    document: Document
    problems: list[Problem] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)

    def add(self, path: Path, found: str, expected: str, hint: str | None = None) -> None:
        """Note a problem at ``path`` of the document."""
        self.take(Finding(path, found, expected, hint))

    def take(self, finding: Finding, base: Path = ()) -> None:
        """Note ``finding``, whose path starts at ``base`` of the document."""
        self.problems.append(place(finding, self.document, base))

    def raise_if_any(self) -> None:
        """Raise RefusedError with all problems, in the order of the file; nothing where there are none."""
        if self.problems:
            raise RefusedError(sorted(self.problems, key=lambda problem: problem.line), self.faults)

    def fault(self, base: Path, error: Exception) -> None:
        """Note that checking what stands at ``base`` ended in ``error``, which no check may raise."""
        self.faults.append(error)
        self.take(fault_finding(error), base)


def place(finding: Finding, document: Document, base: Path = ()) -> Problem:
    """``finding`` as a problem of ``document``, its path starting at ``base``."""
    path = (*base, *finding.path)
    line, _ = document.position(path)
    return Problem(
        document.source,
        line,
        cut_inside(path_text(path)),
        cut(finding.found),
        cut(finding.expected),
        cut(finding.hint) if finding.hint else None,
        "" if finding.hidden else document.snippet(path),
    )


def problems_from_validation(
    error: ValidationError, document: Document, model: type[BaseModel], base: Path = ()
) -> list[Problem]:
    """Every error that pydantic found, as problems of ``document``; ``base`` is where the validated value stands."""
    return [place(finding, document, base) for finding in findings_from_validation(error, model)]
