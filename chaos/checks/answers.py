"""Compares the client's log with the topic, the stream's decisions and the API's ledger.

The client's log is the reference. No figure of the API itself is used.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from chaos.api_load.request_log import FIRST, Ask, asked_id
from chaos.checks.alert_check import DECIDED, IN_TIME
from chaos.checks.contents import Body, read_topic
from chaos.checks.ledger import Finding
from chaos.load.log import record_of
from chaos.pipeline import DECISIONS, SERVED
from crossline.basics.times import parse_instant_ms
from crossline.serve.ledger.reports import check_ledger, receipt_of
from crossline.serve.ledger.schema import LEDGER_FILE
from crossline.serve.ledger.signing import Verifier

SINK = "api"
# The client's own bound: its deadline, and what a program is run late by. See docs/client.md.
BEYOND_MS = 20.0
BEFORE_MS = 2_000  # from the decision of a batch until the API has followed it
CONFLICT = "409 "
REFUSED = "422 "
JUDGE_S_MAX = 900.0
_MARK = b'"record_id":"' + asked_id(0)[:8].encode()


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer in the ledger, and what the stream decided otherwise since, in that order."""

    record_id: str
    decision_id: str
    decision: str
    answered: str
    receipt: str
    at_ms: int
    revisions: tuple[Body, ...] = ()

    @property
    def last(self) -> str:
        """What holds now."""
        return str(self.revisions[-1]["decision"]) if self.revisions else self.decision


