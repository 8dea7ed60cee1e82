"""The features of the Fraud Detection Handbook, from the lake, against their published definitions in pandas.

Le Borgne, Siblini, Lebichot, Bontempi: Reproducible Machine Learning for Credit Card Fraud Detection (2022), chapter 3,
"Baseline feature transformation": for each customer the number and the average of transactions over 1, 7 and 30 days;
for each terminal the number of transactions and the share of frauds over 1, 7 and 30 days, both delayed by 7 days,
since a fraud is not known earlier.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from crossline.cli.main import run_command
from crossline.io.files.log import FileChunks
from crossline.io.outbox.batch_spool import CHUNKS, SpooledBatch
from crossline.io.sinks.base import Delivery
from unit.lake.lake_kit import CHECKPOINT, DAY_MS, START_MS, SpooledPipeline

PIPELINE = """\
schema_version: 1
name: handbook
streams:
  transactions:
    id: TRANSACTION_ID
    event_time: {field: TX_DATETIME, unit: ms}
    fields: {TRANSACTION_ID: string, CUSTOMER_ID: string, TERMINAL_ID: string, TX_AMOUNT: number, TX_DATETIME: integer}
  outcomes:
    id: OUTCOME_ID
    event_time: {field: KNOWN_AT, unit: ms}
    fields: {OUTCOME_ID: string, TERMINAL_ID: string, TX_FRAUD: integer, KNOWN_AT: integer}
