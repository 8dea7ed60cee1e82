"""A backtest as a job: how far it is, what it found, and the proof that it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from crossline.basics.times import parse_instant_ms
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.layout.numbers import counted, number
from crossline.serve.console.pages.entities.rows import entity_address
from crossline.serve.console.pages.rules.editor_parts import (
    AlertChange,
    Blasted,
    BlastRow,
    GoingOn,
    Sample,
    SampleRow,
    TrialFigure,
    TrialPart,
    TrialView,
)
from crossline.serve.console.request import PageRequest, moved
from crossline.serve.http.problems import ProblemError

JOB = "/v1/jobs/{job_id}"
GOING_ON = frozenset({"queued", "running"})


async def view(asked: PageRequest) -> TrialPart:
    """The part of the page that changes."""
    return TrialPart(await trial_of(asked, asked.path["job_id"]), asked.nonce)


async def stop(asked: PageRequest) -> Any:
    """End it; without script the editor is what comes next."""
    await called(asked, "DELETE", JOB, {"job_id": asked.path["job_id"]})
    if not asked.by_htmx:
        rule_id, base = asked.form.get("rule_id", "new"), asked.form.get("base", "0")
        at = f"/rules/{segment(rule_id)}/{segment(base)}/edit" if base != "0" else "/rules/new"
        return moved(f"{at}?{urlencode({'job': asked.path['job_id']})}#trial")
    return TrialPart(await trial_of(asked, asked.path["job_id"]), asked.nonce)


async def trial_of(asked: PageRequest, job_id: str) -> TrialView:
    """A job of who asks; the API keeps its proof, once it is done."""
    try:
        job = await called(asked, "GET", JOB, {"job_id": job_id})
    except ProblemError as error:
        if error.status != 404:
            raise
        return trial_view({"job_id": job_id, "state": "failed", "progress": {}, "error": error.detail, "result": None})
    return trial_view(job, asked.parts.settings.cases.money, asked.parts.now_ms())


async def going_on(asked: PageRequest) -> tuple[GoingOn, ...]:
    """The backtests of who asks that are not over: of a tab that was closed, too."""
    jobs = await called(asked, "GET", "/v1/jobs")
    mine = [each for each in jobs["items"] if each["kind"] == "prove" and each["state"] in GOING_ON]
    return tuple(
        GoingOn(each["job_id"], asked.times.moment(parse_instant_ms(each["created_at"])), _far(each)) for each in mine
    )


def _far(job: Mapping[str, Any]) -> str:
    share = (job["progress"] or {}).get("share")
    return "waits" if job["state"] == "queued" else f"{share:.0%}" if share else "has begun"


async def end(asked: PageRequest, job_id: str) -> None:
    """End a job that may be over, or forgotten."""
    try:
        await called(asked, "DELETE", JOB, {"job_id": job_id})
    except ProblemError as error:
        if error.status != 404:
            raise


def is_of(job: TrialView, text: str) -> bool:
    """Whether a backtest that is done is of exactly this text."""
    return not job.proof or job.proof[0][2] == hashlib.sha256(text.encode()).hexdigest()


def remaining_text(job: Mapping[str, Any], now_ms: int) -> str:
    """About how long it still takes, by how far it came since it began; empty if that is not known.

    >>> job = {"started_at": "1970-01-01T00:00:00.000Z", "progress": {"share": 0.25}}
    >>> left_text(job, 10_000)
    'about 30 s left'
    """
    share, began = (job["progress"] or {}).get("share"), job.get("started_at")
    if not share or began is None or share >= 1:
        return ""
    left_s = (now_ms - parse_instant_ms(began)) * (1 - share) / share / 1_000
    return "" if left_s <= 0 else f"about {left_s / 60:.0f} min left" if left_s >= 120 else f"about {left_s:.0f} s left"


def trial_view(job: Mapping[str, Any], money: Any = None, now_ms: int = 0) -> TrialView:
    """As the page shows it."""
    body = job["result"] or {}
    progress = job["progress"] or {}
    against = body.get("against", {})
    return TrialView(
        job_id=job["job_id"],
        state=job["state"],
        caption=progress.get("message") or "",
        share=progress.get("share") or 0.0,
        left=remaining_text(job, now_ms) if job["state"] == "running" else "",
        error=job["error"] or "" if job["state"] in {"failed", "ended"} else "",
        past=span_text(body),
        figures=tuple(figures_of(body, money)) if body else (),
        against=against.get("version") or 0,
        appear=against.get("appear", 0),
        disappear=against.get("disappear", 0),
        both=against.get("both", 0),
        appearing=tuple(_changes(against.get("appearing", ()))),
        disappearing=tuple(_changes(against.get("disappearing", ()))),
        proof=proof_rows(body) if body else (),
        predicted=prediction_text(body) if body else "",
        blast=blasted(body.get("blast")),
    )


def span_text(body: Mapping[str, Any]) -> str:
    """Of which past it is."""
    if not body:
        return ""
    data = body["data"]
    return (
        f"{data['from'][:16].replace('T', ' ')} to {data['to'][:16].replace('T', ' ')} UTC, {data['records']:,} records"
    )


def prediction_text(body: Mapping[str, Any]) -> str:
    """``8 to 12 alerts a day``."""
    ahead = body["predicted"]
    return f"{number(round(ahead['low'], 1))} to {number(round(ahead['high'], 1))} alerts a day"


def proof_rows(body: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Digests of rule, data and result."""
    digests = body["digests"]
    return (
        ("Rule", f"{body['rule_id']}, version {body['version']}", digests["rule"]),
        ("Data", span_text(body), digests["data"]),
        (
            "Result",
            f"{counted(body['result']['alerts'], 'alert')}; predicted {prediction_text(body)}",
            digests["result"],
        ),
    )


