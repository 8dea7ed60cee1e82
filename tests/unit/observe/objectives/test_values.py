"""Values at percentiles: a twin that keeps and sorts every value, and examples by hand."""

from __future__ import annotations

import math
import random
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from crossline.observe.objectives.declaration import Objective, objectives_of
from crossline.observe.objectives.formatting import value_text
from crossline.observe.objectives.histogram import (
    REACH,
    SIZE,
    add_buckets,
    bucket_of,
    counted,
    empty,
    encode_buckets,
    value_at,
)
from crossline.observe.objectives.metrics import ObjectiveCollector
from crossline.observe.objectives.minute_file import KEPT, Minute, MinuteFile
from crossline.observe.objectives.recorder import Recorder
from crossline.observe.objectives.report import found_of
from crossline.settings.process.slo import SloSettings

END = 29_800_017  # 17 minutes past an hour: windows begin and end within hours
LAG = "lag"


def objective(under: str = "5s", percent: float = 90.0) -> Objective:
    (found,) = objectives_of(SloSettings.model_validate({LAG: {"under": under, "percent": percent}}))
    return found


def nearest_rank(values: list[float], share: Fraction) -> float:
    """The least value such that ``share`` of them all are no greater."""
    ordered, needed = sorted(values), share * len(values)
    return next(each for place, each in enumerate(ordered, 1) if place >= needed)


def test_buckets_worked_by_hand() -> None:
    # Bounds are 250 * 2^(k/32): 244.64, 250, 255.47. The limit itself is a bound.
    assert [bucket_of(each, 250.0) - REACH for each in (244.6, 245.0, 250.0, 250.000001, 255.5, 500.0)] == [
        *(-1, 0, 0, 1, 2, 32)
    ]
    assert (bucket_of(0.0, 250.0), bucket_of(-3.0, 250.0), bucket_of(1e300, 250.0)) == (0, 0, SIZE - 1)
    above = math.nextafter(250.0, 300.0)
    assert [bucket_of(each, 250.0) - REACH for each in (above, math.nextafter(250.0, 0.0))] == [1, 0]
    assert value_at(empty(), Fraction(99, 100), 250.0) is None
    one = counted(np.array([0.0]), 250.0)
    assert value_at(one, Fraction(99, 100), 250.0) == 0.0
    # Of 100 values 99 are at most 10: the 99th in order is, the 100th is not.
    hundred = counted(np.array([10.0] * 99 + [400.0]), 10.0)
    assert value_at(hundred, Fraction(99, 100), 10.0) == 10.0
    found = value_at(hundred, Fraction(991, 1000), 10.0)
    assert found is not None
    assert 400.0 <= found < 400.0 * 2 ** (1 / 32)


