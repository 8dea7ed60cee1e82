"""The pages that people read, taken apart into their code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ("configuration.md", "rule-reference.md")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "bench/FIGURES.md")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in GENERATED),
]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MARKER = re.compile(r"<!-- not run: (.+) -->\n$")


@dataclass(frozen=True)
class Block:
    """A code block; ``not_run`` is the reason that the comment before it gives."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        marker = _MARKER.search(text, 0, match.start())
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match[1], match[2], marker[1] if marker else None))
    return found


def all_blocks(language: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language == language]
