"""The records that the decision API acknowledged: files of a source of kind ``api``, known by positions.

The pipeline's list of chunks knows each file by digests of its first bytes and of those before each cut. They are made
again once a file was written anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossline.erasure.places.line_files import LinesPlace
from crossline.io.files.identity import head_at, tail_at
from crossline.io.files.listing import LIST
from crossline.io.files.sync import sync_path
from crossline.io.recordlog.segments import segment_name, segment_numbers


def record_log_place(stream: str, folder: Path, id_field: str, chunks: Path | None) -> LinesPlace:
    """The log of a stream.

    Args:
        stream: The stream.
        folder: The log's folder.
        id_field: The field of a record's id.
        chunks: The folder of the source in the checkpoint; None: the checkpoint is elsewhere.
    """

    def files() -> Iterable[Path]:
        return [folder / segment_name(each) for each in segment_numbers(folder)] if folder.is_dir() else []

    after = _Marks(chunks / LIST) if chunks is not None else (lambda _: None)
    return LinesPlace(
        f"records of stream {stream} from the API",
        files,
        stream=stream,
        id_field=id_field,
        holds_positions=True,
        blank=True,
        after=after,
    )


@dataclass(frozen=True, slots=True)
class _Marks:
    """Makes the digests of a file in the list of chunks again. It may be called at any time, and twice."""

    path: Path

    def __call__(self, file: Path) -> None:
        """Of the chunks of ``file``."""
        if not self.path.exists():
            return
        lines = self.path.read_bytes().splitlines(keepends=True)
        numbers = set[Any]()
        after = []
        with file.open("rb") as handle:
            for line in lines:
                row = json.loads(line) if line.endswith(b"\n") else None
                if isinstance(row, dict) and "path" in row:
                    mine = Path(row["path"]).absolute() == file.absolute()
                    (numbers.add if mine else numbers.discard)(row.get("file"))
                if isinstance(row, dict) and "path" not in row and row.get("file") in numbers and "packed" not in row:
                    end = int(row["end"])
                    new: dict[str, Any] = {**row, "head": head_at(handle, end), "tail": tail_at(handle, end)}
                    line = json.dumps(new).encode() + b"\n"  # noqa: PLW2901 - in its place
                after.append(line)
        if after != lines:
            draft = self.path.with_name(f"{self.path.name}.tmp")
            with draft.open("wb") as out:
                out.writelines(after)
                out.flush()
                os.fsync(out.fileno())
            draft.replace(self.path)
            sync_path(self.path.parent)
