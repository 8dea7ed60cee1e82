"""What a store has of a folder: at each moment all of what was published last, or all of what came before."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import LocalFiles, StoreUnavailableError
from crossline.runtime.snapshot.checkpoint_mirror import INLINE_BYTES, NOTES, PARTS, PARTS_MAX, CheckpointMirror

SEED = 20_261_123


class Shaky(LocalFiles):
    """Fails the put number ``fails_at``, before or after the file is there."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.puts, self.fails_at, self.late = 0, -1, False

    def put(self, name: str, data: bytes) -> None:
        self.puts += 1
        if self.puts == self.fails_at:
            if self.late:
                super().put(name, data)
            raise StoreUnavailableError("away")
        super().put(name, data)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def begun(store: LocalFiles, folder: Path, epoch: int) -> CheckpointMirror:
    folder.mkdir()
    mirror = CheckpointMirror(store, folder, "the store")
    mirror.restore(epoch)
    return mirror


def test_a_kill_at_any_put_leaves_what_was_published_before_or_after(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    for case in range(40):
        store, here = Shaky(tmp_path / f"store-{case}"), tmp_path / f"here-{case}"
        mirror = begun(store, here, 1)
        published: dict[str, bytes] = {}
        for step in range(draw.randrange(2, 6)):
            for _ in range(draw.randrange(1, 4)):
                path = here / draw.choice(["a.json", "b/c.json", "b/list.jsonl", "spark/metadata"])
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.suffix == ".jsonl" and draw.random() < 0.8:
                    with path.open("ab") as file:
                        file.write(draw.randbytes(draw.choice([10, 3 * INLINE_BYTES])))
                elif draw.random() < 0.2:
                    path.unlink(missing_ok=True)
                else:
                    partial = path.with_suffix(".tmp")
                    partial.write_bytes(draw.randbytes(draw.choice([0, 10, INLINE_BYTES, INLINE_BYTES + 1])))
                    partial.replace(path)
            wanted = contents(here)
            store.fails_at, store.late = store.puts + draw.randrange(1, 6), draw.random() < 0.5
            try:
                mirror.publish()
                allowed = [wanted]
            except StoreUnavailableError:
                allowed = [published, wanted]
            mirror.tidy()
            (tmp_path / f"look-{case}-{step}").mkdir()
            CheckpointMirror(store, tmp_path / f"look-{case}-{step}", "the store").look()
            seen = contents(tmp_path / f"look-{case}-{step}")
            assert seen in allowed, (case, step)
            published = seen
        store.fails_at = -1
        mirror.publish()
        mirror.tidy()
        begun(store, tmp_path / f"next-{case}", 2)
        assert contents(tmp_path / f"next-{case}") == contents(here)


def test_what_grows_is_put_in_parts_and_what_nothing_names_goes(tmp_path: Path) -> None:
    store, here = Shaky(tmp_path / "store"), tmp_path / "here"
    mirror = begun(store, here, 1)
    for _ in range(PARTS_MAX + 5):
        with (here / "list.jsonl").open("ab") as file:
            file.write(b"x" * (INLINE_BYTES + 1))
        before = store.puts
        assert mirror.publish()
        assert store.puts - before <= 2 or len(store.names(PARTS)) > 1
        mirror.tidy()
    assert not mirror.publish()
    assert 1 <= len(store.names(PARTS)) <= PARTS_MAX
    assert len(store.names(NOTES)) == 1
    begun(store, tmp_path / "next", 2)
    assert contents(tmp_path / "next") == contents(here)


def test_a_small_batch_is_one_put(tmp_path: Path) -> None:
    store, here = Shaky(tmp_path / "store"), tmp_path / "here"
    mirror = begun(store, here, 1)
    for log in ("offsets", "commits"):
        (here / "spark" / log).mkdir(parents=True)
    for batch in range(12):
        (here / "spark" / "offsets" / str(batch)).write_text(f"o{batch}")
        (here / "spark" / "commits" / str(batch)).write_text(f"c{batch}")
        (here / "history.last.json").write_text(f"{batch}")
        before = store.puts
        mirror.publish()
        assert store.puts == before + 1
    begun(store, tmp_path / "next", 2)
    found = contents(tmp_path / "next")
    assert {name for name in found if name.startswith("spark")} == {
        f"spark/{log}/{batch}" for log in ("offsets", "commits") for batch in (9, 10, 11)
    }


def test_a_superseded_driver_writes_what_is_never_read(tmp_path: Path) -> None:
    store, old, new = Shaky(tmp_path / "store"), tmp_path / "old", tmp_path / "new"
    first = begun(store, old, 1)
    (old / "a").write_text("1")
    first.publish()
    second = begun(store, new, 2)
    (old / "a").write_text("of the dead")
    first.publish()
    second.tidy()
    begun(store, tmp_path / "next", 3)
    assert contents(tmp_path / "next") == {"a": b"1"}


def test_a_damaged_store_is_reported(tmp_path: Path) -> None:
    store, here = Shaky(tmp_path / "store"), tmp_path / "here"
    mirror = begun(store, here, 1)
    (here / "a").write_bytes(b"x" * (INLINE_BYTES + 1))
    mirror.publish()
    (part,) = store.names(PARTS)
    store.put(f"{PARTS}/{part}", b"short")
    with pytest.raises(StateError, match="found 5 bytes of a, expected"):
        begun(store, tmp_path / "next", 2)
    store.put(f"{NOTES}/{store.names(NOTES)[-1]}", b"{")
    with pytest.raises(StateError, match="damaged"):
        begun(store, tmp_path / "more", 2)


def test_what_a_driver_that_was_taken_over_from_still_deletes_is_nothing_that_another_needs(tmp_path: Path) -> None:
    """It thaws in the midst of a publish: what it replaced is garbage to it, and was read by its successor."""
    store, old, new = Shaky(tmp_path / "store"), tmp_path / "old", tmp_path / "new"
    first = begun(store, old, 1)
    (old / "big").write_bytes(b"x" * (INLINE_BYTES + 1))
    first.publish()
    second = begun(store, new, 2)
    partial = old / "big.tmp"
    partial.write_bytes(b"y" * (INLINE_BYTES + 1))
    partial.replace(old / "big")
    first.publish()
    first.tidy()
    second.tidy()
    begun(store, tmp_path / "next", 3)
    assert contents(tmp_path / "next") == {"big": b"x" * (INLINE_BYTES + 1)}


def test_who_looks_while_another_writes_sees_one_moment(tmp_path: Path) -> None:
    """What the looker's list named is gone by the time that it asks: it lists again."""
    store, here = Shaky(tmp_path / "store"), tmp_path / "here"
    mirror = begun(store, here, 1)

    class Moving(LocalFiles):
        def get(self, name: str) -> bytes:
            if moves:
                body = moves.pop()
                (here / "big").unlink(missing_ok=True)
                (here / "big").write_bytes(body)
                (here / "small").write_bytes(body[:1])
                mirror.publish()
                mirror.tidy()
            return super().get(name)

    moves: list[bytes] = []
    (here / "big").write_bytes(b"0" * (INLINE_BYTES + 1))
    (here / "small").write_bytes(b"0")
    mirror.publish()
    moves += [body * (INLINE_BYTES + 7) for body in (b"3", b"2", b"1")]
    (tmp_path / "look").mkdir()
    CheckpointMirror(Moving(store.root), tmp_path / "look", "the store").look()
    assert contents(tmp_path / "look") == contents(here)


def test_a_number_that_is_used_already_is_refused(tmp_path: Path) -> None:
    store = Shaky(tmp_path / "store")
    begun(store, tmp_path / "one", 7)
    with pytest.raises(StateError, match="another run began meanwhile"):
        begun(store, tmp_path / "two", 7)


def test_a_start_whose_first_note_seemed_to_fail_goes_on(tmp_path: Path) -> None:
    store, old = Shaky(tmp_path / "store"), tmp_path / "old"
    first = begun(store, old, 1)
    (old / "a").write_text("1")
    first.publish()
    (tmp_path / "new").mkdir()
    mirror = CheckpointMirror(store, tmp_path / "new", "the store")
    store.fails_at, store.late = store.puts + 1, True
    with pytest.raises(StoreUnavailableError):
        mirror.restore(2)
    mirror.restore(2)
    mirror.tidy()
    assert contents(tmp_path / "new") == {"a": b"1"}
    assert len(store.names(NOTES)) == 1
