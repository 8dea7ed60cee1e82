"""What the routes ask of stores, answered by those of this pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossline.serve.cases import values
from crossline.serve.cases.json_cases import JsonCases
from crossline.serve.cases.service import CaseService
from crossline.serve.cases.values import Case
from crossline.serve.http.writes.casework import VersionConflictError


class StoredCases(JsonCases):
    """Labels and cases of the file; a concurrent change is raised as the error that routes know."""

    def __init__(self, desk: CaseService) -> None:
        super().__init__(desk.cases)
        self._desk = desk

    def put_label(
        self, stream: str, record_id: str, label: Mapping[str, Any], who: str, version: int | None
    ) -> dict[str, Any]:
        """See ``CaseStore``."""
        try:
            return super().put_label(stream, record_id, label, who, version)
        except values.ChangedError as error:
            raise VersionConflictError(error.version) from None

    def change_case(self, case_id: str, version: int, change: Mapping[str, Any], who: str) -> dict[str, Any]:
        """See ``CaseStore``."""
        try:
            return super().change_case(case_id, version, change, who)
        except values.ChangedError as error:
            raise VersionConflictError(error.version) from None

    def _case(self, case: Case) -> dict[str, Any]:
        return self._desk.case(case.case_id)
