"""What routes of cases ask for, in common: filters of a query, acts of a body, errors of the store as problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Path as InPath
from fastapi import Query, Request
from pydantic import Field, StringConstraints

from crossline.basics.texts.problems import shown
from crossline.serve.cases.actions.values import ActName, CaseAction
from crossline.serve.cases.intake.facts import VALUE_MAX
from crossline.serve.cases.queue.filters import QueueFilter, Sort, View
from crossline.serve.cases.service import CaseService
from crossline.serve.cases.values import ChangedError, NoSuchCaseError, NotTakenError
from crossline.serve.http.deps import Dependencies, required
from crossline.serve.http.problems import ProblemError, invalid, not_found
from crossline.serve.http.queries import keys_in
from crossline.serve.http.reads.alerts import instant
from crossline.serve.http.writes.bodies import Body

TODO = "start crossline serve with serve: in the pipeline file, which has a folder for it"
TEXT_CHARS, CASES_MAX = 20_000, 10_000
T = TypeVar("T")

Short = Annotated[str, StringConstraints(max_length=200)]
Value = Annotated[str, StringConstraints(max_length=VALUE_MAX)]  # of a key, as alerts are linked by it
CaseId = Annotated[str, InPath(max_length=200, description="Id of the case, such as C-2041.")]
Status = Literal["open", "acknowledged", "escalated", "snoozed", "resolved", "merged"]
Severity = Literal["info", "low", "medium", "high", "critical"]
Decision = Literal["allow", "review", "step_up", "block"]


class FilterBody(Body):
    """Which cases, as in the query of `GET /v1/cases`."""

    view: View = Field(default="all", description="The view.")
    status: Status | None = Field(default=None, description="The status.")
    assignee: Short | None = Field(default=None, description="Who works on it.")
    severity: Severity | None = Field(default=None, description="At least this severity.")
    stream: Short | None = Field(default=None, description="A stream of its alerts.")
    rule_id: Short | None = Field(default=None, description="A rule that it crossed.")
    decision: Decision | None = Field(default=None, description="The gravest decision on its records.")
    money: float | None = Field(default=None, allow_inf_nan=False, description="At least so much, in one currency.")
    from_: str | None = Field(default=None, alias="from", max_length=40, description="Latest alert from then on.")
    to: str | None = Field(default=None, max_length=40, description="Latest alert before then.")
    key: dict[Short, Value] = Field(default_factory=dict, max_length=8, description="Values that it has.")
    q: Short = Field(default="", description="Words that the case must all contain.")
    sort: Sort = Field(default="newest", description="The order, for views that are saved.")

    def wanted(self) -> QueueFilter:
        """As the store takes it."""
        given = self.model_dump(exclude={"from_", "to", "sort"})
        return QueueFilter(**given, from_ms=instant("/from", self.from_), to_ms=instant("/to", self.to))


class ActBody(Body):
    """One act on a case."""

    act: ActName = Field(description="What is done.")
    to: Short | None = Field(default=None, description="`assign`, `escalate`: the person; `assign` without: oneself.")
    until: str | None = Field(default=None, max_length=40, description="`snooze`; without: until a new alert joins.")
    text: Annotated[str, StringConstraints(max_length=TEXT_CHARS)] | None = Field(default=None, description="`note`.")
    label: Literal["fraud", "good"] | None = Field(
        default=None, description="`resolve`: the label of the records of all its alerts."
    )
    reason: Annotated[str, StringConstraints(max_length=4_000)] | None = Field(default=None, description="Why.")
    case_ids: list[Short] | None = Field(default=None, max_length=500, description="`merge`: become part of this case.")
    alert_id: Short | None = Field(default=None, description="`detach`: gets a case of its own.")

    def wanted(self) -> CaseAction:
        """As the store takes it."""
        given = self.model_dump(exclude={"until", "case_ids"})
        names = None if self.case_ids is None else tuple(self.case_ids)
        return CaseAction(**given, until_ms=instant("/until", self.until), case_ids=names)


def desk_of(deps: Dependencies) -> CaseService:
    """The desk. Raises ProblemError (409) if this server has none."""
    found: CaseService = required(deps.desk, "store of cases and labels", TODO)
    return found


def as_problems(ask: Callable[[], T], what: str = "case") -> T:
    """What ``ask`` gives; the store's errors as problems."""
    try:
        return ask()
    except NoSuchCaseError as error:
        raise not_found(what, str(error)) from None
    except ChangedError as error:
        raise ProblemError(412, "changed", str(error)) from None
    except NotTakenError as error:
        raise invalid(error.pointer, error.found, error.expected, error.hint) from None


def case_of(deps: Dependencies, case_id: str) -> dict[str, Any]:
    """A case whole. Raises ProblemError (404)."""
    desk = desk_of(deps)
    try:
        return desk.case(case_id)
    except NoSuchCaseError:
        raise not_found(f"case {shown(case_id)}", "GET /v1/cases lists those there are") from None


def filter_of(
    request: Request,
    view: Annotated[View, Query(description="The view.")] = "all",
    status: Annotated[Status | None, Query(description="Only with this status.")] = None,
    assignee: Annotated[str | None, Query(max_length=200, description="Only of this person.")] = None,
    severity: Annotated[Severity | None, Query(description="At least this severity.")] = None,
    stream: Annotated[str | None, Query(max_length=200, description="With alerts of this stream.")] = None,
    rule_id: Annotated[str | None, Query(max_length=200, description="Crossed this rule.")] = None,
    decision: Annotated[Decision | None, Query(description="The gravest decision on its records.")] = None,
    money: Annotated[
        float | None, Query(allow_inf_nan=False, description="At least so much, in any one currency.")
    ] = None,
    from_: Annotated[str | None, Query(alias="from", max_length=40, description="Latest alert from then on.")] = None,
    to: Annotated[str | None, Query(max_length=40, description="Latest alert before then.")] = None,
    q: Annotated[str, Query(max_length=200, description="Words that one alert or note must all contain.")] = "",
) -> QueueFilter:
    """The filters of a query (a dependency of routes)."""
    return QueueFilter(
        view=view,
        status=status,
        assignee=assignee,
        severity=severity,
        stream=stream,
        rule_id=rule_id,
        decision=decision,
        money=money,
        from_ms=instant("?from", from_),
        to_ms=instant("?to", to),
        key=keys_in(request),
        q=q,
    )
