"""``/rules/{id}``, ``/rules/{id}/{version}``: what a version means, its text, its history, its alerts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import yaml

from crossline.basics.errors import UsageError
from crossline.basics.times import parse_instant_ms
from crossline.io.stores.protocol import AlertFilter
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.outcomes.overview import about, pending
from crossline.rules.base import legal_moves
from crossline.serve.approvals.texts import diff, differing, english, text_of, the_rule
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.flash import saying
from crossline.serve.console.layout.numbers import counted, number
from crossline.serve.console.layout.shell import Crumb, ShortcutKey
from crossline.serve.console.pages.entities.rows import entity_address
from crossline.serve.console.pages.rules import rollout
from crossline.serve.console.pages.rules.catalogue import WHY_NOT, kind_of
from crossline.serve.console.pages.rules.context import PredictionRow, RuleAlertRow, RuleEventRow, RulePage, VersionRow
from crossline.serve.console.pages.rules.editor import number_of
from crossline.serve.console.pages.rules.health import RuleFigures, doing_of
from crossline.serve.console.pages.rules.hits import DAYS, daily, days_of_version
from crossline.serve.console.pages.rules.rollout import ACTS, before_of, consequence_of, rollout_of
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.http.problems import ProblemError, conflict
from crossline.serve.http.reads.alerts import listed, matching
from crossline.serve.http.reads.rulebook import rulebook
from crossline.serve.http.reads.rules import current_of, tag_of, versions_of

SHOWN, EVENTS_MAX = 20, 50
_WORDS = {
    "published": "version {version} is published as {status}",
    "status_changed": "version {version} is {status}",
    "waiting": "version {version} waits for approval",
    "tripped": "version {version} goes on as shadow: it raised {count} alerts, more than its bound allows",
    "refused": "a file was refused",
    "absent": "it is in no file any more, and stays live",
    "released": "a key is held by it no more",
    "ended": "version {version} judges nothing any more",
}
WHY_NOT_APPROVE = "To set a status or to roll back needs the scope rules:approve, which {} has not."


async def view(asked: PageRequest) -> RulePage:
    """A version of a rule; without a number that in force."""
    known = await doing_of(asked)
    return await asyncio.to_thread(_page, asked, asked.query.get("act", ""), known)


async def set_status(asked: PageRequest) -> Any:
    """Another status of a version."""
    rule_id, wanted = asked.path["rule_id"], asked.form.get("status", "")
    version = number_of(asked.form.get("version", ""))
    body = {"status": wanted, "version": version}
    try:
        done = await called(
            asked,
            "POST",
            "/v1/rules/{rule_id}:set-status",
            {"rule_id": rule_id},
            body,
            match=asked.form.get("etag", ""),
        )
    except ProblemError as error:
        if error.status not in {409, 412, 422}:
            raise
        detail = str(error.to_json()["detail"])
        known = await doing_of(asked)
        return Shown(await asyncio.to_thread(_page, asked, wanted, known, detail, version), error.status)
    text = f"Version {version} of {rule_id} is to be {wanted}"
    text += f" {rollout.pending_text(done)}" if done.get("waits") else "; a pipeline loads it with its next batch."
    return saying(moved(f"/rules/{segment(rule_id)}/{version}"), asked, text)


async def widen(asked: PageRequest) -> Any:
    """Another share of keys."""
    try:
        return await rollout.widen(asked)
    except ProblemError as error:
        if error.status not in {409, 412, 422}:
            raise
        detail, known = str(error.to_json()["detail"]), await doing_of(asked)
        return Shown(await asyncio.to_thread(_page, asked, "", known, detail), error.status)


async def roll_back(asked: PageRequest) -> Any:
    """The text of the version before, as a new version: what judged before needs no proof.

    While that goes on for other keys it has all of them again instead.
    """
    rule_id, config = asked.path["rule_id"], asked.parts.deps.config
    rows, now = await rollout.versions_and_live(asked)
    row = current_of(rows, number_of(asked.form.get("version", "")))
    if rollout.share_of(now) is not None and now["status"] == "active" and row["version"] == before_of(rows, now):
        return await rollout.narrow_to_none(asked, rows, now)
    if not any(each["kind"] == "active" for each in row["judges"]):
        raise conflict(f"version {row['version']} of {rule_id} was never active; expected one that decided before")
    body = {**row["body"], "version": max(int(each["version"]) for each in rows) + 1, "status": "active"}
    for name in ("effective_from", "share"):
        body.pop(name, None)
    text = yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=100)
    _, name = text_of(config, current_of(rows))
    done = await called(asked, "POST", "/v1/rules:publish", body={"name": name, "text": text})
    message = f"{rule_id} goes back to the text of version {row['version']}, as version {body['version']}"
    message += f", {rollout.pending_text(done)}" if done.get("waits") else "."
    return saying(moved(f"/rules/{segment(rule_id)}"), asked, message)


def _page(
    asked: PageRequest, act: str, known: Mapping[str, RuleFigures], wrong: str = "", version: int | None = None
) -> RulePage:
    rule_id, config = asked.path["rule_id"], asked.parts.deps.config
    rows = versions_of(config, rule_id)
    if "version" in asked.path:
        version = number_of(asked.path["version"])
    now, row = current_of(rows), current_of(rows, version)
    before = max((int(each["version"]) for each in rows if each["version"] < row["version"]), default=0)
    text = text_of(config, row)[0]
    lines = diff(text_of(config, current_of(rows, before))[0], text) if before else ()
    days = daily(asked, [(rule_id, kind_of(now["status"]))], known).get(rule_id, (0,) * DAYS)
    mine = known.get(rule_id, RuleFigures())
    kept = kept_of(asked, rule_id, now)
    rule = the_rule(config, text)
    moves = legal_moves(row["status"])
    name = asked.who.name
    return RulePage(
        shell=asked.shell(rule_id, (Crumb("Rules", "/rules"), Crumb(rule_id)), (ShortcutKey(("e",), "edit"),)),
        rule_id=rule_id,
        version=row["version"],
        rule_type=row["rule_type"],
        severity="low" if row["severity"] == "info" else row["severity"],
        status=row["status"],
        owner=row["body"].get("owner") or "",
        live="" if row["version"] == now["version"] else f"version {now['version']} is {now['status']}",
        waits=_waits(asked, rule_id),
        caption="" if rule is None else english(config, rule),
        text=tuple(text.splitlines()),
        diff=lines,
        differs=differing(lines),
        before=before,
        versions=tuple(_version(each, now["version"]) for each in reversed(rows)),
        events=tuple(_events(asked, rule_id)),
        alerts=_alerts(asked, rule_id),
        days=days,
        days_text=f"Alerts a day over {DAYS} days: {days[-1]:,} today, at most {max(days):,} on a day.",
        per_day=number(round(sum(days) / len(days), 1)),
        precision=mine.precision,
        precision_of=mine.labels,
        money=mine.money,
        cost=mine.cost,
        held=mine.held,
        kept=kept,
        rollout=rollout_of(rows, now, kept, asked.query.get("share", "")),
        edit=f"/rules/{segment(rule_id)}/{row['version']}/edit",
        etag=tag_of(row),
        moves=moves,
        act=act if act in {*moves, "rollback", *ACTS} else "",
        consequence=_consequence(row, now, act, days)
        or consequence_of(rows, now, act, asked.query.get("share", ""), kept),
        why_not_draft="" if asked.allows("rules:draft") else WHY_NOT.format(name),
        why_not_approve="" if asked.allows("rules:approve") else WHY_NOT_APPROVE.format(name),
        wrong=wrong,
    )


def _waits(asked: PageRequest, rule_id: str) -> str:
    """What of the rule waits for a second person, by the log; empty: nothing."""
    config = asked.parts.deps.config
    mine = [each for each in pending(rulebook(config).events) if each.rule_id == rule_id]
    if config.rules.review == "none" or not mine:
        return ""
    return f"version {mine[-1].version}, by {mine[-1].who}, waits for a second person"


def _consequence(row: Mapping[str, Any], now: Mapping[str, Any], act: str, days: Sequence[int]) -> str:
    """What an act does, before it is done."""
    if act == "rollback":
        return (
            f"The text of version {row['version']} becomes a new version and replaces version {now['version']} for all "
            "records from now on. Alerts already raised stay."
        )
    a_day = f"It raised {counted(sum(days), 'alert')} in {len(days)} days."
    return {
        "active": f"Version {row['version']} decides on all records from now on. {a_day}",
        "shadow": f"Version {row['version']} is judged and recorded, and decides nothing. {a_day}",
        "paused": f"Version {row['version']} judges nothing until it is active again. {a_day}",
        "retired": f"Version {row['version']} judges nothing any more, for good. {a_day}",
    }.get(act, "")


def kept_of(asked: PageRequest, rule_id: str, now: Mapping[str, Any]) -> PredictionRow | None:
    """What the backtest of the version in force predicted, and the observations since of all keys, in whole days."""
    request = asked.parts.approvals.published(rule_id, int(now["version"]))
    proof = None if request is None else asked.parts.approvals.proof(request.proof_id)
    if request is None or proof is None or request.decided_ms is None:
        return None
    ahead = proof.content["predicted"]
    days = days_of_version(asked, rule_id, int(now["version"]))
    since = (asked.parts.now_ms() // 86_400_000) - (request.decided_ms // 86_400_000)
    whole = days[-1 - since : -1] if since < len(days) else days[:-1]
    mean = sum(whole) / len(whole) if whole else None
    most = max(1.0, ahead["high"], *days)
    beyond = [each for each in whole if not ahead["low"] <= each <= ahead["high"]]
    low, high = (number(round(ahead[name], 1)) for name in ("low", "high"))
    return PredictionRow(
        predicted=f"{low} to {high} a day, by {number(round(ahead['days'], 2))} days of the past",
        came="no whole day yet"
        if mean is None
        else f"{number(round(mean, 1))} a day in {counted(len(whole), 'whole day')}",
        today=f"{number(days[-1])} so far today",
        beyond=f"{counted(len(beyond), 'day')} beyond its band" if beyond else "",
        days=tuple(whole),
        points=tuple(round(each / most, 3) for each in whole),
        band=(round(ahead["low"] / most, 3), round(ahead["high"] / most, 3)),
    )


def _version(row: Mapping[str, Any], now: int) -> VersionRow:
    spans = [f"{(each['from'] or 'the beginning')[:16]} to {(each['until'] or 'now')[:16]}" for each in row["judges"]]
    return VersionRow(
        row["version"],
        f"/rules/{segment(row['rule_id'])}/{row['version']}",
        row["status"],
        row["severity"],
        "; ".join(spans).replace("T", " "),
        row["version"] == now,
    )


def _events(asked: PageRequest, rule_id: str) -> Iterator[RuleEventRow]:
    """What became of it, the last first."""
    snapshot = rulebook(asked.parts.deps.config)
    folder, events = snapshot.folder, snapshot.events
    if not folder.histories or rule_id not in folder.histories[0].rules:
        return
    found: list[RuleEvent] = about(rule_id, folder.histories[0], events)
    for each in reversed(found[-EVENTS_MAX:]):
        words = _WORDS.get(each.event, each.event.replace("_", " ") + (f" {each.list_name}" if each.list_name else ""))
        what = words.format(version=each.version, status=each.status, count=each.count)
        yield RuleEventRow(asked.times.moment(each.at_ms), what, _people(asked, each))


def _people(asked: PageRequest, event: RuleEvent) -> str:
    """Who did it and who approved: by the rule log; of what was published here, by the request."""
    who, approved = event.who, event.approved_by
    if event.event == "published" and not (who and approved) and event.rule_id and event.version:
        request = asked.parts.approvals.published(event.rule_id, event.version)
        if request is not None:
            who, approved = request.who, request.decided_by
    return f"{who or ''}{f', approved by {approved}' if approved else ''}"


def _alerts(asked: PageRequest, rule_id: str) -> tuple[RuleAlertRow, ...]:
    """The latest."""
    try:
        with closing(asked.parts.deps.store()) as store:
            found, _ = listed(store, AlertFilter(rule_id), None, SHOWN, matching(None, None, store))
    except UsageError:
        return ()
    return tuple(
        RuleAlertRow(
            asked.times.moment(parse_instant_ms(each["event_time"])),
            "low" if each["severity"] == "info" else each["severity"],
            each["message"],
            tuple((name, str(value), entity_address(name, str(value))) for name, value in each["key"].items()),
            each["status"] if each["kind"] == "alert" else each["kind"],
        )
        for each in found
    )
