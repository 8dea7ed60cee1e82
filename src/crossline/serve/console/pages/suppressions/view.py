"""``/suppressions``: what is hidden until when, and what that hid; a new one with an end, and ending one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossline.basics.times import parse_instant_ms
from crossline.serve.console.api_calls import called
from crossline.serve.console.flash import saying
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.pages.rules.editor import number_of
from crossline.serve.console.pages.suppressions.context import FraudRow, SuppressionRow, SuppressionsPage
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.http.etags import etag_of
from crossline.serve.http.problems import ProblemError, invalid
from crossline.serve.http.reads.rules import read_rules

ALL, ONE = "/v1/suppressions", "/v1/suppressions/{suppression_id}"
SCOPE, LIMIT = "write:cases", 200
_FIELDS = ("rule", "field", "value", "until", "reason")


async def view(asked: PageRequest) -> SuppressionsPage:
    """Those in force and those that ended; with ``?of=NUMBER`` the fraud that one hid."""
    return await _page(asked, asked.query)


async def make(asked: PageRequest) -> Any:
    """A new one."""
    form = asked.form
    rules = [each for each in form.get("rule", "").split("\n") if each]
    field, value, until = (form.get(name, "").strip() for name in ("field", "value", "until"))
    try:
        if not until:
            raise invalid("until", "nothing", "when it ends: each suppression ends by itself")
        if bool(field) != bool(value):
            raise invalid("value", "half a key", "a field and its value, or neither")
        if not form.get("reason", "").strip():
            raise invalid("reason", "nothing", "why these alerts are hidden: another person will read it")
        key = {field: value} if field else {}
        end = until if until.endswith("Z") else f"{until}:00Z"
        body = {"rules": rules, "key": key, "until": end, "reason": form["reason"].strip()}
        await called(asked, "POST", ALL, body=body)
    except ProblemError as error:
        return await _refused(asked, error)
    return saying(moved("/suppressions"), asked, f"These alerts open no case until {until.replace('T', ' ')} UTC.")


async def end(asked: PageRequest) -> Any:
    """End one now."""
    number = number_of(asked.path["number"])
    try:
        await called(asked, "DELETE", ONE, {"suppression_id": str(number)}, match=asked.form.get("etag", ""))
    except ProblemError as error:
        return await _refused(asked, error)
    return saying(moved("/suppressions"), asked, f"Suppression {number} is ended: alerts open cases again.")


async def _refused(asked: PageRequest, error: ProblemError) -> Shown:
    if error.status not in {404, 409, 412, 422}:
        raise error
    return Shown(await _page(asked, asked.form, str(error.to_json()["detail"])), error.status)


async def _page(asked: PageRequest, wanted: Mapping[str, str], wrong: str = "") -> SuppressionsPage:
    found: list[Mapping[str, Any]] = []
    if asked.parts.deps.desk is not None:
        found = (await called(asked, "GET", ALL, query={"limit": LIMIT}))["items"]
    rows = {each["suppression_id"]: _row(asked, each) for each in found}
    force = {each["suppression_id"] for each in found if each["in_force"]}
    chosen, frauds = None, ()
    if wanted.get("of"):
        suppression = await called(asked, "GET", ONE, {"suppression_id": str(number_of(wanted["of"]))})
        chosen = _row(asked, suppression)
        frauds = tuple(_fraud(asked, each) for each in suppression["frauds"])  # type: ignore[assignment]
    why_not = (
        "" if asked.allows(SCOPE) else f"To suppress alerts needs the scope {SCOPE}, which {asked.who.name} has not."
    )
    return SuppressionsPage(
        shell=asked.shell("Suppressions"),
        active=tuple(row for number, row in rows.items() if number in force),
        ended=tuple(row for number, row in rows.items() if number not in force),
        chosen=chosen,
        frauds=frauds,
        rules=tuple(dict.fromkeys(row["rule_id"] for row in read_rules(asked.parts.deps.config)[0])),
        form={name: wanted.get(name, "") for name in _FIELDS},
        why_not=why_not,
        wrong=wrong,
    )


def _row(asked: PageRequest, each: Mapping[str, Any]) -> SuppressionRow:
    key = [f"{name} {value}" for name, value in each["key"].items()]
    conditions = [f"{one['field']} {one['operator']} {one['value']}" for one in each["conditions"]]
    rules = ", ".join(each["rules"]) or "all rules"
    return SuppressionRow(
        number=each["suppression_id"],
        what=", ".join([rules, *key, *conditions]),
        reason=each["reason"],
        who=each["by"],
        made=asked.times.moment(parse_instant_ms(each["at"])),
        until=asked.times.moment(parse_instant_ms(each["until"])),
        ended_by=each["ended_by"] or "",
        hidden=each["hidden_count"],
        frauds=each["fraud_count"],
        etag=etag_of([each["suppression_id"], each["version"]]),
    )


def _fraud(asked: PageRequest, each: Mapping[str, Any]) -> FraudRow:
    at = asked.times.moment(parse_instant_ms(each["event_time"]))
    return FraudRow(at, each["rule_id"], each["record_id"], each["message"])


PAGE = Page(
    "suppressions",
    (
        PageRoute("GET", "/suppressions", view),
        PageRoute("POST", "/suppressions", make),
        PageRoute("POST", "/suppressions/{number}/end", end),
    ),
    label="Suppressions",
    group="Rules",
)
