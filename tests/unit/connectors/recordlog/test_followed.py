"""The log of the API as a pipeline reads it, while writers die at any byte and either of the two starts again."""

from __future__ import annotations

import tempfile
from pathlib import Path

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.connectors.files.identity import read_chunk
from crossline.connectors.files.log import FileChunks
from crossline.connectors.recordlog.segments import Segments, segment_name

NOW_MS = 1_767_225_600_000
STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "poll", "poll", "kill", "restart"]), st.integers(1, 60)),
    min_size=1,
    max_size=40,
)


class Run:
    """A writer, a reader, and what was acknowledged, in its order."""

    def __init__(self, root: Path) -> None:
        self.folder, self.list = root / "log", str(root / "list")
        self.acknowledged: list[bytes] = []
        self.read: list[bytes] = []
        self.count = 0
        self.given = 0
        self.begin_writer()
        self.begin_reader()

    def begin_writer(self) -> None:
        self.log = Segments(self.folder, 300, lambda line: str(orjson.loads(line)["id"]))
        self.log.open()

    def begin_reader(self) -> None:
        self.chunks = FileChunks([f"{self.folder}/*.jsonl"], self.list, 64)

    def line(self, size: int) -> tuple[str, bytes]:
        self.count += 1
        return f"r{self.count}", orjson.dumps({"id": f"r{self.count}", "padding": "x" * (size % 37)})

    def append(self, size: int) -> None:
        lines = [self.line(size + each) for each in range(size % 4 + 1)]
        self.log.append(lines)
        self.acknowledged += [raw for _, raw in lines]

    def kill(self, size: int) -> None:
        """In the midst of a write: what was written is in the file, and nobody was told."""
        self.log.close()
        number, raw = self.line(size)
        last = max(self.folder.glob("*.jsonl"), default=self.folder / segment_name(1))
        with last.open("ab") as file:
            file.write((raw + b"\n")[:size])
        self.poll(size)
        self.begin_writer()
        if size >= len(raw):  # it is kept, as it is whole
            self.log.append([(number, raw)])
            self.acknowledged.append(raw)

    def poll(self, _: int) -> None:
        count = self.chunks.poll(NOW_MS)
        for chunk in self.chunks.chunks(self.given, count):
            self.read += read_chunk(chunk).splitlines()
        self.given = count

    def restart(self, _: int) -> None:
        self.begin_reader()


@settings(max_examples=150)
@given(STEPS)
def test_a_pipeline_reads_what_was_acknowledged_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        for what, size in steps:
            getattr(run, what)(size)
            assert run.read == run.acknowledged[: len(run.read)] or what == "kill"
        run.poll(0)
        run.log.close()
        assert run.read == run.acknowledged
