"""Proof of a rule's effect on history: digests of its text, of the data and of the result, and predictions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from crossline.analysis.detection_quality import Alert, FraudLabels, compare_alert_sets
from crossline.analysis.forecast import forecast, forecast_sum
from crossline.analysis.health.shares import Precision
from crossline.backtest.compare import compare
from crossline.backtest.workbench.blast_radius import BlastRadius
from crossline.backtest.workbench.interval import DAY_MS, Interval
from crossline.backtest.workbench.joint_run import JointRun
from crossline.basics.times import instant_text, parse_instant_ms
from crossline.io.files.patterns import matching_files

KIND = "crossline proof"
_PIECE = 1 << 20


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON value, independent of the order of its names.

    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def file_digests(inputs: Mapping[str, Sequence[str]], root: Path) -> list[dict[str, Any]]:
    """The input files, by stream: their names relative to ``root``, their sizes, their digests."""
    found = []
    for stream in sorted(inputs):
        for path in map(Path, matching_files(inputs[stream])):
            whole = path.resolve()
            name = str(whole.relative_to(root)) if whole.is_relative_to(root) else str(whole)
            digest = hashlib.sha256()
            with whole.open("rb") as file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
            found.append({"stream": stream, "name": name, "bytes": whole.stat().st_size, "sha256": digest.hexdigest()})
    return found


def result_of(alerts: Iterable[Alert], begin_ms: int, end_ms: int) -> dict[str, Any]:
    """The result of alerts: their count by day (UTC), and a digest of their records.

    The first and the last day may be incomplete.
    """
    mine = sorted((str(each["stream"]), str(each["record_id"]), digest_of(each["key"])) for each in alerts)
    days = [0] * ((end_ms - 1) // DAY_MS - begin_ms // DAY_MS + 1)
    for each in alerts:
        days[parse_instant_ms(each["event_time"]) // DAY_MS - begin_ms // DAY_MS] += 1
    return {"alerts": len(mine), "by_day": days, "hits_sha256": digest_of([list(each) for each in mine])}


def predictions_of(
    alerts: Sequence[Alert],
    span_ms: tuple[int, int],
    by_day: Sequence[int],
    marks: FraudLabels | None = None,
    amounts: Mapping[str, float] | None = None,
    amount: str | None = None,
) -> dict[str, Any]:
    """Predictions from history, each with its interval; unknown ones are None.

    Alerts per day; money: the daily sum of field ``amount`` of the alerts' own records, in its own unit; precision: of
    alerts whose own record has a label. No digest covers them: they follow from the digested data and the labels.
    """
    begin_ms, end_ms = span_ms
    days = (end_ms - begin_ms) / DAY_MS
    money: dict[str, Any] | None = None
    if amounts is not None and alerts:
        sums, squares = [0.0] * len(by_day), 0.0
        for each in alerts:
            value = amounts.get(each["record_id"], 0.0)
            sums[parse_instant_ms(each["event_time"]) // DAY_MS - begin_ms // DAY_MS] += value
            squares += value * value
        money = {"field": amount, **forecast_sum(sums, squares, days).to_json()}
    precision: dict[str, Any] | None = None
    if marks is not None:
        lines = [verdict for each in alerts if (verdict := marks.verdict(each["record_id"])) is not None]
        found = Precision(sum(lines), len(lines))
        low, high = found.interval or (None, None)
        precision = {"true": sum(lines), "labels": len(lines), "value": found.value, "low": low, "high": high}
    return {**forecast(by_day, days).to_json(), "money": money, "precision": precision}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule whose effect is proven. ``against``: the live version; None: there is none.

    ``body``: the digest of the whole rule, including the files that its text names.
    """

    rule_id: str
    version: int
    text: str
    reads: Mapping[str, int]
    against: int | None
    body: str


def proof_of(
    candidate: Candidate,
    files: Sequence[Mapping[str, Any]],
    found: JointRun,
    interval: Interval,
    marks: FraudLabels | None = None,
    amount: str | None = None,
    blast: BlastRadius | None = None,
) -> dict[str, Any]:
    """The proof.

    ``found``: what the candidate finds in ``files``, then what the live version does, if there is one. ``amount``: the
    field that ``found.amounts`` are of. ``blast``: what saw the same records, where there are labels.
    """
    first_ms = min(each.first_ms for each in found.spans.values())
    last_ms = max(each.last_ms for each in found.spans.values())
    begin_ms, end_ms = interval.within(first_ms, last_ms)
    days = (end_ms - begin_ms) / DAY_MS
    sets = [
        [each for each in alerts if each["rule_id"] == candidate.rule_id and interval.has(each)]
        for alerts in found.alerts
    ]
    result = result_of(sets[0], begin_ms, end_ms)
    data = {"files": list(files), "from": instant_text(begin_ms), "to": instant_text(end_ms), "records": found.records}
    given = {"from_ms": interval.from_ms, "to_ms": interval.to_ms}
    live = sets[1] if len(sets) > 1 else []
    one, other = compare_alert_sets(sets[0], live, days, marks, found.amounts)
    changed = compare(live, sets[0]).get(candidate.rule_id)
    return {
        "kind": KIND,
        "schema_version": 1,
        "rule_id": candidate.rule_id,
        "version": candidate.version,
        "text": candidate.text,
        "reads": dict(candidate.reads),
        "interval": given,
        "data": data,
        "result": result,
        "predicted": predictions_of(sets[0], (begin_ms, end_ms), result["by_day"], marks, found.amounts, amount),
        "digests": {
            "rule": hashlib.sha256(candidate.text.encode()).hexdigest(),
            "body": candidate.body,
            "data": digest_of({"files": [[each["stream"], each["sha256"]] for each in files], **given}),
            "result": digest_of(result),
        },
        "against": {
            "version": candidate.against,
            "appear": 0 if changed is None else changed.appear,
            "disappear": 0 if changed is None else changed.disappear,
            "both": 0 if changed is None else changed.both,
            "appearing": [] if changed is None else changed.appearing,
            "disappearing": [] if changed is None else changed.disappearing,
        },
        "draft": one.as_json(),
        "live": None if candidate.against is None else other.as_json(),
        "blast": None if blast is None else blast.to_json(sets[0], live),
    }


def differences(proof: Mapping[str, Any], again: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The differences of another run, by name; empty if it is the same."""
    found = []
    words = {"rule": "text of the rule", "body": "files that the rule names", "data": "data", "result": "result"}
    for name, what in words.items():
        one, other = proof["digests"].get(name), again["digests"][name]
        if name == "body" and (one is None or proof["digests"].get("rule") != again["digests"]["rule"]):
            continue  # an older proof without this digest, or another text, which is reported already
        if one != other:
            found.append({"what": what, "proof": one, "again": other})
    for name in ("alerts", "by_day"):
        one, other = proof["result"].get(name), again["result"][name]
        if one != other:
            found.append(
                {"what": {"alerts": "alerts", "by_day": "alerts of each day"}[name], "proof": one, "again": other}
            )
    if proof.get("reads") != again["reads"]:
        found.append({"what": "rules whose hits it reads", "proof": proof.get("reads"), "again": again["reads"]})
    return found
