"""What charts over time have in common: the plot's place, its window, its crossing, its axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crossline.backtest.investigation.timeline import Timeline
from crossline.serve.console.charts.scales import Scale, free, text_px, time_step_ms, time_ticks
from crossline.serve.console.charts.svg import Element, line, rect, text
from crossline.serve.console.charts.words import Wording, duration

GAP = 6.0
NARROW_PX = 560  # below it a chart over time has fewer words


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot over time.

    Attributes:
        shown: What is drawn.
        words: How values are shown.
        x: From epoch ms to pixels.
        top: The upper end of the plot.
        bottom: Where its axis stands.
    """

    shown: Timeline
    words: Wording
    x: Scale
    top: float
    bottom: float

    @classmethod
    def of(
        cls, shown: Timeline, words: Wording, *, left: float, right: float, top: float, bottom: float, to_ms: int = 0
    ) -> Plot:
        """A plot of all that a timeline shows; a hundredth of it stays free behind the last record."""
        low, high = shown.from_ms, max(shown.to_ms, to_ms)
        room = max(1, (high - low) // 50)
        return cls(shown, words, Scale(low, high + room, left, right), top, bottom)

    def window(self) -> Iterator[Element]:
        """The shaded window, and its open edge."""
        start, end = self.shown.window_start_ms, self.shown.window_end_ms
        if start is None or end is None:
            return
        low, high = self.x.clipped(start), self.x.clipped(end)
        yield rect("win", low, self.top, high - low, self.bottom - self.top)
        if start >= self.x.low:
            yield line("edge", (low, self.top), (low, self.bottom))

    def crossing(self) -> Iterator[Element]:
        """The red line of the moment at which it fired."""
        at = self.x(self.shown.at_ms)
        yield line("cross-l", (at, self.top), (at, self.bottom))

    def beside(self, at: float, message: str, y: float, kind: str = "lab") -> Element:
        """A text beside a place: on its left where there is room, else on its right, and never past an edge."""
        if at - 9 - text_px(message) >= self.x.start:
            return text(at - 9, y, message, kind, "end")
        if at + 9 + text_px(message) <= self.x.end + 8:
            return text(at + 9, y, message, kind)
        return text(self.x.end, y, message, kind, "end")

    def axis(self, exact_ms: Sequence[int] = ()) -> Iterator[Element]:
        """The axis: exact times first, then round ones where there is room between them."""
        yield line("ax", (self.x.start, self.bottom), (self.x.end, self.bottom))
        occupied: list[tuple[float, float]] = []
        for at_ms in exact_ms:
            if self.x.low <= at_ms <= self.x.high:
                yield from self._label(at_ms, self.words.moment(at_ms, self.x.high - self.x.low), "lab", occupied)
        step_ms = time_step_ms(self.x.high - self.x.low, self.x.end - self.x.start)
        for at_ms in time_ticks(int(self.x.low), int(self.x.high), step_ms):
            yield from self._label(at_ms, self.words.clock(at_ms, step_ms), None, occupied)

    def _label(
        self, at_ms: int, message: str, kind: str | None, occupied: list[tuple[float, float]]
    ) -> Iterator[Element]:
        half = text_px(message) / 2
        least, most = half, self.x.end + 8 - half
        at = min(max(self.x(at_ms), least), most)
        if free(occupied, at - half - GAP, at + half + GAP):
            occupied.append((at - half, at + half))
            yield text(at, self.bottom + 16, message, kind, "middle")

    def window_text(self) -> str:
        """``window of 15 min``."""
        start, end = self.shown.window_start_ms, self.shown.window_end_ms
        return f"window of {duration(end - start)}" if start is not None and end is not None else ""
