"""What the demo shows of its lake: a rule that came late, its gap, a replay, time travel, a training set.

Each step is a command, printed as a user would give it in the demo's folder, with what it printed.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.basics.times import format_instant

if TYPE_CHECKING:
    from crossline.generate.labels import PlantedFraud
    from crossline.runtime.work.totals import Totals

SECTION = "\nlake: {writer: false}            # crossline lake write pipeline.yaml appends what is committed\n"
RULE_FILE, FIGURES_FILE, LABELS_FILE = "rules/web_spree.yaml", "figures.yaml", "labels.jsonl"
RULE = """\
# Published while the demo ran: its windows began with the payments before.
- rule_id: web_spree
  version: 1
  rule_type: velocity
  source_topic: payments
  conditions: [{field: payment_type, operator: "==", value: WEB}]
  group_by: card_hash
  window: 30m
  aggregation_type: sum
  aggregation_field: amount_cents
  aggregation_threshold: 100000
  severity: medium
"""
FIGURES = """\
source_topic: payments
figures:
  payments_10m: {count: true, group_by: card_hash, window: 10m}
  spent_1h: {sum: amount_cents, group_by: card_hash, window: 1h}
  devices_1h: {distinct_count: device_id, group_by: card_hash, window: 1h}
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, why it is shown, and what came of it."""

    why: str
    command: str
    exit_code: int
    seconds: float
    printed: str


@dataclass(slots=True)
class LatePublication:
    """Publishes a rule once a third of the payments are judged; ``at_ms``: when that was, by the machine's clock."""

    folder: Path
    records: int
    at_ms: int | None = field(default=None)

    def note(self, totals: Totals) -> None:
        """Called after each batch."""
        if self.at_ms is None and totals.records * 3 >= self.records:
            self.at_ms = time.time_ns() // 1_000_000
            (self.folder / RULE_FILE).write_text(RULE, encoding="utf-8")

    def tour(self, frauds: Iterable[PlantedFraud]) -> list[Step]:
        """Show the lake; nothing where no payment was judged."""
        return [] if self.at_ms is None else tour(self.folder, frauds, self.at_ms)


def steps(labels: Sequence[str], at_ms: int) -> Iterator[tuple[str, list[str]]]:
    """Why, and the command; ``labels``: options that join labels; ``at_ms``: an instant to look back to."""
    yield "the writer reads the committed batches again and appends them", ["lake", "write", "pipeline.yaml", "--once"]
    yield "what the tables hold", ["lake", "status"]
    yield "web_spree was published after a third of the payments: those it has not judged", ["lake", "gaps"]
    yield "what it would have found there", ["lake", "gaps", "--fill"]
    yield "the same rules over the lake give the same alerts", ["replay", "--compare", "--output", "out/replayed.jsonl"]
    yield "what was known when it was published", ["lake", "at", format_instant(at_ms)]
    yield "which rules were known then", ["lake", "at", format_instant(at_ms), "rules"]
    figures = ["figures", "--from-lake", "--pipeline", "pipeline.yaml", "--figures", FIGURES_FILE, *labels]
    yield "figures as of each payment, beside what was planted", [*figures, "--output", "out/training.parquet"]


def tour(folder: Path, frauds: Iterable[PlantedFraud], at_ms: int) -> list[Step]:
    """Run the steps in ``folder``, and print them on standard error; it ends with a step that fails."""
    from crossline.generate.labels import label_lines

    (folder / FIGURES_FILE).write_text(FIGURES, encoding="utf-8")
    (folder / LABELS_FILE).write_bytes(label_lines(frauds))
    found: list[Step] = []
    for why, arguments in steps(["--labels-file", LABELS_FILE, "--labels-known-by", "now"], at_ms):
        shown = shlex.join(["crossline", *arguments])
        sys.stderr.write(f"\n# {why}\n$ {shown}\n")
        started_s = time.monotonic()
        made = subprocess.run(
            [sys.executable, "-m", "crossline.cli.main", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        lines = [line for line in made.stdout.splitlines(keepends=True) if not line.startswith("{")]  # without the log
        found.append(Step(why, shown, made.returncode, round(time.monotonic() - started_s, 1), "".join(lines)))
        sys.stderr.write(found[-1].printed)
        if made.returncode:
            break
    return found