@dataclass(slots=True)
class Facts:
    """All that the answers are held to.

    ``topic``: by number, what must become of a record that came through the API; ``stream``: by record the stream's
    decisions, the newest last. ``copied``: ids that stand in the topic more than once.
    """

    asks: Sequence[Ask]
    topic: Mapping[int, str]
    stream: Mapping[str, Sequence[Body]]
    kept: Mapping[str, Kept]
    copied: frozenset[str] = frozenset()
    answered: dict[str, list[Ask]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for ask in self.asks:
            if ask.answer is not None and ask.answer.by_the_api and ask.why != "other":
                self.answered[ask.record_id].append(ask)

    @property
    def settled(self) -> list[Kept]:
        """The answers that must be as the stream decided.

        Of a copy at which no rule holds the API has no line to compare with, as docs/decision-api.md says.
        """
        return [
            kept
            for name, kept in self.kept.items()
            if (sent := self.stream.get(name)) and not (name in self.copied and not sent[-1]["reasons"])
        ]


def decided_on(brokers: str) -> dict[str, list[Body]]:
    """The stream's decisions about records that came through the API, by record, as its topic has them."""
    found: dict[str, list[Body]] = defaultdict(list)
    for message in read_topic(brokers, DECISIONS):
        if _MARK not in message.value():
            continue
        body = orjson.loads(message.value())
        if record_of(body["record_id"]) >= FIRST:
            found[body["record_id"]].append(body)
    for each in found.values():
        each.sort(key=lambda body: body["revision"])
    return found


def kept_in(ledger: Path) -> dict[str, Kept]:
    """The answers in the ledger, by record."""
    answers = "SELECT record_id, decision_id, decision, answered, body, answered_ms FROM answers WHERE body IS NOT NULL"
    later = "SELECT decision_id, body FROM revisions ORDER BY revision, at_ms"
    revisions: dict[str, list[Body]] = defaultdict(list)
    with closing(sqlite3.connect(ledger)) as connection:
        for decision_id, body in connection.execute(later):
            revisions[decision_id].append(orjson.loads(body))
        return {
            row[0]: Kept(
                row[0], row[1], row[2], row[3], orjson.loads(row[4])["receipt"], row[5], tuple(revisions[row[1]])
            )
            for row in connection.execute(answers)
        }


def findings_of(facts: Facts) -> Iterator[Finding]:
    """All but the receipts."""
    yield _in_time(facts.asks)
    yield _in_the_topic(facts)
    yield _decided(facts)
    yield _as_kept(facts)
    yield _settled(facts)
    yield _refused(facts.asks)


def _in_time(asks: Sequence[Ask]) -> Finding:
    """Each ask came to its end, and none later than its deadline, but for what its process was not run."""
    finding = Finding(SINK, "asks, each ended by its deadline", len(asks))
    for ask in asks:
        if ask.answer is None:
            finding.lost += 1
            finding.note("lost", f"ask {ask.number} of {ask.record_id}")
            continue
        finding.found += 1
        beyond_ms = ask.answer.waited_ms - ask.deadline_ms
        if beyond_ms > BEYOND_MS + ask.answer.late_ms:
            finding.other += 1
            finding.note(
                "beyond",
                f"ask {ask.number} of {ask.record_id}, {ask.mode}: {beyond_ms:.0f} ms beyond {ask.deadline_ms:.0f} ms, "
                f"of which its process was not run {ask.answer.late_ms:.0f}; {ask.answer.answered}",
            )
    return finding


def _in_the_topic(facts: Facts) -> Finding:
    finding = Finding(SINK, "ids answered, each in the topic", len(facts.answered))
    for record_id, asks in facts.answered.items():
        if record_of(record_id) in facts.topic:
            finding.found += 1
        else:
            finding.lost += 1
            finding.note("lost", f"{record_id}, answered {_answer_text(asks[0])}")
    return finding


def _decided(facts: Facts) -> Finding:
    """Those that the stream refuses, or gets too late, are in no decision of it; all others must be."""
    must = [name for name in facts.answered if facts.topic.get(record_of(name)) == IN_TIME]
    finding = Finding(SINK, "ids answered, each decided", len(must))
    for record_id in must:
        if facts.stream.get(record_id):
            finding.found += 1
        else:
            finding.lost += 1
            finding.note("lost", f"{record_id}, answered {_answer_text(facts.answered[record_id][0])}")
    for record_id in facts.stream:
        if facts.topic.get(record_of(record_id)) not in DECIDED:
            finding.strange += 1
            finding.note("strange", f"{record_id} is decided, and was late, refused or never there")
    return finding


def _as_kept(facts: Facts) -> Finding:
    """Each answer that a caller had is the one in the ledger: so an id has one."""
    finding = Finding(SINK, "answers, each as in the ledger", sum(map(len, facts.answered.values())))
    for record_id, asks in facts.answered.items():
        kept = facts.kept.get(record_id)
        for ask in asks:
            answer = ask.answer
            if kept is None or answer is None:
                finding.lost += 1
                finding.note("lost", f"{record_id}, answered {_answer_text(ask)}")
                continue
            finding.found += 1
            mine = (answer.decision_id, answer.decision, answer.answered, answer.receipt)
            if mine != (kept.decision_id, kept.decision, kept.answered, kept.receipt):
                finding.other += 1
                finding.note("differs", f"{record_id}: answered {mine}, kept {kept}")
    return finding


def _settled(facts: Facts) -> Finding:
    """What holds in the ledger is what the stream decided last: its answer, or else a revision."""
    decided = facts.settled
    finding = Finding(SINK, "answers or revisions, as the stream", len(decided), len(decided))
    for kept in decided:
        stream = facts.stream[kept.record_id]
        wanted = {each["decision"] for each in stream} if _revised_before(kept, stream) else {stream[-1]["decision"]}
        if kept.last not in wanted:
            finding.other += 1
            finding.note(
                "differs",
                f"{kept.record_id}: answered {kept.decision} ({kept.answered}, at {kept.at_ms}), "
                f"{len(kept.revisions)} revisions, the last {kept.last}; the stream: "
                + ", ".join(f"{each['kind']} {each['decision']}" for each in stream),
            )
    return finding


def _revised_before(kept: Kept, stream: Sequence[Body]) -> bool:
    """Whether the stream revised its decision before there was an answer that the revision could be kept with.

    Such a revision is in no ledger, as docs/decision-api.md says.
    """
    until_ms = kept.at_ms + BEFORE_MS
    return any(each["kind"] != "decision" and parse_instant_ms(each["decided_at"]) <= until_ms for each in stream)


def _refused(asks: Sequence[Ask]) -> Finding:
    """Another body under an id that is answered is refused, and nothing else is, but what does not fit the stream."""
    others = [ask for ask in asks if ask.why == "other" and ask.answer and ask.answer.answered != "unreachable"]
    finding = Finding(SINK, "other bodies, each refused", len(others))
    for ask in others:
        found = ask.answer is not None and ask.answer.problem.startswith(CONFLICT)
        finding.found += found
        finding.other += not found
        if not found:
            finding.note("differs", f"ask {ask.number} of {ask.record_id}: {ask.answer}")
    for ask in asks:
        answer = ask.answer
        if ask.why == "other" or answer is None or answer.answered != "refused":
            continue
        if not (ask.clock_ms > 0 and answer.problem.startswith(REFUSED)):
            finding.strange += 1
            finding.note("strange", f"ask {ask.number} of {ask.record_id} is refused: {answer.problem}")
    return finding


def _answer_text(ask: Ask) -> str:
    answer = ask.answer
    return "never" if answer is None else f"{answer.answered} {answer.decision} (ask {ask.number}, {answer.degraded})"


def chained(ledger: Path, kept: int, public_key: Path) -> Finding:
    """Every answer has a receipt; digests, signatures and chains hold."""
    check = check_ledger(ledger, Verifier.from_file(public_key))
    finding = Finding(SINK, "receipts, signed and chained", kept, check.signed, other=len(check.faults))
    finding.lost = max(0, kept - check.signed)
    for each in check.faults:
        finding.note("differs", f"{each.fault}: {each.replica} {each.sequence}: {each.text}")
    return finding


def judged_again(facts: Facts, root: Path, replay: Path, count: int) -> tuple[Finding, Counter[str]]:
    """Of each way to answer ``count`` receipts through ``crossline verify``; the finding, and the count of each result.

    Each holds or is found altered, which none may be. Where the log gives something else than a peek, which was made
    before all of it was there, `verify` says what.
    """
    chosen: list[Kept] = []
    for how in ("exact", "peek", "fallback"):
        mine = [facts.kept[name] for name in facts.answered if name in facts.kept and facts.stream.get(name)]
        chosen += [kept for kept in mine if kept.answered == how][:count]
    finding, results = Finding(SINK, "receipts, judged again", len(chosen)), Counter[str]()
    for kept in chosen:
        result = _verified(kept, root, replay)
        finding.found += 1
        results[f"{kept.answered}: {result['result']}"] += 1
        wrong = result["result"] not in {"the same", "differs"}
        # The stream's own decision, judged again without what revised it later, is the same.
        wrong |= kept.answered == "exact" and result["result"] != "the same"
        if wrong:
            finding.other += 1
            finding.note("differs", f"{kept.record_id}, {kept.answered}: {json.dumps(result)[:1500]}")
    return finding, results


def _verified(kept: Kept, root: Path, replay: Path) -> dict[str, Any]:
    receipt = root / "receipt.json"
    receipt.write_bytes(orjson.dumps(receipt_of(root / SERVED / LEDGER_FILE, kept.decision_id)))
    command = [sys.executable, "-m", "crossline.cli.main", "verify", str(receipt), "--pipeline", str(replay)]
    done = subprocess.run(
        [*command, "--then", "--json"], capture_output=True, text=True, check=False, timeout=JUDGE_S_MAX, cwd=root
    )
    try:
        result = dict(orjson.loads(done.stdout))
    except orjson.JSONDecodeError:
        return {"result": f"exit code {done.returncode}", "said": done.stderr[-1000:]}
    # The records of the replay have the broker's time as a field, which who asked did not send.
    differs = [each for each in result["differences"] if each["what"] != "record_digest"]
    if result["result"] == "differs":
        result |= {"differences": differs, "result": "differs" if differs else "the same"}
    return result
