"""Forms of acts, done by the API's own functions; what was done, in words, with the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from crossline.basics.texts.problems import shown
from crossline.serve.cases.actions.bulk import COUNT_FROM
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.queue.navigation import acted_at, last_act_ms
from crossline.serve.console.casework.address import QueueQuery
from crossline.serve.console.casework.forms import counted
from crossline.serve.console.request import PageRequest
from crossline.serve.http.cases.actions import check_scope
from crossline.serve.http.cases.requests import ActBody, desk_of
from crossline.serve.http.cases.requests import as_problems as answered
from crossline.serve.http.problems import invalid, not_found

_FIELDS = ("to", "until", "text", "label", "reason", "alert_id")
_DONE = {
    "assign": "assigned to {to}",
    "unassign": "given back",
    "snooze": "snoozed",
    "escalate": "escalated to {to}",
    "note": "has your note",
    "resolve": "resolved{label}",
    "reopen": "opened again",
    "merge": "merged",
    "detach": "without that alert",
}


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What was done. ``caption``: in words; ``undo``: the address that undoes it; ``first``: one of its cases."""

    caption: str
    undo: str
    first: str


def act_of(form: Mapping[str, str]) -> ActBody:
    """The act that a form asks for. Raises ProblemError (422) for what is none."""
    given = {name: form[name].strip() for name in _FIELDS if form.get(name, "").strip()}
    if form.get("act") == "merge":
        others = f"{form.get('others', '')} {form.get('near', '')}".replace(",", " ").split()
        if others:
            given["case_ids"] = others  # type: ignore[assignment]
    try:
        return ActBody.model_validate({"act": form.get("act", ""), **given})
    except ValidationError as error:
        first = error.errors()[0]
        raise invalid(f"/{first['loc'][0]}", shown(first.get("input")), str(first["msg"]).lower()) from None


def on_one(asked: PageRequest, case_id: str) -> ActionResult:
    """Apply the form to one case. Raises ProblemError as the API does."""
    body, version = act_of(asked.form), asked.form.get("version", "")
    check_scope(body, asked.who)
    if body.act == "resolve" and body.label == "good" and not body.reason:
        raise invalid("/reason", "nothing", "why it is good, for its readers")
    checked = int(version) if version.isdigit() and body.act != "note" else None
    desk = desk_of(asked.parts.deps)
    answered(lambda: desk.act(case_id, body.wanted(), asked.who.name, checked))
    return _result_of(asked, body, [case_id], {})


def on_many(asked: PageRequest) -> ActionResult:
    """Apply the form to the cases that it names, or to all of its filter. Raises ProblemError."""
    form, desk = asked.form, desk_of(asked.parts.deps)
    body = act_of(form)
    check_scope(body, asked.who)
    names = [each for each in form.get("case", "").split("\n") if each]
    every = form.get("every") == "1"
    count = form.get("count", "")
    many = int(count) if every and count.isdigit() else len(names)
    if many > COUNT_FROM and form.get("typed", "").replace(",", "") != str(many):
        raise invalid("/typed", shown(form.get("typed", "")), f"{many}, for so many cases are changed")
    expected = int(count) if count.isdigit() else None
    wanted: Any = QueueQuery.of_text(form.get("back", "")).filter() if every else names
    if not every and not names:
        raise invalid("/case", "no case", "one at least")
    result = answered(lambda: desk.bulk(wanted, body.wanted(), asked.who.name, expected))
    refused = {each["case_id"]: each["why"] for each in result["refused"]}
    return _result_of(asked, body, [each["case_id"] for each in result["done"]], refused)


def undone(asked: PageRequest, at_ms: int) -> str:
    """Take back all that one did at that moment, in words. Raises ProblemError if there is nothing to take back."""
    desk = desk_of(asked.parts.deps)
    names = acted_at(desk.file, asked.who.name, at_ms)
    if not names:
        raise not_found("act of yours of that moment", "it may be undone already")
    result = answered(lambda: desk.bulk(names, CaseAction("undo"), asked.who.name, len(names)))
    left = f" {_refused({each['case_id']: each['why'] for each in result['refused']})}" if result["refused"] else ""
    return f"Undone for {counted(result['count'])}.{left}"


def _result_of(asked: PageRequest, body: ActBody, names: Sequence[str], refused: Mapping[str, str]) -> ActionResult:
    label = f" as {body.label}" if body.label else ""
    what = _DONE[body.act].format(to=body.to or "you", label=label)
    subject = names[0] if len(names) == 1 and not refused else counted(len(names))
    text = f"{subject} {what}." if names else "Nothing was done."
    at_ms = last_act_ms(desk_of(asked.parts.deps).file, asked.who.name)
    undo = f"/queue/undo/{at_ms}" if names and at_ms is not None else ""
    return ActionResult(f"{text} {_refused(refused)}".strip(), undo, names[0] if names else "")


def _refused(refused: Mapping[str, str]) -> str:
    if not refused:
        return ""
    name, why = next(iter(refused.items()))
    more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    return f"Left as they are: {name}{more} ({why})."
