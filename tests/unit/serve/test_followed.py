"""Where a process goes on that comes after another one: behind the last batch that answers were held to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crossline.connectors.feed.files import batch_path, write_batch
from crossline.serve.feed.reader import FeedReader
from crossline.serve.followed import Followed


def feed_of(root: Path, *numbers: int) -> Path:
    folder = root / "feed"
    folder.mkdir()
    for number in numbers:
        write_batch(folder, {"batch": number, "ends": {}, "begins": {}}, {})
    return folder


def goes_on_behind(root: Path, feed: Path) -> int:
    async def ask() -> int:
        reader = FeedReader(feed)
        found, after = await Followed(root / "followed").batch(reader)
        await reader.close()
        assert (found is None) == (after < 0)
        assert found is None or found.number - after in {0, 1}
        return after

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("noted", "found"),
    [
        (None, 9),  # nobody followed anything yet
        (7, 7),
        (9, 9),
        (3, 5),  # gone from the feed: what it still has is followed, 6 the first
        (12, 9),  # the checkpoint is another one
    ],
    ids=["none", "there", "newest", "gone", "other"],
)
def test_it_goes_on_behind_what_was_noted(tmp_path: Path, noted: int | None, found: int) -> None:
    feed = feed_of(tmp_path, 6, 7, 8, 9)
    if noted is not None:
        before = Followed(tmp_path / "followed")
        before.note(noted - 1)
        before.note(noted)  # within the second: it is written at the end
        before.write()
    assert goes_on_behind(tmp_path, feed) == found


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    feed = feed_of(tmp_path, 6, 7, 8)
    (tmp_path / "followed").write_text("6\n")
    batch_path(feed, 6).write_bytes(b"{")
    assert goes_on_behind(tmp_path, feed) == 6
    (tmp_path / "followed").write_text("six")
    assert goes_on_behind(tmp_path, feed) == 8
    assert goes_on_behind(tmp_path, tmp_path / "none") == -1


def test_a_disk_that_is_full_is_tried_again(tmp_path: Path) -> None:
    noted = Followed(tmp_path / "there" / "followed")
    noted.note(5)  # there is no such folder
    (tmp_path / "there").mkdir()
    noted.write()
    assert (tmp_path / "there" / "followed").read_text() == "5\n"
