"""The blast radius against brute force: over random records, labels and lines, in the whole past and in a part."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crossline.cli.init import template_files
from crossline.cli.main import run_command

HOUR_MS, SHOWN = 3_600_000, 10
FIRST_MS = 1_772_323_200_000  # 2026-03-01T00:00:00Z
PART = (FIRST_MS + 10 * HOUR_MS, FIRST_MS + 40 * HOUR_MS)
AMOUNT = """\
rule_id: large
version: {version}
rule_type: threshold
source_topic: payments
entity: account_id
conditions:
  - {{field: amount_cents, operator: ">=", value: {line}}}
severity: medium
"""
COUNT = """\
rule_id: many
version: {version}
rule_type: velocity
source_topic: payments
group_by: account_id
aggregation_type: count
aggregation_threshold: {line}
window: 6h
emit: every
severity: medium
"""


@dataclass(frozen=True)
class Payment:
    record_id: str
    account: str
    amount: int
    at_ms: int
    fraud: bool


def instant(ms: int) -> str:
    day, rest = divmod((ms - FIRST_MS) // 1000, 86_400)
    return f"2026-03-{day + 1:02}T{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}Z"


def made(seed: int) -> list[Payment]:
    """Payments of five accounts over two days; no two at once, no two amounts alike."""
    drawn = random.Random(seed)
    times = sorted(drawn.sample(range(2 * 24 * 60), 60))
    amounts = drawn.sample(range(100, 1_000), 60)
    return [
        Payment(f"p{n}", f"a{drawn.randrange(5)}", amount, FIRST_MS + 60_000 * at, drawn.random() < 0.25)
        for n, (at, amount) in enumerate(zip(times, amounts, strict=True))
    ]


def written(folder: Path, payments: list[Payment], live: str, draft: str) -> None:
    """A pipeline's folder with these payments as its past, their labels, and both versions."""
    for name, content in template_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    for each in (*(folder / "rules").iterdir(), *(folder / "in").iterdir()):
        each.unlink()
    (folder / "rules/live.yaml").write_text(live)
    (folder / "draft.yaml").write_text(draft)
    (folder / "labels.csv").write_text(
        "record_id,is_fraud\n" + "".join(f"{each.record_id},{each.fraud:d}\n" for each in payments)
    )
    rows = (
        {
            "payment_id": each.record_id,
            "account_id": each.account,
            "amount_cents": each.amount,
            "merchant_id": "m1",
            "channel": "card",
            "country": "DE",
            "paid_at": instant(each.at_ms),
        }
        for each in payments
    )
    (folder / "in/past.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))


def counted(payments: list[Payment], mine: Payment) -> list[Payment]:
    """Those of its account in the six hours up to it."""
    near = (each for each in payments if mine.at_ms - 6 * HOUR_MS < each.at_ms <= mine.at_ms)
    return [each for each in near if each.account == mine.account]


def brute(payments: list[Payment], rule: str, line: int, live: int, span: tuple[int, int]) -> dict[str, Any]:
    """The expected report, from every payment: its figure, the evidence, the distance from the threshold."""
    inside = [each for each in payments if span[0] <= each.at_ms < span[1]]
    rests = {each.record_id: [each] if rule == AMOUNT else counted(payments, each) for each in inside}
    figure = {each.record_id: each.amount if rule == AMOUNT else len(rests[each.record_id]) for each in inside}
    alerts = [each for each in inside if figure[each.record_id] >= line]
    caught = {part.record_id for each in alerts for part in rests[each.record_id] if part.fraud}
    frauds = [each for each in inside if each.fraud]
    left = sorted(
        (each for each in frauds if each.record_id not in caught), key=lambda each: line - figure[each.record_id]
    )
    good = [each for each in alerts if not any(part.fraud for part in rests[each.record_id])]
    newly = [each for each in good if figure[each.record_id] < live]
    keys = {each.account: [one for one in newly if one.account == each.account] for each in newly}
    nearest = {key: min(figure[each.record_id] for each in several) for key, several in keys.items()}
    return {
        "missed": [each.record_id for each in left],
        "short": {each.record_id: line - figure[each.record_id] for each in left},
        "met": {key: (nearest[key], len(several)) for key, several in keys.items()},
        "good": len({each.account for each in good}),
    }


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize(("rule", "line", "live"), [(AMOUNT, 600, 800), (COUNT, 3, 4)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_nearest_frauds_missed_and_good_customers_met_are_those_of_brute_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int, rule: str, line: int, live: int, part: bool
) -> None:
    payments, span = made(seed), PART if part else (0, 2**53)
    written(tmp_path, payments, rule.format(version=1, line=live), rule.format(version=2, line=line))
    given = ["rules", "prove", str(tmp_path / "draft.yaml"), "--pipeline", str(tmp_path / "pipeline.yaml"), "--json"]
    bounds = ["--from", instant(span[0]), "--to", instant(span[1])] if part else []
    assert run_command([*given, "--labels", str(tmp_path / "labels.csv"), *bounds]) == 0
    found = json.loads(capsys.readouterr().out)
    expected, blast = brute(payments, rule, line, live, span), found["blast"]
    assert found["draft"]["frauds"] == sum(each.fraud for each in payments if span[0] <= each.at_ms < span[1])
    assert blast["missed_count"] == len(expected["missed"])
    missed = [each["record_id"] for each in blast["missed"]]
    short = [expected["short"][each] for each in missed]
    assert short == sorted(expected["short"].values())[:SHOWN]
    assert blast["met_count"] == len(expected["met"])
    assert blast["good"]["draft"] == expected["good"]
    met = [(each["key"]["account_id"], each["times"]) for each in blast["met"]]
    assert dict(met) == {key: times for key, (_, times) in expected["met"].items()}
    figures = [expected["met"][key][0] for key, _ in met]
    assert figures == sorted(figures), "the nearest to the line come first"
    assert expected["missed"]
    assert len(expected["met"]) > 0


def test_thresholds_count_what_is_in_the_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    payments = made(7)
    written(tmp_path, payments, AMOUNT.format(version=1, line=800), AMOUNT.format(version=2, line=600))
    pipeline, bounds = str(tmp_path / "pipeline.yaml"), ["--from", instant(PART[0]), "--to", instant(PART[1])]
    given = ["rules", "suggest-threshold", str(tmp_path / "draft.yaml"), "--rule", "large", "--pipeline", pipeline]
    labels = ["--labels", str(tmp_path / "labels.csv")]
    assert run_command([*given, "--steps", "4", "--also", "800", *labels, *bounds, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    inside = [each for each in payments if PART[0] <= each.at_ms < PART[1]]
    lines = [each["threshold"] for each in found["judged"]]
    assert 600 in lines
    assert 800 in lines
    for each in found["judged"]:
        beyond = [one for one in inside if one.amount >= each["threshold"]]
        frauds = sum(one.fraud for one in beyond)
        assert (each["alerts"], each["caught"], each["frauds"]) == (
            len(beyond),
            frauds,
            sum(one.fraud for one in inside),
        )
    assert found["days"] == pytest.approx(30 / 24)
    assert run_command([*given, *labels, *bounds]) == 2
    assert "name --steps N" in capsys.readouterr().err
    late = ["--from", "2027-01-01T00:00:00Z"]
    assert run_command([*given, "--steps", "4", *late]) == 2
    assert "found no record in the interval" in capsys.readouterr().err
