"""The report of a drill: Markdown to read, JSON to compare, and a plot of lag and latency over the faults."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.report import commit, machine, percentile, table_text, versions

from chaos.drill import Outcome, Passed
from chaos.results.plot import Band, Panel, svg

POINTS_MAX = 20_000  # of a series in the report
TAIL_S = 2.0  # behind the last fault, in the figures of quiet spans


def write(outcome: Outcome, folder: Path) -> Path:
    """The report in ``folder``; the path of its markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lag.svg").write_text(picture(outcome), encoding="utf-8")
    body = {"commit": commit(), "machine": machine(), "versions": versions(), "load_average": os.getloadavg()}
    body |= {"ended": datetime.now(UTC).isoformat(timespec="seconds"), **figures(outcome)}
    (folder / "report.json").write_text(json.dumps(body, indent=1, default=str) + "\n", encoding="utf-8")
    path = folder / "report.md"
    path.write_text(text(outcome, body), encoding="utf-8")
    return path


def figures(outcome: Outcome) -> dict[str, Any]:
    """All of it as JSON values."""
    return {
        "good": outcome.good,
        "seed": outcome.plan.seed,
        "rate_per_s": outcome.rate_per_s,
        "peak": None if outcome.peak is None else asdict(outcome.peak),
        "share_of_peak": outcome.plan.of_peak,
        "seconds": round(outcome.seconds, 1),
        "counting_s": round(outcome.counting_s, 1),
        "memory_of_the_drill_mb": outcome.memory_mb,
        "transactions_ended_for_the_broker": outcome.mended,
        "by_kind": by_kind(outcome.passed),
        "sent": outcome.sent,
        "expected": outcome.counts,
        "api": None if outcome.api is None else {**outcome.api.figures, "starts": len(outcome.api.starts)},
        "faults_struck": len(outcome.passed),
        "starts_of_the_driver": len(outcome.starts),
        "exit_codes": dict(Counter(str(each.code) for each in outcome.starts)),
        "wrong": outcome.faults_of_drill,
        "findings": [{"good": each.good, **asdict(each)} for each in outcome.findings],
        "faults": [_of(each) for each in outcome.passed],
        "latency_ms": latencies(outcome),
        "lag": [(round(at_s, 1), lag) for at_s, lag in outcome.lags],
        "latency": [(round(at_s, 2), round(ms, 1)) for at_s, ms in _thinned(outcome.latencies)],
    }


def by_kind(passed: Sequence[Passed]) -> list[dict[str, Any]]:
    """How often each kind was struck, alone and with others, and how long it took to get over it where it was alone."""
    rows = []
    for kind in sorted({kind for each in passed for kind in each.fault.kinds}):
        of_it = [each for each in passed if kind in each.fault.kinds]
        alone = [each for each in of_it if len(each.fault.kinds) == 1]
        times = sorted(_after_s(each) for each in alone if each.over_s is not None and not each.fault.hurried)
        row: dict[str, Any] = {"kind": kind, "struck": len(of_it), "alone": len(alone)}
        row |= {"median_s": round(percentile(times, 0.5), 1) if times else None, "max_s": times[-1] if times else None}
        rows.append(row)
    return rows


