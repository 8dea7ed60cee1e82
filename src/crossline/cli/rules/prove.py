"""``crossline rules prove``: what a rule would have done, with digests by which the run can be repeated."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import shown
from crossline.basics.times import parse_instant_ms
from crossline.cli.backtest import inputs_by_stream
from crossline.cli.rules.compare import marks_of
from crossline.cli.rules.sample_options import Amount, AsJson, Labels, OneRule, TrialInput, chosen, read_by
from crossline.cli.summary import ProgressLine
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import NameValues, show
from crossline.rule_registry.content import read_pipeline_in_place, read_text
from crossline.rules.base import Rule
from crossline.settings.config import PipelineConfig
from crossline.settings.sources import ApiSettings, FilesSettings

if TYPE_CHECKING:
    from crossline.backtest.workbench.interval import Interval

Pipeline = Annotated[
    Path,
    typer.Option("--pipeline", help="Pipeline file: its live version is compared.", exists=True, dir_okay=False),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="Past records: files; by default the files of the pipeline's sources."),
]


def prove(
    rules: Annotated[Path, typer.Argument(metavar="FILE", help="A rule file.", exists=True, dir_okay=False)],
    *,
    pipeline: Pipeline,
    rule: OneRule = None,
    input_: Inputs = None,
    from_: Annotated[str | None, typer.Option("--from", help="Count alerts from this event time on.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="And before this one.")] = None,
    labels: Labels = None,
    amount: Amount = None,
    as_json: AsJson = False,
) -> None:
    """Judge past records by a rule and by its live version; show alerts a day, and digests of text, data and result.

    With --json it is a proof that `crossline verify PROOF --pipeline FILE` runs again.
    """
    from crossline.backtest.workbench.interval import Interval

    interval = Interval(instant_of("--from", from_), instant_of("--to", to))
    found = proven(rules, pipeline, input_ or [], interval, rule=rule, labels=labels, amount=amount)
    if as_json:
        write_lines([orjson.dumps(found)])
    else:
        _print(found)


def proven(
    rules: Path,
    pipeline: Path,
    inputs: Sequence[str],
    interval: Interval,
    *,
    rule: str | None = None,
    labels: str | None = None,
    amount: str | None = None,
) -> dict[str, Any]:
    """The proof of the one rule in ``rules`` (or of that of the name ``rule``), by the records of ``inputs``."""
    from crossline.backtest.workbench.blast_radius import BlastRadius
    from crossline.backtest.workbench.interval import LabelsWithin
    from crossline.backtest.workbench.joint_run import run_jointly
    from crossline.backtest.workbench.proof import Candidate, file_digests, proof_of
    from crossline.runtime.machine.temporary_folders import own_folder_for

    config = read_pipeline_in_place(pipeline)
    past = inputs_by_stream(list(inputs), config.streams) if inputs else past_of(config)
    given = TrialInput(
        pipeline=pipeline, inputs=tuple(f"{name}={each}" for name, several in past.items() for each in several)
    )
    mine = _the_rule(given.rules(rules), rules, rule)
    live = live_rules(given, config)
    others = read_by(mine, live.values())
    before = live.get(mine.rule_id)
    sets = [given.judged(rules, [mine, *others])]
    if before is not None:
        sets.append(given.judged(rules, [before, *read_by(before, live.values())]))
    marks = marks_of(labels, sets[0], None if labels is None else amount)
    progress = ProgressLine(sys.stderr)
    files = file_digests(past, pipeline.resolve().parent)
    whole = sum(each["bytes"] for each in files)

    def far(records: int, read: int) -> None:
        progress.show(f"{records:,} records, {min(99, 100 * read // max(1, whole))}%")

    with own_folder_for("prove") as folder:
        ready = given.with_tables(sets, folder / "tables")
        asked = None if marks is None else LabelsWithin(interval, marks)
        blast = None if asked is None else BlastRadius(ready[0], mine, asked)
        found = run_jointly(ready, folder, amount, far, *(() if blast is None else (blast.see,)))
    progress.done()
    reads = {each.rule_id: each.version for each in others}
    version = None if before is None else before.version
    candidate = Candidate(mine.rule_id, mine.version, read_text(rules), reads, version, mine.body_digest())
    return proof_of(candidate, files, found, interval, None if asked is None else asked.found(), amount, blast)


def past_of(config: PipelineConfig) -> dict[str, list[str]]:
    """The files that the pipeline's sources are, by stream. Raises UsageError if there are none."""
    from crossline.io.files.patterns import matching_files

    found = {
        name: [source.path]
        for name, source in config.sources.items()
        if isinstance(source, FilesSettings | ApiSettings) and matching_files([source.path])
    }
    if not found:
        raise UsageError("found no files in the pipeline's sources; expected --input, or sources of kind files")
    return found


def live_rules(given: TrialInput, config: PipelineConfig) -> Mapping[str, Rule]:
    """The versions in force by the rule log; where there is none yet, those of the folder."""
    from crossline.rule_registry.history import History
    from crossline.serve.http.reads.rulebook import log_of

    _, events = log_of(config)
    if not events:
        folder = Path(config.rules.path)
        return {each.rule_id: each for each in chosen(given.rules(folder), None)} if any(folder.glob("*.y*ml")) else {}
    rules = History(events).rules
    return {name: mine.versions[mine.in_force] for name, mine in rules.items() if mine.in_force is not None}


def _the_rule(rules: Sequence[Rule], path: Path, rule: str | None) -> Rule:
    found = chosen(rules, rule)
    if len(found) != 1:
        raise UsageError(f"{path}: found {len(found)} rules; expected one, or its name with --rule")
    return found[0]


def instant_of(option: str, text: str | None) -> int | None:
    """An option that is an instant, epoch milliseconds. Raises UsageError for what is none."""
    if text is None:
        return None
    try:
        return parse_instant_ms(text)
    except ValueError as error:
        raise UsageError(
            f"{option}: found {shown(text)}; expected an instant such as 2026-01-01T00:00:00Z ({error})"
        ) from None


def _print(found: Mapping[str, Any]) -> None:
    ahead, against, data = found["predicted"], found["against"], found["data"]
    live = "no version is live" if against["version"] is None else f"version {against['version']} is live"
    show(
        f"{found['rule_id']} version {found['version']}; {live}",
        NameValues(
            [
                ("past", f"{data['from']} to {data['to']}, {data['records']:,} records"),
                ("alerts", f"{found['result']['alerts']:,}, {ahead['per_day']:,.4g} a day"),
                ("predicted", f"{ahead['low']:,.4g} to {ahead['high']:,.4g} a day"),
                ("against it", f"{against['appear']:,} appear, {against['disappear']:,} go, {against['both']:,} stay"),
                *((f"digest of {name}", digest) for name, digest in found["digests"].items()),
            ]
        ),
    )
    note("keep it with --json; crossline verify PROOF --pipeline FILE runs it again")
