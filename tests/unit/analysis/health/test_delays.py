"""Labels that are to come: against the chain-ladder, a naive twin, and a simulation whose truth is known."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from crossline.analysis.health.delays import Cell, arrival_shares, correct_precision

# Taylor and Ashe 1983, as in T. Mack, "Distribution-free calculation of the standard error of chain ladder reserve
# estimates", ASTIN Bulletin 23 (1993): cumulative, a row an accident year; and the factors that he gives.
TRIANGLE = [
    [357848, 1124788, 1735330, 2218270, 2745596, 3319994, 3466336, 3606286, 3833515, 3901463],
    [352118, 1236139, 2170033, 3353322, 3799067, 4120063, 4647867, 4914039, 5339085],
    [290507, 1292306, 2218525, 3235179, 3985995, 4132918, 4628910, 4909315],
    [310608, 1418858, 2195047, 3757447, 4029929, 4381982, 4588268],
    [443160, 1136350, 2128333, 2897821, 3402672, 3873311],
    [396132, 1333217, 2180715, 2985752, 3691712],
    [440832, 1288463, 2419861, 3483130],
    [359480, 1421128, 2864498],
    [376686, 1363294],
    [344014],
]
FACTORS = [3.4906, 1.7473, 1.4574, 1.1739, 1.1038, 1.0863, 1.0539, 1.0766, 1.0177]


def cells_of(triangle: list[list[int]]) -> list[Cell]:
    return [
        Cell(True, len(row), delay, sums - (row[delay - 1] if delay else 0))
        for row in triangle
        for delay, sums in enumerate(row)
    ]


def test_it_is_the_chain_ladder_of_a_published_triangle() -> None:
    found = arrival_shares(cells_of(TRIANGLE))
    assert len(found) == 10
    assert found[-1] == 1.0
    for delay, share in enumerate(found):
        assert share == pytest.approx(1 / math.prod(FACTORS[delay:]), rel=4e-4)


def naive(cells: list[Cell]) -> list[Fraction]:
    """By the formula, a loop for each sum."""
    kept = [each for each in cells if 0 <= each.delay < each.age]
    longest = max((each.delay for each in kept), default=-1)
    shares = []
    for x in range(longest + 1):
        share = Fraction(1)
        for y in range(x + 1, longest + 1):
            at = sum(each.count for each in kept if each.delay == y and each.age > y)
            all_ = sum(each.count for each in kept if each.delay <= y and each.age > y)
            share *= 1 - Fraction(at, all_) if all_ else 1
        shares.append(share)
    return shares


def test_it_is_its_naive_twin() -> None:
    drawn = random.Random(5)
    for _ in range(30):
        cells = [
            Cell(True, drawn.randrange(12), drawn.randrange(14), drawn.randrange(5)) for _ in range(drawn.randrange(40))
        ]
        kept = [each for each in cells if each.count]
        assert arrival_shares(cells) == pytest.approx([float(each) for each in naive(kept)])


def test_labels_of_today_are_of_a_part_of_a_day_and_not_counted() -> None:
    assert arrival_shares([Cell(True, 0, 0, 9), Cell(True, 3, 3, 9)]) == []
    assert not correct_precision([Cell(True, 0, 0, 9)], {}).precision.labels


def test_a_rule_whose_frauds_are_labelled_late_is_set_right() -> None:
    """Half of its alerts are frauds, known after ten days on average; good ones are known the next day."""
    drawn, cells = random.Random(11), dict[tuple[bool, int, int], int]()
    for age in range(1, 41):
        for _ in range(100):
            fraud = drawn.random() < 0.5
            delay = min(39, int(drawn.expovariate(1 / 10))) if fraud else 1
            cells[fraud, age, delay] = cells.get((fraud, age, delay), 0) + 1
    mine = [Cell(*where, count) for where, count in cells.items()]
    seen = [each for each in mine if each.whole]
    raw = sum(each.count for each in seen if each.fraud) / sum(each.count for each in seen)
    shares = {verdict: arrival_shares(each for each in seen if each.fraud is verdict) for verdict in (True, False)}
    found = correct_precision(mine, shares)
    assert raw < 0.45
    low, high = found.precision.interval or (1.0, 0.0)
    assert low < 0.5 < high
    assert found.precision.value == pytest.approx(0.5, abs=0.03)
    assert found.precision.labels < sum(each.count for each in seen)  # weights make the interval wider
    assert found.expected > 0


def test_alerts_too_young_for_nearly_all_labels_are_left_out() -> None:
    # Of frauds 1 in 20 is known on the same day, the others the next day.
    old = [Cell(True, 9, 0, 5), Cell(True, 9, 1, 95), Cell(False, 9, 0, 100)]
    young = [Cell(True, 1, 0, 1), Cell(False, 1, 0, 20)]
    shares = {
        verdict: arrival_shares(each for each in old + young if each.fraud is verdict) for verdict in (True, False)
    }
    assert shares == {True: [pytest.approx(0.05), 1.0], False: [1.0]}
    found = correct_precision(old + young, shares)
    assert found.young_days == 1
    assert found.precision.value == pytest.approx(0.5)
    assert found.precision.labels == pytest.approx(200)
