"""The streams that ``--pipeline`` or ``--stream`` gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.rule_registry.content import read_pipeline_in_place, read_text


def given_streams(pipeline: Path | None, stream_file: Path | None) -> Mapping[str, StreamSpec]:
    """The streams of one of the two files. Raises UsageError where none is given, or both are."""
    if (pipeline is None) == (stream_file is None):
        raise UsageError("found no file of streams, or two; expected one: --pipeline FILE, or --stream FILE")
    if pipeline is not None:
        return read_pipeline_in_place(pipeline).streams
    return load_streams(read_text(str(stream_file)), str(stream_file))
