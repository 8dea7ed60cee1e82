"""The drill's report on the API: what was compared with what, and the latencies of clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import percentile

from chaos.api_load.request_log import Ask, read_notes
from chaos.checks.alert_check import Sorter
from chaos.checks.answers import Facts, chained, decided_on, findings_of, judged_again, kept_in
from chaos.checks.ledger import Finding
from chaos.load.log import id_of
from chaos.parts.api import Api
from chaos.parts.supervised import Start
from chaos.pipeline import NAME, PUBLIC_KEY, write_replay

RECEIPTS = 3  # each is a backtest up to its record


@dataclass(frozen=True, slots=True)
class Answering:
    """``figures``: how asks were answered, and how long it took; ``starts``: of the server."""

    findings: list[Finding]
    figures: dict[str, Any]
    starts: list[Start]


def answering_of(root: Path, api: Api, brokers: str, sorter: Sorter, receipts: int = RECEIPTS) -> Answering:
    """Count; ``sorter`` knows what must become of each record that came through the API. Nothing runs any more.

    ``receipts``: of each way to answer, so many are judged again.
    """
    copied = frozenset(map(id_of, sorter.copied))
    facts = Facts(read_notes(api.notes), sorter.asked, decided_on(brokers), kept_in(api.ledger), copied)
    findings = [*findings_of(facts), chained(api.ledger, len(facts.kept), root / PUBLIC_KEY)]
    replay = write_replay(root, root / "replay" / "log.jsonl", name=NAME)
    again, results = judged_again(facts, root, replay, receipts)
    return Answering([*findings, again], {**figures(facts), "receipts_judged_again": dict(results)}, api.served.starts)


def figures(facts: Facts) -> dict[str, Any]:
    """Counts, and milliseconds."""
    asks = facts.asks
    ended = [(ask, ask.answer) for ask in asks if ask.answer is not None]
    beyond = [answer.waited_ms - ask.deadline_ms for ask, answer in ended]
    fallback = Counter(each.partition(":")[0] for _, answer in ended for each in answer.degraded)
    compared = Counter(kept.answered for name, kept in facts.kept.items() if facts.stream.get(name))
    differ = Counter(
        kept.answered
        for name, kept in facts.kept.items()
        if facts.stream.get(name) and kept.decision != facts.stream[name][0]["decision"]
    )
    return {
        "asks": len(asks),
        "records": len({ask.record_id for ask in asks}),
        "by_why": dict(Counter(ask.why for ask in asks)),
        "answered": dict(Counter(answer.answered for _, answer in ended)),
        "replayed": sum(answer.replayed for _, answer in ended),
        "statuses": {str(status): count for status, count in _statuses(asks).items()},
        "degraded": dict(fallback),
        "in_the_topic": dict(Counter(facts.topic.values())),
        "ids_answered": len(facts.answered),
        "kept": len(facts.kept),
        "copied": len(facts.copied),
        "not_compared": sum(bool(facts.stream.get(name)) for name in facts.kept) - len(facts.settled),
        "revised": sum(bool(kept.revisions) for kept in facts.kept.values()),
        "compared_with_the_stream": dict(compared),
        "decided_otherwise": dict(differ),
        "waits": [_wait_row(mode, [pair for pair in ended if pair[0].mode == mode]) for mode in ("peek", "exact")],
        "beyond_the_deadline": sum(each > 0 for each in beyond),
        "beyond_it_by_20_ms": sum(each > 20 for each in beyond),
        "most_beyond_ms": round(max(beyond, default=0.0), 1),
        "most_late_ms": round(max((answer.late_ms for _, answer in ended), default=0.0), 1),
    }


def _statuses(asks: Sequence[Ask]) -> Counter[int]:
    return Counter(status for ask in asks if ask.answer is not None for status in ask.answer.statuses)


def _wait_row(mode: str, ended: Sequence[Any]) -> dict[str, Any]:
    """Of asks that the API answered for the first time."""
    waits = sorted(answer.waited_ms for ask, answer in ended if answer.by_the_api and ask.why == "first")
    row: dict[str, Any] = {"mode": mode, "answered": len(waits)}
    for share in (50, 90, 99):
        row[f"p{share}_ms"] = round(percentile(waits, share / 100), 1) if waits else None
    return row
