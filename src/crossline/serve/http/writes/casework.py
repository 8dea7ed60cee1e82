"""Labels and cases: what people found out. Another module stores them: see ``CaseStore``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class CaseStore(Protocol):
    """Keeps labels and cases. Called in a thread, from several at once; what it returns is JSON.

    A case has ``case_id``, ``version`` (which every change raises by one), ``status``, ``title``, ``assignee``,
    ``key``, ``alert_ids``, ``notes``, ``opened_at``, ``opened_by``, ``changed_at``. A label has ``stream``,
    ``record_id``, ``is_fraud``, ``known_at``, ``reason``, ``who``, ``version``.
    """

    def put_label(
        self, stream: str, record_id: str, label: Mapping[str, Any], who: str, version: int | None
    ) -> Mapping[str, Any]:
        """Keep it over the label of that ``version`` (None: there is none yet); the label as it is kept.

        Raises ChangedError if another version is there by now.
        """
        ...

    def label(self, stream: str, record_id: str) -> Mapping[str, Any] | None:
        """The label of a record; None if there is none."""
        ...

    def create_case(self, case: Mapping[str, Any], who: str) -> Mapping[str, Any]:
        """Open a case; as it is kept."""
        ...

    def case(self, case_id: str) -> Mapping[str, Any] | None:
        """A case with its notes; None if there is none."""
        ...

    def change_case(self, case_id: str, version: int, change: Mapping[str, Any], who: str) -> Mapping[str, Any]:
        """Change the fields of ``change``; the case as it is then. Raises ChangedError as ``put_label``."""
        ...

    def note(self, case_id: str, text: str, who: str) -> Mapping[str, Any]:
        """Write a note under a case; the case as it is then."""
        ...


class VersionConflictError(Exception):
    """Somebody else changed it at this moment; ``version`` is what is there."""

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} is there")
        self.version = version
