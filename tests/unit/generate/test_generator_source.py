"""The generator as a source of the engine."""

from __future__ import annotations

import pickle

import pytest

from crossline.basics.errors import UsageError
from crossline.generate.cards import CardWorkload
from crossline.generate.source import Generator, make_workload, read_source
from crossline.generate.tx import TxWorkload, tx_lines


def test_ranges_are_the_workload_s_and_end_with_the_source() -> None:
    source = read_source({"kind": "generator", "workload": "tx", "seed": 3, "records": 100})
    assert source == Generator(TxWorkload(seed=3), 100)
    assert source.lines(10, 20) == tx_lines(10, 20, 3)
    assert source.lines(90, 20) == tx_lines(90, 10, 3)
    assert source.lines(100, 5) == b""
    assert Generator(TxWorkload(seed=3), None).lines(90, 20) == tx_lines(90, 20, 3)


def test_it_travels_to_a_worker() -> None:
    source = read_source({"workload": "cards", "seed": 2, "records": 50, "frauds_per_epoch": 1})
    copy = pickle.loads(pickle.dumps(source))  # noqa: S301 - our own bytes
    assert copy == source
    assert copy.lines(0, 50) == CardWorkload(seed=2, frauds_per_epoch=1).lines(0, 50)


def test_what_is_available_follows_the_pace() -> None:
    assert Generator(TxWorkload(), 100).available(0) == 100
    assert Generator(TxWorkload(), None).available(5_000) is None
    paced = Generator(TxWorkload(), 100, pace_per_s=30)
    assert [paced.available(elapsed_ms) for elapsed_ms in (0, 33, 34, 1_000, 60_000)] == [0, 0, 1, 30, 100]
    assert Generator(TxWorkload(), None, pace_per_s=30).available(60_000) == 1_800


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workload": "txs"}, "no workload is named 'txs'; known: cards, tx"),
        ({}, "no workload is named 'None'"),
        ({"workload": "tx", "account": 5}, "workload tx has no parameter 'account'; known: seed, accounts"),
        ({"workload": "tx", "seed": "five"}, "seed is 'five'; expected int"),
        ({"workload": "tx", "seed": True}, "seed is True; expected int"),
        ({"workload": "tx", "with_device": 1}, "with_device is 1; expected bool"),
        ({"workload": "tx", "records": -1}, "records is -1; expected an integer of 0 or more"),
        ({"workload": "tx", "pace_per_s": 0}, "pace_per_s is 0; expected an integer of 1 or more"),
    ],
)
def test_wrong_settings_are_refused_with_what_is_known(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_source(settings)


def test_a_workload_by_name() -> None:
    assert make_workload("tx", {"accounts": 10, "with_device": True}) == TxWorkload(accounts=10, with_device=True)
