"""``crossline rules suggest-threshold``: where a rule's line would be drawn, by the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import path_text
from crossline.cli.rules.compare import marks_of, weighed_cells
from crossline.cli.rules.prove import instant_of, past_of
from crossline.cli.rules.sample_options import (
    AsJson,
    FiguresPath,
    Labels,
    ListFolder,
    PipelineFile,
    Rules,
    SomeInput,
    StreamFile,
    TrialInput,
    chosen,
    read_by,
)
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.rule_registry.content import read_pipeline_in_place

if TYPE_CHECKING:
    from crossline.backtest.workbench.rule_costs import RecordSpan
    from crossline.backtest.workbench.threshold_search import Suggestion, ThresholdOutcome, ThresholdSteps

Since = Annotated[str | None, typer.Option("--from", help="With --steps: count alerts from this event time.")]
Until = Annotated[str | None, typer.Option("--to", help="And before this event time.")]
SHOWN = 4  # lines on each side of the one that is suggested
STEPS_MAX = 30


def suggest_threshold(
    rules: Rules,
    *,
    rule: Annotated[str, typer.Option("--rule", metavar="ID", help="The rule to find a threshold for.")],
    input_: SomeInput = None,
    alerts_per_day: Annotated[
        float | None, typer.Option("--alerts-per-day", min=0, help="How many alerts a day can be investigated.")
    ] = None,
    steps: Annotated[
        int,
        typer.Option("--steps", min=0, max=STEPS_MAX, help="Instead: so many thresholds each side of the present one."),
    ] = 0,
    also: Annotated[list[float] | None, typer.Option("--also", help="With --steps: a further threshold.")] = None,
    from_: Since = None,
    to: Until = None,
    labels: Labels = None,
    stream: StreamFile = None,
    lists: ListFolder = None,
    pipeline: PipelineFile = None,
    figures: FiguresPath = None,
    as_json: AsJson = False,
) -> None:
    """Find the line that would have given so many alerts a day, or, with labels alone, the best F1.

    Each threshold shown was run on the records, with the rule's own emission and cooldown.
    """
    from crossline.backtest.workbench.interval import ANY_TIME, Interval
    from crossline.backtest.workbench.rule_costs import days_of, spans
    from crossline.backtest.workbench.sample import batches
    from crossline.backtest.workbench.threshold_search import ThresholdTarget, suggest, threshold_steps
    from crossline.runtime.machine.temporary_folders import own_folder_for

    interval = Interval(instant_of("--from", from_), instant_of("--to", to))
    _check_wanted(steps, whole=interval == ANY_TIME, best=alerts_per_day is not None or labels is not None)
    given = TrialInput(stream, lists, pipeline, _inputs(input_, pipeline), figures)
    every = chosen(given.rules(rules), None)
    (mine,) = chosen(every, rule)
    judged = given.judged(rules, [mine, *read_by(mine, every)])
    base = judged.rules.base(mine)
    if base not in judged.history.inputs:
        raise UsageError(f"rule {rule} reads stream {base}; found no --input for it")
    marks = marks_of(labels, judged, None)
    with own_folder_for("suggest") as folder:
        sample = list(batches(judged.history, folder))
        known = spans(sample)
        if base not in known:
            raise UsageError(f"the input has no record of stream {base} that could be read")
        days = days_of(known) if interval == ANY_TIME else interval.days(*_ends(known))
        (ready,) = given.with_tables([judged], folder / "tables")
        if steps:
            found = threshold_steps(ready, mine, sample, days, marks, steps, also or (), interval)
            _tell_around(rule, found, days, as_json=as_json)
            return
        wanted = ThresholdTarget(None if alerts_per_day is None else alerts_per_day * days, marks)
        best = suggest(ready, mine, sample, days, wanted)
    if as_json:
        write_lines([orjson.dumps(_as_json(rule, best, days))])
    else:
        _print(rule, best, days)


def _check_wanted(steps: int, *, whole: bool, best: bool) -> None:
    """Raises UsageError if nothing is wanted, or an interval of what has none."""
    if not best and not steps:
        raise UsageError("name what is wanted: --alerts-per-day N, --labels FILE|URL for the best F1, or --steps N")
    if not whole and not steps:
        raise UsageError("--from and --to say which alerts count around the present line: name --steps N")


def _ends(known: Mapping[str, RecordSpan]) -> tuple[int, int]:
    """The first and the last instant of all streams."""
    return min(each.first_ms for each in known.values()), max(each.last_ms for each in known.values())


def _inputs(given: Sequence[str] | None, pipeline: Path | None) -> tuple[str, ...]:
    """What was given; else the files of the pipeline's sources. Raises UsageError if there is neither."""
    if given:
        return tuple(given)
    if pipeline is None:
        raise UsageError("found no --input and no --pipeline; expected records of the past")
    past = past_of(read_pipeline_in_place(pipeline))
    return tuple(f"{name}={each}" for name, several in past.items() for each in several)


