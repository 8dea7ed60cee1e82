"""A run over JSON records, from their bytes to its alerts, says the same as plain Python as it does compiled."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

ROOT = Path(__file__).parents[2]
STREAM = """
schema_version: 1
streams:
  taps:
    id: id
    event_time: {field: at}
    fields: {id: string, card: string, at: integer, amount: number, units: integer, shop: string?}
"""
RULE = "source_topic: taps, version: 1, severity: low, group_by: card"
WINDOW = "aggregation_type: sum, aggregation_field: amount, window: 30s, aggregation_threshold: 900"
PANES = "aggregation_type: sum, aggregation_field: units, window: 3m, resolution: 10s, aggregation_threshold: 300"
STEPS = """
      - {name: small, conditions: [{field: amount, operator: "<", value: 10}]}
      - {name: large, conditions: [{field: amount, operator: ">", value: 300}]}"""
RULES = f"""
- {{rule_id: spent, rule_type: velocity, {RULE}, {WINDOW}}}
- {{rule_id: units, rule_type: velocity, {RULE}, {PANES}}}
- rule_id: tried
  rule_type: sequence
  source_topic: taps
  version: 1
  severity: low
  group_by: card
  within: 20s
  steps: {STEPS}
"""
# Each is a record that a decoder must take, or refuse, with care: texts with escapes and beyond ASCII, numbers at the
# edges of what 64 bits hold, digits that take more than one rounding, and lines that are no record at all.
EDGES = (
    rb'{"id": "e0", "card": "\u00e9\ud83d\ude00", "at": 1700000000000, "amount": 9007199254740993, "units": 1}',
    '{"id": "e1", "card": "é😀", "at": 1700000001000, "amount": 901.0000000000000001e0, "units": 1}'.encode(),
    b'{"id": "e2", "card": "x", "at": 1700000001500, "amount": 1.7976931348623157e308, "units": 9223372036854775807}',
    b'{"id": "e3", "card": "x", "at": 1700000001600, "amount": 5e-324, "units": -9223372036854775808}',
    rb'{"id": "e4", "card": "x", "at": 1700000001700, "amount": -0.0, "units": 9223372036854775807, "shop": "\n"}',
    b'{"id": "e5", "card": "x", "at": 1700000001800, "amount": 1e309, "units": 1}',
    b'{"id": "e6", "card": "x", "at": 1700000001900, "amount": 1, "units": 9223372036854775808}',
    b'{"id": "e7", "card": "x", "at": 1700000002000, "amount": 1, "uni',
    b'{"id": "e8", "card": "\xff\xfe", "at": 1700000002000, "amount": 1, "units": 1}',
    b'{"id": "e9", "card": "\\ud800", "at": 1700000002000, "amount": 1, "units": 1}',
    b'  {"more": {"deep": [1, {"a": null}]}, "at": 1700000002100, "id": "f0", "card": "x", "amount": 1E3, "units": 0} ',
)


def records() -> bytes:
    """Two hundred taps of a few cards, some out of order, some twice, and the edges between them."""
    rng, lines, now = random.Random(7), list[bytes](), 1_700_000_000_000
    for number in range(200):
        now += rng.choice([0, 100, 1_000, 4_000])
        tap: dict[str, Any] = {
            "id": f"n{number - rng.choice([0, 0, 0, 0, 0, 0, 1])}",
            "card": rng.choice(["a", "b", "a longer card"]),
            "at": now - rng.choice([0, 0, 0, 500]),
            "amount": rng.choice([0.1, 5, 20.25, 310, 450.5]),
            "units": rng.choice([1, 20, 70]),
            "shop": rng.choice(["corner", "québec", None]),
        }
        lines.append(orjson.dumps(tap))
    for place, edge in enumerate(EDGES):
        lines.insert(10 * place, edge)
    return b"\n".join(lines)


def judged(folder: Path, build: dict[str, str]) -> tuple[Any, list[Any]]:
    """What a backtest says in figures, and its alerts, without when the machine found them."""
    options = ["--rules", "rules.yaml", "--stream", "stream.yaml", "--input", "taps.jsonl", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "crossline", "backtest", *options, "--output", "alerts.jsonl"],
        cwd=folder,
        env=os.environ | build | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    alerts = [orjson.loads(line) for line in (folder / "alerts.jsonl").read_bytes().splitlines()]
    return orjson.loads(done.stdout), [{**alert, "detected_at": ""} for alert in alerts]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "stream.yaml").write_text(STREAM)
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "taps.jsonl").write_bytes(records())
    return tmp_path


def test_from_bytes_to_alerts_python_says_what_compiled_code_says(folder: Path) -> None:
    figures, alerts = judged(folder, {})
    # Half a number, and half a surrogate pair; a number beyond each type; a byte that is no text.
    expected = {"malformed_json": 1, "bad_number": 2, "bad_encoding": 2}
    assert {name: count for name, count in figures["dead_letters"].items() if name != "duplicate_id"} == expected
    assert {alert["rule_id"] for alert in alerts} == {"spent", "units", "tried"}
    assert "e0" in {alert["record_id"] for alert in alerts if alert["rule_id"] == "spent"}
    assert judged(folder, {"NUMBA_DISABLE_JIT": "1"}) == (figures, alerts)
