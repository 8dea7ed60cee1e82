"""A source that is read backwards, with tokens in the place of the values of sensitive fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crossline.backtest.record_search import ReverseReader, SourceRecord
from crossline.basics.streams.schema import StreamSpec

if TYPE_CHECKING:
    from crossline.ingest.tokens.tokeniser import Tokeniser


def with_tokens(reader: ReverseReader, spec: StreamSpec) -> ReverseReader:
    """``reader`` itself where the stream has no sensitive field. Raises PermanentError where there is no master key."""
    if not spec.sensitive:
        return reader
    from crossline.io.tokens.opening import tokeniser_of  # noqa: PLC0415 - the decoder takes a second to load

    tokens = tokeniser_of(spec)
    return reader if tokens is None else TokenReader(reader, tokens)


@dataclass(frozen=True, slots=True)
class TokenReader:
    """``reader``, with the tokens of ``tokens``."""

    reader: ReverseReader
    tokens: Tokeniser

    @property
    def gone(self) -> list[str]:
        """The parts that it could not read."""
        return self.reader.gone

    def rows(self, ids: Collection[str]) -> Iterator[SourceRecord | None]:
        """Records, the last first."""
        for row in self.reader.rows(ids):
            yield None if row is None else replace(row, fields=self.tokens.record(row.fields))