sources:
  transactions: {kind: files, path: in/transactions/*.jsonl}
  outcomes: {kind: files, path: in/outcomes/*.jsonl}
rules: {kind: directory, path: rules/}
sinks: [{kind: console}]
lake: {}
"""
WINDOWS_DAYS = (1, 7, 30)
DELAY_DAYS = 7
OF_TERMINAL = "source_topic: outcomes, group_by: TERMINAL_ID"
FIGURES = "source_topic: transactions\nfigures:\n" + "".join(
    f"""\
  customer_id_nb_tx_{days}day_window: {{count: true, group_by: CUSTOMER_ID, window: {days}d}}
  customer_id_avg_amount_{days}day_window: {{avg: TX_AMOUNT, group_by: CUSTOMER_ID, window: {days}d}}
  terminal_id_nb_tx_{days}day_window: {{count: true, {OF_TERMINAL}, window: {days}d}}
  terminal_id_risk_{days}day_window: {{avg: TX_FRAUD, {OF_TERMINAL}, window: {days}d}}
"""
    for days in WINDOWS_DAYS
)
COUNT, LAST_MS = 1_500, 60 * DAY_MS


def transactions() -> pd.DataFrame:
    """Sixty days of some customers at some terminals, in the order of their times, which all differ."""
    draw = random.Random(20)
    times = sorted(draw.sample(range(LAST_MS), COUNT))
    return pd.DataFrame(
        {
            "TRANSACTION_ID": [f"t{number:05}" for number in range(COUNT)],
            "TX_DATETIME": pd.to_datetime([START_MS + each for each in times], unit="ms"),
            "CUSTOMER_ID": [f"c{draw.randrange(12)}" for _ in range(COUNT)],
            "TERMINAL_ID": [f"m{draw.randrange(9)}" for _ in range(COUNT)],
            "TX_AMOUNT": [draw.randrange(1, 40_000) / 4 for _ in range(COUNT)],  # sums without rounding
            "TX_FRAUD": [int(draw.random() < 0.1) for _ in range(COUNT)],
        }
    )


def published(frame: pd.DataFrame) -> pd.DataFrame:
    """The features by rolling windows, as the book defines them."""
    found = {}
    for _, rows in frame.groupby("CUSTOMER_ID"):
        amounts = rows.set_index("TX_DATETIME").TX_AMOUNT
        for days in WINDOWS_DAYS:
            rolling = amounts.rolling(f"{days}d")
            found.setdefault(f"CUSTOMER_ID_NB_TX_{days}DAY_WINDOW", {}).update(
                zip(rows.TRANSACTION_ID, rolling.count(), strict=True)
            )
            found.setdefault(f"CUSTOMER_ID_AVG_AMOUNT_{days}DAY_WINDOW", {}).update(
                zip(rows.TRANSACTION_ID, rolling.sum() / rolling.count(), strict=True)
            )
    for _, rows in frame.groupby("TERMINAL_ID"):
        frauds = rows.set_index("TX_DATETIME").TX_FRAUD
        delay = frauds.rolling(f"{DELAY_DAYS}d")
        for days in WINDOWS_DAYS:
            both = frauds.rolling(f"{DELAY_DAYS + days}d")
            count = both.count() - delay.count()
            risk = ((both.sum() - delay.sum()) / count.replace(0, np.nan)).fillna(0)
            found.setdefault(f"TERMINAL_ID_NB_TX_{days}DAY_WINDOW", {}).update(
                zip(rows.TRANSACTION_ID, count, strict=True)
            )
            found.setdefault(f"TERMINAL_ID_RISK_{days}DAY_WINDOW", {}).update(
                zip(rows.TRANSACTION_ID, risk, strict=True)
            )
    return pd.DataFrame(found).loc[frame.TRANSACTION_ID]


def spool(pipeline: SpooledPipeline, number: int, records: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """One committed batch with a file of each stream."""
    ranges = {}
    for stream, rows in records.items():
        path = pipeline.root / "in" / stream / f"{number:04}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(each) + "\n" for each in rows))
        files = FileChunks([str(path.parent / "*.jsonl")], str(pipeline.folder / "sources" / stream), 1 << 24)
        ranges[stream] = {CHUNKS: (number, files.poll(START_MS + 10**12))}
    at_ms = START_MS + number
    pipeline.spool.put(SpooledBatch(Delivery("handbook", number, checkpoint=CHECKPOINT, began_ms=at_ms), ranges, at_ms))
    commits = pipeline.folder / "spark" / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    (commits / str(number)).touch()


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    """Three commits, of twenty days each. The outcome of a transaction comes 7 days after it."""
    frame, made = transactions(), SpooledPipeline(tmp_path, PIPELINE)
    times_ms = frame.TX_DATETIME.astype("int64") // (10**6 if frame.TX_DATETIME.dtype == "datetime64[ns]" else 1)
    frame = frame.assign(at_ms=times_ms)
    for number in range(3):
        first_ms, end_ms = (START_MS + (number + more) * LAST_MS // 3 for more in (0, 1))
        paid = frame[(frame.at_ms >= first_ms) & (frame.at_ms < end_ms)]
        known_ms = frame.at_ms + DELAY_DAYS * DAY_MS
        known = frame[(known_ms >= first_ms) & (known_ms < end_ms)]
        records = {
            "transactions": [
                {
                    "TRANSACTION_ID": row.TRANSACTION_ID,
                    "CUSTOMER_ID": row.CUSTOMER_ID,
                    "TERMINAL_ID": row.TERMINAL_ID,
                    "TX_AMOUNT": row.TX_AMOUNT,
                    "TX_DATETIME": row.at_ms,
                }
                for row in paid.itertuples()
            ],
            "outcomes": [
                {
                    "OUTCOME_ID": row.TRANSACTION_ID,
                    "TERMINAL_ID": row.TERMINAL_ID,
                    "TX_FRAUD": row.TX_FRAUD,
                    "KNOWN_AT": row.at_ms + DELAY_DAYS * DAY_MS,
                }
                for row in known.itertuples()
            ],
        }
        spool(made, number, records)
        made.write_all()
    for name, text in (("pipeline.yaml", PIPELINE), ("figures.yaml", FIGURES)):
        (tmp_path / name).write_text(text)
    (tmp_path / "rules").mkdir()
    return made


def test_figures_of_the_lake_are_the_published_features(pipeline: SpooledPipeline) -> None:
    root = pipeline.root
    out = root / "features.parquet"
    given = ["figures", "--pipeline", str(root / "pipeline.yaml"), "--figures", str(root / "figures.yaml")]
    assert run_command([*given, "--from-lake", "--output", str(out)]) == 0
    found = pq.read_table(out).to_pandas().set_index("record_id")
    expected = published(transactions())
    assert len(found) == COUNT
    for name in expected.columns:
        mine = found.loc[expected.index, name.lower()].fillna(0).astype(float)
        np.testing.assert_allclose(mine, expected[name].astype(float), rtol=1e-12, atol=0, err_msg=name)
    assert expected["TERMINAL_ID_RISK_30DAY_WINDOW"].max() > 0.2, "there is something to compare"
    assert expected["CUSTOMER_ID_NB_TX_30DAY_WINDOW"].max() > 50
