"""A backtest as a job: how far it is, what it found, and the proof that it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from crossline.serve.console.asked import Asked
from crossline.serve.console.calling import called
from crossline.serve.console.layout.numbers import number
from crossline.serve.console.pages.rules.context import Change, Figure, Trial, TrialPart
from crossline.serve.http.problems import ProblemError

JOB = "/v1/jobs/{job_id}"


async def view(asked: Asked) -> TrialPart:
    """The part of the page that changes."""
    return TrialPart(await trial_of(asked, asked.path["job_id"]), asked.token, asked.nonce)


async def stop(asked: Asked) -> TrialPart:
    """End it."""
    await called(asked, "DELETE", JOB, {"job_id": asked.path["job_id"]})
    return TrialPart(await trial_of(asked, asked.path["job_id"]), asked.token, asked.nonce)


async def trial_of(asked: Asked, job_id: str) -> Trial:
    """A job of who asks; the API keeps its proof, once it is done."""
    try:
        job = await called(asked, "GET", JOB, {"job_id": job_id})
    except ProblemError as error:
        if error.status != 404:
            raise
        return told({"job_id": job_id, "state": "failed", "progress": {}, "error": error.detail, "result": None})
    return told(job, asked.parts.settings.cases.money)


def told(job: Mapping[str, Any], money: Any = None) -> Trial:
    """As the page shows it."""
    said = job["result"] or {}
    progress = job["progress"] or {}
    against = said.get("against", {})
    return Trial(
        job_id=job["job_id"],
        state=job["state"],
        said=progress.get("said") or "",
        share=progress.get("share") or 0.0,
        error=job["error"] or "" if job["state"] in {"failed", "ended"} else "",
        past=past_said(said),
        figures=tuple(figures_of(said, money)) if said else (),
        against=against.get("version") or 0,
        appear=against.get("appear", 0),
        disappear=against.get("disappear", 0),
        both=against.get("both", 0),
        appearing=tuple(_changes(against.get("appearing", ()))),
        disappearing=tuple(_changes(against.get("disappearing", ()))),
        proof=proof_rows(said) if said else (),
        predicted=predicted_said(said) if said else "",
    )


def past_said(said: Mapping[str, Any]) -> str:
    """Of which past it is."""
    if not said:
        return ""
    data = said["data"]
    return (
        f"{data['from'][:16].replace('T', ' ')} to {data['to'][:16].replace('T', ' ')} UTC, {data['records']:,} records"
    )


def predicted_said(said: Mapping[str, Any]) -> str:
    """``8 to 12 alerts a day``."""
    ahead = said["predicted"]
    return f"{number(round(ahead['low'], 1))} to {number(round(ahead['high'], 1))} alerts a day"


def proof_rows(said: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Digests of rule, data and result."""
    digests = said["digests"]
    return (
        ("Rule", f"{said['rule_id']}, version {said['version']}", digests["rule"]),
        ("Data", past_said(said), digests["data"]),
        ("Result", f"{said['result']['alerts']:,} alerts; predicted {predicted_said(said)}", digests["result"]),
    )


def figures_of(said: Mapping[str, Any], money: Any = None) -> Iterable[Figure]:
    """Each figure beside that of the live version."""
    mine, live = said["draft"], said["live"] or {}
    was = f"was {number(live['alerts_per_day'])}" if live else "no version is live"
    yield Figure("Alerts a day", number(mine["alerts_per_day"]), "", was, "")
    if "precision" not in mine:
        yield Figure("Frauds found", "unknown", "no labels", "", "")
        return
    yield _share("Precision", mine["precision"], live.get("precision"), f"of {mine['alerts']:,}")
    yield _share("Recall", mine["recall"], live.get("recall"), f"of {mine['frauds']:,}")
    if mine.get("money_caught") is not None:
        yield _money("Fraud found", mine["money_caught"], live.get("money_caught"), money)
    met, before = mine["alerts"] - mine["true"], live.get("alerts", 0) - live.get("true", 0)
    grade = "high" if live and met > before else "ok" if live and met < before else ""
    yield Figure("Not on frauds", number(met), "alerts", f"was {number(before)}" if live else "", grade)


def _share(name: str, value: float | None, was: float | None, small: str) -> Figure:
    if value is None:
        return Figure(name, number(None), small, "", "")
    grade = "" if was is None or value == was else "ok" if value > was else "high"
    return Figure(name, f"{value:.2f}", small, "" if was is None else f"was {was:.2f}", grade)


def _money(name: str, value: float, was: float | None, money: Any) -> Figure:
    decimals = 0 if money is None else money.decimals
    scaled = f"{Decimal(str(value)).scaleb(-decimals):,}"
    before = "" if was is None else f"was {Decimal(str(was)).scaleb(-decimals):,}"
    return Figure(name, scaled, "", before, "" if was is None or value == was else "ok" if value > was else "high")


def _changes(found: Iterable[Mapping[str, Any]]) -> Iterable[Change]:
    for each in found:
        yield Change(each["record_id"], str(each["event_time"])[:19].replace("T", " "), each["message"])
