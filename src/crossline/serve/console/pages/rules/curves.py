"""What a rule would find at other thresholds: computed once as a job, then a row for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossline.basics.errors import UsageError
from crossline.plan.compose import sources_of
from crossline.programs.thresholds import ThresholdLine
from crossline.rules.ruleset import RuleSet
from crossline.serve.approvals.texts import text_of, the_rule
from crossline.serve.console.api_calls import called
from crossline.serve.console.charts.curve import CurvePoint, curve, curve_x
from crossline.serve.console.layout.numbers import number
from crossline.serve.console.pages.rules.editor_parts import Curve, CurvePart, CurveRow
from crossline.serve.console.request import PageRequest
from crossline.serve.http.problems import ProblemError, invalid
from crossline.serve.http.reads.rules import current_of, versions_of
from crossline.settings.config import PipelineConfig

JOB = "/v1/jobs/{job_id}"
WIDTHS = (640, 440, 288)  # pixels: the page shows the widest that there is room for


async def view(asked: PageRequest) -> CurvePart:
    """How far it is, or what it found: at the threshold that it was asked with."""
    job, live = await job_of(asked, asked.path["job_id"]), asked.query.get("live", "")
    present = (job["result"] or {}).get("present", {}).get("threshold")
    try:
        return CurvePart(curve_at(job, present, float(live) if live else None), asked.nonce)
    except ValueError:
        raise invalid("?live", repr(live[:40]), "a number") from None


async def job_of(asked: PageRequest, job_id: str) -> Mapping[str, Any]:
    """The job; one that is not there any more has failed."""
    try:
        found: Mapping[str, Any] = await called(asked, "GET", JOB, {"job_id": job_id})
    except ProblemError as error:
        if error.status != 404:
            raise
        return {"job_id": job_id, "state": "failed", "progress": {}, "error": error.detail, "result": None}
    return found


def threshold_of(config: PipelineConfig, text: str) -> ThresholdLine | None:
    """The one line that the rule of a text draws; None if it is wrong, or draws none."""
    rule = the_rule(config, text)
    if rule is None:
        return None
    try:
        sources = sources_of(RuleSet.from_rules([rule]), config.streams)
        return rule.drawn(sources.of_reading(rule.reading))
    except (UsageError, KeyError, ValueError):
        return None


def live_line(asked: PageRequest, rule_id: str) -> float | None:
    """The threshold of the version in force; None if there is none."""
    config = asked.parts.deps.config
    try:
        drawn = threshold_of(config, text_of(config, current_of(versions_of(config, rule_id)))[0])
    except ProblemError:
        return None
    return None if drawn is None else drawn.threshold


def curve_at(job: Mapping[str, Any], looked_at: float | None, live: float | None) -> Curve:
    """The job as the page shows it. ``looked_at``: the threshold of the draft; ``live``: of the version in force."""
    body, progress = job["result"] or {}, job["progress"] or {}
    named = f"{body['line_of']} {body['operator']}" if body else ""
    begun = (
        job["job_id"],
        job["state"],
        progress.get("message") or "",
        progress.get("share") or 0.0,
        job["error"] or "",
        named,
    )
    rows: Sequence[Mapping[str, Any]] = body.get("judged", ())
    if not rows or looked_at is None:
        return Curve(*begun, live="" if live is None else plain(live))
    points = [CurvePoint(each["threshold"], each["alerts_per_day"], _share(each)) for each in rows]
    scales = [curve_x(points, width) for width in WIDTHS]
    at = min(range(len(points)), key=lambda place: abs(points[place].threshold - looked_at))
    drawn = tuple(_row(each, tuple(round(x(each["threshold"]), 1) for x in scales)) for each in rows)
    summary = conclusion(named, points, at)
    return Curve(
        *begun,
        rows=drawn,
        at=at,
        live="" if live is None else plain(live),
        before=drawn[at - 1].threshold if at else "",
        after=drawn[at + 1].threshold if at + 1 < len(drawn) else "",
        drawings=tuple(curve(points, points[at].threshold, live, width, summary) for width in WIDTHS),
    )


def conclusion(named: str, points: Sequence[CurvePoint], at: int) -> str:
    """What a person would conclude."""
    first, last, here = points[0], points[-1], points[at]
    found = "" if here.found is None else f" and {round(100 * here.found)} % of frauds are found"
    return (
        f"{named}: from {number(first.per_day)} alerts a day at {number(first.threshold)} to {number(last.per_day)} at "
        f"{number(last.threshold)}. At {number(here.threshold)} there are {number(here.per_day)} a day{found}."
    )


def plain(threshold: float) -> str:
    """As it is written in a rule: ``150000``, ``0.5``."""
    return str(int(threshold)) if float(threshold).is_integer() else repr(threshold)


def _share(row: Mapping[str, Any]) -> float | None:
    return row["caught"] / row["frauds"] if row.get("frauds") else None


def _row(row: Mapping[str, Any], places: tuple[float, ...]) -> CurveRow:
    labelled = "caught" in row
    found = f"{row['caught']:,} of {row['frauds']:,}" if labelled else "unknown"
    good = f"{row['alerts'] - row['true']:,}" if labelled else "unknown"
    return CurveRow(plain(row["threshold"]), number(round(row["alerts_per_day"], 2)), found, good, places)