@pytest.mark.parametrize("seed", range(4))
def test_one_and_many_fall_into_the_same_buckets(seed: int) -> None:
    chance = random.Random(seed)
    limit = chance.choice([1.0, 0.1, 250.0, 5_000.0, 333.3])
    values = [chance.lognormvariate(0, 4) * limit for _ in range(3_000)]
    values += [limit * 2 ** (k / 32) for k in range(-40, 41)] + [0.0, -1.0, 1e30, limit]
    slowly = np.bincount([bucket_of(each, limit) for each in values], minlength=SIZE)
    assert (counted(np.array(values), limit) == slowly).all()
    assert (add_buckets(empty(), [encode_buckets(slowly), encode_buckets(slowly)]) == 2 * slowly).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_file_says_what_a_twin_says_that_kept_every_value(tmp_path: Path, seed: int) -> None:
    chance, promised = random.Random(seed), objective(percent=(50.0, 90.0, 99.0)[seed % 3])
    assert promised.limit is not None
    limit, came = float(promised.limit), dict[int, list[float]]()
    file, written = MinuteFile(tmp_path / "slo.db", "payments"), []
    for minute in range(END - 1_500, END + 2):
        if chance.random() < (1.0, 0.6)[seed % 2]:
            for _ in range(chance.choice((1, 1, 2))):  # two processes had parts of it
                values = [chance.lognormvariate(0.5, 1.2) * 1_000 for _ in range(chance.randrange(7))]
                values += [limit] * chance.randrange(2)
                found = counted(np.array(values, np.float64), limit)
                good = sum(each <= limit for each in values)
                written.append(Minute(LAG, promised.held, minute, good, len(values), encode_buckets(found)))
                came.setdefault(minute, []).extend(values)
    chance.shuffle(written)
    for at in range(0, len(written), 200):
        file.add(written[at : at + 200], [], END)
    body = found_of(file, promised, END)
    for name, span in {"1h": 60, "24h": 1_440, "30d": 43_200}.items():
        mine = [value for minute, values in came.items() if END - span <= minute < END for value in values]
        slow, verdict, value = nearest_rank(mine, promised.target), body.windows[name], body.values[name]
        assert value is not None
        assert slow <= value * (1 + 1e-12)
        assert value < slow * 2 ** (1 / 32) * (1 + 1e-12)
        good = Fraction(sum(each <= limit for each in mine), len(mine))
        assert verdict.share == good
        assert (value <= limit) == (slow <= limit) == (good >= promised.target), "value and share say the same"


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    chance, promised = random.Random(1), objective()
    file, path = MinuteFile(tmp_path / "slo.db", "payments"), tmp_path / "slo.db"
    everywhere = encode_buckets(np.array([chance.randrange(2**31) for _ in range(SIZE)]))
    for minute in range(END - KEPT - 600, END, 300):
        file.add([Minute(LAG, promised.held, minute, 1, 1, everywhere)], [], minute)
    with closing(sqlite3.connect(path)) as db:
        widths = dict(db.execute("SELECT width, count(*) FROM histograms GROUP BY width").fetchall())
        first, longest = db.execute("SELECT min(start), max(length(data)) FROM histograms").fetchone()
    assert widths == {1: KEPT // 300 + 1, 60: KEPT // 300 + 1}
    assert first >= END - 300 - KEPT
    assert longest < 6 * SIZE + 100, "whatever comes, a minute has no more than its buckets"


def test_values_of_before_they_were_kept_are_not_made_up(tmp_path: Path) -> None:
    promised, path = objective(), tmp_path / "slo.db"
    file = MinuteFile(path, "payments")
    file.add([Minute(LAG, promised.held, END - 90, 5, 5)], [], END)
    with closing(sqlite3.connect(path)) as db:  # as version 1 of the file was
        db.execute("DROP TABLE histograms")
        db.execute("PRAGMA user_version = 1")
    assert found_of(file, promised, END).values == {"1h": None, "24h": None, "30d": None}
    file.add([Minute(LAG, promised.held, END - 1, 1, 1, encode_buckets(counted(np.array([700.0]), 5_000.0)))], [], END)
    found = found_of(file, promised, END)
    assert found.windows["24h"].counts.total == 6
    assert found.values["24h"] is None, "five of six values are unknown"
    assert found.values["1h"] == pytest.approx(700.0, rel=0.022)


def test_prometheus_is_reported_what_the_report_says(tmp_path: Path) -> None:
    now_ms = [END * 60_000]
    made = SloSettings.model_validate({LAG: {"under": "5s", "percent": 90}, "availability": {"percent": 90}})
    recorder = Recorder(MinuteFile(tmp_path / "slo.db", "payments"), objectives_of(made), lambda: now_ms[0])
    recorder.measure(LAG, np.array([100.0] * 8 + [5_000.0, 9_000.0]))
    recorder.measure_one(LAG, 100.0)
    recorder.add("availability", 3, 4)
    recorder.flush()
    now_ms[0] += 65_000
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ObjectiveCollector("payments", recorder))  # type: ignore[arg-type]  # it has what a collector needs
    body = {
        (sample.name, sample.labels["objective"], sample.labels.get("window")): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }
    # 11 values: the 10th is the least that 90 of 100 do not exceed; 10 of 11 are good where 9.9 have to be.
    assert body["crossline_slo_value", LAG, "1h"] == body["crossline_slo_value", LAG, "30d"] == 5.0
    assert body["crossline_slo_good_ratio", LAG, "24h"] == 10 / 11
    assert body["crossline_slo_budget_left_ratio", LAG, None] == pytest.approx(1 - (1 / 11) / 0.1)
    assert body["crossline_slo_budget_left_ratio", "availability", None] == pytest.approx(1 - 0.25 / 0.1)
    assert ("crossline_slo_value", "availability", "1h") not in body
    assert body["crossline_slo_events_total", LAG, None] == 11


@pytest.mark.parametrize(
    ("measure", "value", "text"),
    [
        *(("ms", 0.0, "0 ms"), ("ms", 7.25, "7.25 ms"), ("ms", 999.4, "999 ms"), ("ms", 999.6, "1 s")),
        *(("ms", 5_000.0, "5 s"), ("ms", 1_261.0, "1.26 s"), ("ms", 3_600_000.0, "3,600 s")),
        *(("share", 0.1, "10 %"), ("share", 0.00123, "0.123 %"), ("", None, "")),
    ],
)
def test_values_are_stated_in_few_digits(measure: str, value: float | None, text: str) -> None:
    assert value_text({"measure": measure}, {"value": value}) == text
