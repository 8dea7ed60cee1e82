"""``crossline rules test`` without a sample: the cases beside rule files, and whether their hits are as expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from rich.text import Text

from crossline.cli.screen import Listing, note, show, write_lines
from crossline.core.basics.errors import UsageError
from crossline.core.texts.plaintext import printable
from crossline.core.texts.yamltext import load_yaml
from crossline.rulelog.content import text_of
from crossline.rulelog.reading import FileRule, case_files, is_folder, read_placed_rules, rule_stem

if TYPE_CHECKING:
    from crossline.cli.backtest import Setting
    from crossline.replay.workbench.cases import CaseResult


@dataclass(frozen=True, slots=True)
class FileResult:
    """What came of a case of a file."""

    source: str
    result: CaseResult


def run_cases(path: Path, setting: Setting) -> list[FileResult]:
    """The cases beside the rule file ``path``, or of all in the folder, judged.

    Of a file beside which no rule file stands, all rules are meant.

    Raises:
        UsageError: there are none.
        RefusedError: all that is wrong in one.
    """
    from crossline.core.judge.shard import Bounds
    from crossline.replay.workbench.cases import Bench, read_cases
    from crossline.rulelog.lists import lists_in

    files = case_files(path)
    if not files:
        where = path if is_folder(path) else f"{path.parent / path.stem}.cases.yaml"
        raise UsageError(
            f"found no --input and no cases at {where}; expected a sample, or files that end in .cases.yaml beside the "
            "rules"
        )
    folder = path if is_folder(path) else path.parent
    named = lists_in(setting.lists) if setting.lists else {}
    rules = read_placed_rules(folder, setting.known(sorted(named) if setting.lists else None))
    bounds = Bounds(setting.partition_lag_ms)
    bench = Bench([each.rule for each in rules], setting.streams, named, setting.defaults, bounds)
    found = []
    for source, content in files.items():
        of = _rules_beside(source, rules)
        cases = read_cases(load_yaml(text_of(source, content), source))
        found += [FileResult(source, bench.run(case, of)) for case in cases]
    return found


def _rules_beside(source: str, rules: Sequence[FileRule]) -> list[str]:
    """The ids of the rules in the file beside which the cases of ``source`` stand; of all, where there is none."""
    mine = [each for each in rules if Path(each.source).stem == rule_stem(source)] or rules
    return list(dict.fromkeys(each.rule.rule_id for each in mine))


def tell_cases(found: Sequence[FileResult], *, as_json: bool) -> bool:
    """Say what came of them; whether all passed."""
    if as_json:
        write_lines(
            orjson.dumps(
                {
                    "file": each.source,
                    "case": each.result.name,
                    "passed": each.result.passed,
                    "differs": each.result.differs,
                }
            )
            for each in found
        )
    else:
        table = Listing("file", "case", "", "what differs", long=["what differs"])
        for each in found:
            said = Text("\n".join(map(printable, each.result.differs)))
            table.add(Path(each.source).name, each.result.name, "passed" if each.result.passed else "failed", said)
        show(table)
    failed = sum(not each.result.passed for each in found)
    note(f"{len(found):,} cases, {failed:,} failed")
    return not failed
