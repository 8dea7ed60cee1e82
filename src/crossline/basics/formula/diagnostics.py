"""The findings on a formula, collected with their positions and reported in the order of the text."""

from __future__ import annotations

from collections.abc import Collection

from crossline.basics.formula.functions import SIGNATURES
from crossline.basics.formula.tree import Span
from crossline.basics.texts.problems import Finding, Path, nearest, one_of

FINDINGS_MAX = 20

_SHOWN_MAX = 40
A_NAME = "a field or figure"


class Report:
    """The findings on ``text``, a formula that stands at ``path``."""

    def __init__(self, text: str, path: Path) -> None:
        self.text, self.path = text, path
        self._found: list[tuple[int, Finding]] = []
        self._unknown: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, span: Span, expected: str, hint: str | None = None, more: str = "") -> None:
        """Tell what stands at ``span``, with ``more`` about it, and what was ``expected`` there."""
        self._found.append((span.start, Finding(self.path, self.quote(span) + more, expected, hint)))

    def has_finding_at(self, span: Span) -> bool:
        """Whether there is a finding that begins where ``span`` does."""
        return any(start == span.start for start, _ in self._found)

    def quote(self, span: Span) -> str:
        """The place, counted from 1, and what is written there, cut short."""
        return f"at character {span.start + 1}: `{self.written(span)}`"

    def written(self, span: Span) -> str:
        """What is written at ``span``, in characters that show, cut short."""
        whole = self.text[span.start : span.end]
        text = "".join(
            each if each.isprintable() else " " if each.isspace() else f"<U+{ord(each):04X}>" for each in whole
        )
        return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"

    def unknown_name(self, name: str, span: Span, names: Collection[str]) -> None:
        """Tell once that ``name`` is none of ``names``; where much is wrong already, without looking for a near one."""
        if name in self._unknown:
            return
        self._unknown.add(name)
        if len(self._found) >= FINDINGS_MAX:
            self.add(span, A_NAME)
            return
        inner = [known for known in names if known.startswith(f"{name}.")]
        if inner:
            hint: str | None = f"it holds {', '.join(inner[:4])}: name one of them"
        elif name in SIGNATURES:
            hint = f"the function is written {SIGNATURES[name].form}"
        else:
            quotes = "" if "." in name else f"; a text stands in quotes: '{name}'"
            hint = nearest(name, names) or f"there is {one_of(names, 30)}{quotes}" if names else None
        self.add(span, A_NAME, hint)

    def unknown_function(self, name: str, span: Span, names: Collection[str]) -> None:
        """Tell that ``name``, which stands before a bracket, is no function."""
        hint = f"{name} is a field or figure: an operator is missing behind it" if name in names else None
        self.add(span, f"a function: {one_of(SIGNATURES, 20)}", hint or nearest(name, SIGNATURES))

    def findings(self) -> list[Finding]:
        """All of them in the order of the text; of very many the first, and how many more there are."""
        found = [each for _, each in sorted(self._found, key=lambda pair: pair[0])]
        if len(found) <= FINDINGS_MAX:
            return found
        more = Finding(self.path, f"{len(found) - FINDINGS_MAX:,} more of the kind", "a formula without them")
        return [*found[:FINDINGS_MAX], more]
