"""``crossline rules lint``: what cannot be meant."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from crossline.basics.texts.plaintext import printable_lines
from crossline.basics.texts.problems import Finding, path_text
from crossline.cli.rules.sample_options import (
    AsJson,
    FiguresPath,
    ListFolder,
    OneRule,
    PipelineFile,
    Rules,
    SomeInput,
    StreamFile,
    TrialInput,
)
from crossline.cli.rules.sample_options import chosen as chosen_rules
from crossline.cli.terminal.notes import note, write_lines
from crossline.rule_registry.rule_files import FileRule

if TYPE_CHECKING:
    from crossline.analysis.lint import LintFinding
    from crossline.backtest.backtest import BacktestSpec

KEYS_SHARE = 0.95  # of the records that enter: with so many keys, nearly each record has its own
RECORDS_MIN = 1_000


class FindingKind(StrEnum):
    """What lint looks for."""

    NEVER_TRUE = "never_true"
    ALWAYS_TRUE = "always_true"
    CONTRADICTORY = "contradictory"
    SUBSUMED = "subsumed"
    SHORT_WINDOW = "short_window"
    UNBOUNDED_KEY = "unbounded_key"
    UNREAD_FIGURE = "unread_figure"
    DECIDES_RARELY = "decides_rarely"
    ODD_SHARE = "odd_share"


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding at its place in a file."""

    finding: LintFinding
    source: str
    line: int
    path: str
    snippet: str

    def render(self) -> str:
        """As the other reports, with what it means and what to do."""
        found = self.finding
        lines = [f"{self.source}:{self.line}: {self.path}".rstrip(": ")]
        if self.snippet:
            lines.append(f"{self.line:>6} | {self.snippet}")
        lines.append(f"  {found.kind.replace('_', ' ')}, rule {found.rule_id}: {found.what}")
        lines += [f"  why it matters: {found.why}", f"  what to do: {found.todo}"]
        return "\n".join(lines)

    def as_json(self) -> bytes:
        """For programs."""
        found = self.finding
        return orjson.dumps(
            {
                "rule_id": found.rule_id,
                "kind": found.kind,
                "source": self.source,
                "line": self.line,
                "path": self.path,
                "what": found.what,
                "why": found.why,
                "todo": found.todo,
            }
        )


def lint(
    rules: Rules,
    *,
    rule: OneRule = None,
    stream: StreamFile = None,
    lists: ListFolder = None,
    pipeline: PipelineFile = None,
    figures: FiguresPath = None,
    input_: SomeInput = None,
    ignore: Annotated[
        list[FindingKind] | None, typer.Option("--ignore", help="A kind of finding to leave out; may be given again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find rules that never or always fire, contradict themselves, repeat another rule, or keep records without end.

    A finding holds for all records; exit 1 if there is one. A sample shows keys that differ in nearly every record.
    """
    from crossline.analysis.ruleset_lint import lint as found_in
    from crossline.plan.compose import sources_of

    given = TrialInput(stream, lists, pipeline, tuple(input_ or ()), figures)
    placed = {each.rule.rule_id: each for each in given.placed(rules)}
    every = [each.rule for each in placed.values()]
    chosen = {each.rule_id for each in chosen_rules(every, rule)}
    judged = given.judged(rules, every)
    before = given.before(rules, every)
    found = found_in(every, sources_of(judged.rules, judged.history.streams), judged.defaults, before)
    if input_:
        found += many_keys(given, judged, {each.rule_id for each in found if each.kind == "unbounded_key"})
    left_out = {each.value for each in ignore or ()}
    shown = [each for each in found if each.rule_id in chosen and each.kind not in left_out]
    _print([place(each, placed[each.rule_id]) for each in shown], len(chosen), as_json=as_json)
    if shown:
        raise typer.Exit(1)


def place(found: LintFinding, item: FileRule) -> Placed:
    """``found`` at its place in the file of ``item``."""
    problem = item.problem(Finding(found.path, "", ""))
    return Placed(found, item.source, problem.line, path_text((*item.path, *found.path)), problem.snippet)


def many_keys(given: TrialInput, judged: BacktestSpec, known: Iterable[str]) -> list[LintFinding]:
    """Rules whose keys are nearly as many as their records, in a sample that is longer than what they keep."""
    from crossline.analysis.lint import unbounded
    from crossline.backtest.workbench.rule_costs import spans, stores
    from crossline.backtest.workbench.sample import batches
    from crossline.runtime.machine.temporary_folders import own_folder_for

    with own_folder_for("lint") as folder:
        (ready,) = given.with_tables([judged], folder / "tables")
        sample = list(batches(judged.history, folder))
        kept = stores(ready, sample)
    length = spans(sample)
    rules = {version.rule.rule_id: version.rule for version in judged.rules.versions}
    found = []
    for rule_id, spaces in kept.items():
        for each in spaces if rule_id not in known else ():
            whole = length[each.kept.base].seconds * 1_000 > each.kept.remembers_ms
            if whole and each.records >= RECORDS_MIN and each.keys >= KEYS_SHARE * each.records:
                what = f"the sample has {each.keys:,} keys for the {each.records:,} records that enter"
                found.append(unbounded(rules[rule_id], what, "nearly each record is a key of its own"))
    return found


def _print(found: Sequence[Placed], rules: int, *, as_json: bool) -> None:
    if as_json:
        write_lines(each.as_json() for each in found)
    elif found:
        sys.stdout.write(printable_lines("\n\n".join(each.render() for each in found)) + "\n")
    if not found:
        note(f"{rules:,} rule{'' if rules == 1 else 's'}: nothing found")
