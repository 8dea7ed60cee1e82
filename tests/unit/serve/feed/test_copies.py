"""What batches gave, on a store: as many as are kept, each there before its batch is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.basics.errors import SinkError
from crossline.io.feed.copies import FeedCopies, copies_in, copy_name
from crossline.io.objects.file_stores import LocalFiles, StoreUnavailableError
from crossline.io.sinks.base import Delivery
from crossline.runtime.pipeline.feed_sink import FeedSink


def test_the_oldest_go_by_number_and_by_size(tmp_path: Path) -> None:
    store = LocalFiles(tmp_path)
    copies = FeedCopies(store, store.delete, 0, copies_max=3, bytes_max=100)
    for batch in range(5):
        copies.add(batch, b"x" * 10)
    assert copies_in(store) == [2, 3, 4]
    copies.add(5, b"x" * 85)
    assert copies_in(store) == [4, 5], "both together have 95 bytes"
    copies.add(6, b"x" * 500)
    assert copies_in(store) == [6], "the last stays, whatever its size"
    assert store.get(copy_name(6)) == b"x" * 500


def test_one_that_goes_on_puts_its_batch_again_and_drops_what_is_of_later_ones(tmp_path: Path) -> None:
    store = LocalFiles(tmp_path)
    first = FeedCopies(store, store.delete, 0)
    for batch in range(12):
        first.add(batch, b"before")
    second = FeedCopies(store, store.delete, 9, copies_max=4)
    assert copies_in(store) == list(range(10)), "batch 10 is not planned yet: this is another checkpoint"
    second.add(9, b"again")
    assert copies_in(store) == [6, 7, 8, 9]
    assert store.get(copy_name(9)) == b"again"


def test_a_store_that_is_away_holds_the_batch(tmp_path: Path) -> None:
    def away(_: int, __: bytes) -> None:
        raise StoreUnavailableError("the store does not answer")

    sink = FeedSink(tmp_path / "feed", lambda _: ({}, {}), dict, copy=away)
    sink.open()
    with pytest.raises(SinkError, match="what batch 3 gave cannot be kept for the decision API: the store does not"):
        sink.deliver(Delivery("shop", 3))
