"""A list of chunks of which the old ones are let go of in memory: the others are what they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.io.files import listing
from crossline.io.files.listing import ChunkList
from crossline.io.files.log import FileChunks

NOW_MS = 1_767_225_600_000


def test_chunks_that_are_forgotten_leave_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_FORGET_MIN", 4)
    folder, files = tmp_path / "in", []
    folder.mkdir()
    log = FileChunks([str(folder)], str(tmp_path / "list"), 10)
    lazy, whole = (ChunkList(str(tmp_path / "list")) for _ in range(2))
    for number in range(6):
        files.append(folder / f"{number}.jsonl")
        for _ in range(3):
            with files[-1].open("ab") as file:
                file.write(b"123456789\n")
            count = log.poll(NOW_MS)
            for each in (lazy, whole):
                each.refresh()
            lazy.forget(count - 2)
            assert len(lazy) == len(whole) == count
            assert lazy.chunks(count - 2, count) == whole.chunks(count - 2, count)
            assert lazy.find(str(files[-1]), 0) in {whole.find(str(files[-1]), 0), None}
    assert len(lazy.chunks(0, count)) < 2 + 4, "the rest is let go of"
    assert lazy.find(str(files[0]), 0) is None
    found = lazy.find(str(files[-1]), 25)
    assert found is not None
    assert found == whole.find(str(files[-1]), 25)
    lazy.forget(1_000)
    assert len(lazy.chunks(0, count)) < 4
    assert len(lazy) == count