def _tell_around(rule_id: str, found: ThresholdSteps, days: float, *, as_json: bool) -> None:
    row = {
        "rule_id": rule_id,
        "line_of": found.drawn.named,
        "operator": found.drawn.operator,
        "path": path_text(found.drawn.path),
        "step": found.step,
        "present": _row(found.present),
        "judged": [_row(each) for each in found.judged],
        "days": round(days, 6),
    }
    if as_json:
        write_lines([orjson.dumps(row)])
        return
    weighed = ("precision", "recall", "F1", "frauds caught") if found.present.weighed is not None else ()
    table = Listing("", f"{found.drawn.named} {found.drawn.operator}", "alerts", "a day", *weighed)
    for each in found.judged:
        table.add(*_cells("present" if each is found.present else "", each))
    show(table)


def _as_json(rule_id: str, found: Suggestion, days: float) -> dict[str, Any]:
    return {
        "rule_id": rule_id,
        "line_of": found.drawn.named,
        "operator": found.drawn.operator,
        "path": path_text(found.drawn.path),
        "threshold": found.best.line,
        "same_to": found.same_to,
        "best": _row(found.best),
        "present": _row(found.present),
        "judged": [_row(each) for each in found.judged],
        "lines": found.lines,
        "days": round(days, 6),
    }


def _row(outcome: ThresholdOutcome) -> dict[str, Any]:
    row: dict[str, Any] = {"threshold": outcome.line, "alerts": outcome.alerts, "alerts_per_day": outcome.per_day}
    return {**row, **(outcome.weighed.as_json() if outcome.weighed is not None else {})}


def _print(rule_id: str, found: Suggestion, days: float) -> None:
    drawn = found.drawn
    weighed = ("precision", "recall", "F1", "frauds caught") if found.best.weighed is not None else ()
    table = Listing("", f"{drawn.named} {drawn.operator}", "alerts", "a day", *weighed)
    place = found.judged.index(found.best)
    for each in found.judged[max(0, place - SHOWN) : place + SHOWN + 1]:
        table.add(*_cells("suggested" if each is found.best else "", each))
    table.add(*_cells("present", found.present))
    show(table)
    same = f"; up to {_number(found.same_to)}, but for that itself, any line gives the same" if found.same_to else ""
    show(f"{rule_id}: {path_text(drawn.path)}: {drawn.operator} {_number(found.best.line)}{same}")
    whole = "none that there are is better" if len(found.judged) == found.lines else "those nearest to what is wanted"
    note(f"{len(found.judged):,} of {found.lines:,} lines judged, {whole}; records of {days:,.3g} days")


def _cells(what: str, outcome: ThresholdOutcome) -> list[str]:
    cells = [what, _number(outcome.line), f"{outcome.alerts:,}", f"{outcome.per_day:,.4g}"]
    return cells + (list(weighed_cells(outcome.weighed)) if outcome.weighed is not None else [])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"