def figures_of(body: Mapping[str, Any], money: Any = None) -> Iterable[TrialFigure]:
    """Each figure beside that of the live version."""
    mine, live = body["draft"], body["live"] or {}
    was = f"was {number(live['alerts_per_day'])}" if live else "no version is live"
    yield TrialFigure("Alerts a day", number(mine["alerts_per_day"]), "", was, "")
    if "precision" not in mine:
        yield TrialFigure("Frauds found", "unknown", "no labels", "", "")
        return
    yield _share("Precision", mine["precision"], live.get("precision"), f"of {mine['alerts']:,}")
    yield _share("Recall", mine["recall"], live.get("recall"), f"of {mine['frauds']:,}")
    if mine.get("money_caught") is not None:
        yield _money("Fraud found", mine["money_caught"], live.get("money_caught"), money)
    good = (body.get("blast") or {}).get("good")
    if good is not None:
        more = (
            "high" if live and good["draft"] > good["live"] else "ok" if live and good["draft"] < good["live"] else ""
        )
        yield TrialFigure(
            "Good customers met", number(good["draft"]), "", f"was {number(good['live'])}" if live else "", more
        )
    met, before = mine["alerts"] - mine["true"], live.get("alerts", 0) - live.get("true", 0)
    grade = "high" if live and met > before else "ok" if live and met < before else ""
    yield TrialFigure("Not on frauds", number(met), "alerts", f"was {number(before)}" if live else "", grade)


def _share(name: str, value: float | None, was: float | None, small: str) -> TrialFigure:
    if value is None:
        return TrialFigure(name, number(None), small, "", "")
    grade = "" if was is None or value == was else "ok" if value > was else "high"
    return TrialFigure(name, f"{value:.2f}", small, "" if was is None else f"was {was:.2f}", grade)


def _money(name: str, value: float, was: float | None, money: Any) -> TrialFigure:
    decimals = 0 if money is None or money.decimals == "currency" else money.decimals
    scaled = f"{Decimal(str(value)).scaleb(-decimals):,}"
    before = "" if was is None else f"was {Decimal(str(was)).scaleb(-decimals):,}"
    return TrialFigure(name, scaled, "", before, "" if was is None or value == was else "ok" if value > was else "high")


def _changes(found: Iterable[Mapping[str, Any]]) -> Iterable[AlertChange]:
    for each in found:
        yield AlertChange(each["record_id"], str(each["event_time"])[:19].replace("T", " "), each["message"])


def blasted(body: Mapping[str, Any] | None) -> Blasted | None:
    """The nearest frauds that are missed, and the nearest good customers that are met; None without labels."""
    if body is None:
        return None
    missed = tuple(_blast_row(each, "") for each in body["missed"])
    met = tuple(_blast_row(each, "once" if each["times"] == 1 else f"{each['times']:,} times") for each in body["met"])
    return Blasted(missed, body["missed_count"], met, body["met_count"])


def _blast_row(row: Mapping[str, Any], by: str) -> BlastRow:
    entities = tuple((str(value), entity_address(name, str(value))) for name, value in row["key"].items())
    return BlastRow(row["record_id"], entities, row.get("why") or row.get("message") or "", by)


def sample_of(job: Mapping[str, Any]) -> Sample:
    """As the page shows it."""
    found = job["result"] or {}
    rows: Mapping[str, Any] = found if isinstance(found, Mapping) else found[0]
    return Sample(
        job_id=job["job_id"],
        state=job["state"],
        error=job["error"] or "",
        alerts=rows.get("alerts", 0),
        first=tuple(_sample_rows(rows.get("first", ()), "message")),
        near=tuple(_sample_rows(rows.get("near", ()), "why")),
    )


def _sample_rows(found: Iterable[Mapping[str, Any]], text: str) -> Iterable[SampleRow]:
    for each in found:
        entities = tuple((str(value), entity_address(name, str(value))) for name, value in each["key"].items())
        yield SampleRow(each["record_id"], entities, each[text])