def _after_s(each: Passed) -> float:
    return round((each.over_s or each.healed_s) - each.healed_s, 1)


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Each so many-th: enough to draw it again. Percentiles are of all."""
    return points[:: max(1, len(points) // POINTS_MAX)]


def _of(each: Passed) -> dict[str, Any]:
    return {
        "number": each.fault.number,
        "kinds": each.fault.kinds,
        "hurried": each.fault.hurried,
        "met": each.met,
        "said": each.strikes,
        "began_s": round(each.began_s, 2),
        "healed_s": round(each.healed_s, 2),
        "over_s": None if each.over_s is None else round(each.over_s, 2),
        "lag_max": each.lag_max,
    }


def latencies(outcome: Outcome) -> dict[str, dict[str, float]]:
    """Percentiles of all alerts, and of those that were read while no fault was at work or being got over."""
    spans = [(each.began_s, (each.over_s or outcome.seconds) + TAIL_S) for each in outcome.passed]
    first = min((began for began, _ in spans), default=0.0)
    quiet = [
        ms
        for at_s, ms in outcome.latencies
        if at_s >= first and not any(began <= at_s <= over for began, over in spans)
    ]
    found = {}
    for name, ms in (("all", [ms for _, ms in outcome.latencies]), ("without a fault", quiet)):
        if ms:
            found[name] = {f"p{share}": round(percentile(ms, share / 100), 1) for share in (50, 90, 99)}
            found[name] |= {"max": round(max(ms), 1), "alerts": len(ms)}
    return found


def picture(outcome: Outcome) -> str:
    """Lag and latency over time, each fault a band."""
    bands = [
        Band(each.began_s, each.healed_s, each.over_s or outcome.seconds, f"{each.fault.number} {each.fault.name}")
        for each in outcome.passed
    ]
    panels = [
        Panel("lag: records that the broker had and no committed batch (logarithmic)", outcome.lags, line=True),
        Panel(
            "latency: milliseconds from when a record was due to its alert being read", outcome.latencies, line=False
        ),
    ]
    end_s = max([at_s for at_s, _ in outcome.lags], default=1.0)
    title = f"chaos drill, seed {outcome.plan.seed}, {outcome.rate_per_s:g} records/s, {len(bands)} faults"
    return svg(title, panels, bands, end_s)


def text(outcome: Outcome, body: dict[str, Any]) -> str:
    """The report to read."""
    verdict = "Nothing was lost, nothing came twice, every lag was got over." if outcome.good else "NOT GOOD."
    summary = (
        f"{verdict} {outcome.sent:,} records at {outcome.rate_per_s:g} a second, {len(outcome.passed)} faults, "
        f"{outcome.seconds / 60:.1f} minutes, {len(outcome.starts)} starts of the driver. Commit {body['commit']}, "
        f"{body['machine']['cores']} cores, load average {body['load_average'][0]:.1f} at the end."
    )
    lines = [
        f"# Chaos drill, seed {outcome.plan.seed}",
        "",
        summary,
        "",
        *(f"- {each}" for each in outcome.faults_of_drill),
        *_of_the_rate(outcome),
        *(f"- The broker's, mended by the drill at {at_s:.0f} s: {what}." for at_s, what in outcome.mended),
        "",
        "![lag and latency](lag.svg)",
        "",
        "Expected, from the producer's log and a backtest of it: "
        + ", ".join(f"{count:,} {name}" for name, count in outcome.counts.items())
        + ".",
        "",
        "```",
        findings_table(outcome),
        "```",
        "",
        *_of_the_api(outcome),
        "Each fault: how long it lasted; how long after that all that had come was committed, and no more waited than",
        "two seconds bring; the highest lag.",
        "",
        "```",
        faults_table(outcome.passed),
        "```",
        "",
        "By kind, the seconds of those that came alone and were waited for:",
        "",
        "```",
        table_text(body["by_kind"] or [{"kind": "none"}]),
        "```",
        "",
        "Milliseconds from when a record was due until its alert was read from the topic:",
        "",
        "```",
        table_text(
            [{"alerts read": name, **ms} for name, ms in body["latency_ms"].items()] or [{"alerts read": "none"}]
        ),
        "```",
        "",
    ]
    wrong = [each for each in outcome.findings if not each.good]
    lines += [f"- {each.sink}, {each.what}: {example}" for each in wrong for example in each.examples]
    return "\n".join(lines) + "\n"


def _of_the_rate(outcome: Outcome) -> list[str]:
    held = ", ".join(f"{megabytes:.0f} MB {when}" for when, megabytes in outcome.memory_mb.items())
    text_lines = [f"- The drill itself held {held}. The count took {outcome.counting_s:.0f} s."]
    if outcome.peak is not None:
        steps = ", ".join(f"{rate:.0f}/s: {behind:g} s behind" for rate, behind in outcome.peak.steps)
        text_lines.append(
            f"- Sustained with nothing struck: {outcome.peak.per_s:.0f} records a second ({steps}); "
            f"{outcome.plan.of_peak or 0:.0%} of it was sent."
        )
    return text_lines


def _of_the_api(outcome: Outcome) -> list[str]:
    """What callers of the API saw."""
    if outcome.api is None:
        return []
    return ["The decision API, asked during all of it:", "", "```", api_text(outcome), "```", ""]


def api_text(outcome: Outcome) -> str:
    """What the API's caller noted, in lines."""
    if outcome.api is None:
        return ""
    found = outcome.api.figures
    rows = [
        f"{found['asks']:,} asks about {found['records']:,} records: {_counts(found['by_why'])}",
        f"answered: {_counts(found['answered'])}; {found['replayed']:,} of them replayed",
        f"statuses of tries (0: none): {_counts(found['statuses'])}",
        f"degraded: {_counts(found['degraded'])}",
        f"beyond the deadline {found['beyond_the_deadline']:,}, by more than 20 ms {found['beyond_it_by_20_ms']:,}",
        f"at most {found['most_beyond_ms']:g} ms beyond it; the caller was run {found['most_late_ms']:g} ms late",
        f"{found['ids_answered']:,} ids answered; their records in the topic: {_counts(found['in_the_topic'])}",
        f"{found['kept']:,} answers kept, {found['revised']:,} with revisions",
        f"{found['copied']:,} ids stand in the topic twice; {found['not_compared']:,} (no rule holds) not compared",
        f"the stream decided about: {_counts(found['compared_with_the_stream'])}",
        f"of these otherwise at first: {_counts(found['decided_otherwise'])}",
        f"receipts judged again: {_counts(found['receipts_judged_again'])}",
        f"starts of the server: {len(outcome.api.starts)}",
    ]
    return "\n".join([*rows, "", table_text(found["waits"])])


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"


def findings_table(outcome: Outcome) -> str:
    """One row for each thing that was counted."""
    return table_text(
        [
            {
                "sink": each.sink,
                "what": each.what,
                "expected": each.expected,
                "found": each.found,
                "lost": each.lost,
                "twice": each.doubled,
                "strange": each.strange,
                "differs": each.other,
            }
            for each in outcome.findings
        ]
    )


def faults_table(passed: Sequence[Passed]) -> str:
    """One row for each fault."""
    return table_text(
        [
            {
                "": each.fault.number,
                "at_s": round(each.began_s),
                "what": "; ".join(each.strikes),
                "lasted_s": round(each.healed_s - each.began_s, 1),
                "over_after_s": None if each.over_s is None else round(each.over_s - each.healed_s, 1),
                "lag_max": each.lag_max,
            }
            for each in passed
        ]
        or [{"what": "no fault was struck"}]
    )
