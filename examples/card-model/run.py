"""Payments are made, figures are told of them, a model is trained, and rules and model judge what came later.

    python examples/card-model/run.py
    python examples/card-model/run.py --judge-only

The first trains a model and needs requirements.lock; the second has the model in ``rules`` judge. Equal options give
equal results, to the last byte of the model.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measure
import orjson
from features import HERE, Featured, featured

from crossline.basics.models.model import Model, Scorer
from crossline.generate.labels import PlantedFraud, read_labels

KNOWN = ("account_takeover", "card_testing", "merchant_anomaly")
RULE, MODEL = "card_model.yaml", "card-model.onnx"


@dataclass(frozen=True, slots=True)
class Period:
    """Payments from number ``start`` on, in the files ``records`` and ``labels``."""

    records: Path
    labels: Path
    start: int
    count: int

    def made(self, seed: int, kinds: Sequence[str]) -> list[PlantedFraud]:
        """Make them, with frauds of ``kinds`` (none: of all); the labels."""
        planted = [part for kind in kinds for part in ("--kind", kind)]
        numbers = ["--seed", str(seed), "--start", str(self.start), "--records", str(self.count)]
        _crossline("generate", "cards", *numbers, *planted, "--output", self.records, "--labels", self.labels)
        return read_labels(self.labels.read_bytes())


def main(arguments: Sequence[str] | None = None) -> None:
    """Do all of it."""
    asked = _asked(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    before = Period(asked.out / "1-before.jsonl", asked.out / "labels-before.jsonl", 0, asked.before)
    later = Period(asked.out / "2-later.jsonl", asked.out / "labels-later.jsonl", asked.before, asked.later)
    known, labels = before.made(asked.seed, KNOWN), later.made(asked.seed, ())
    files = [before.records, later.records]
    inputs = [part for file in files for part in ("--input", file)]
    pipeline, table = ["--pipeline", HERE / "pipeline.yaml"], asked.out / "figures.parquet"
    _crossline("figures", *pipeline, *inputs, "--output", table)
    records = featured(HERE / "rules" / RULE, table, files)
    is_later = records.event_ms >= _first_ms(records, f"t{asked.before:07d}")
    rules = HERE / "rules" if asked.judge_only else _trained(asked.out / "rules", records.part(~is_later), known, asked)
    alerts = asked.out / "alerts.jsonl"
    _crossline("backtest", *pipeline, "--rules", rules, *inputs, "--output", alerts)
    tried = records.part(is_later)
    scores, _ = Scorer(Model.of(MODEL, (rules / MODEL).read_bytes()), tried.names).scores(tried.values)
    scored = dict(zip(tried.ids, scores.tolist(), strict=True))
    told = [alert for alert in map(orjson.loads, alerts.open("rb")) if alert["record_id"] in scored]
    found = measure.report(told, labels, scored, KNOWN)
    (asked.out / "report.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    sys.stdout.write(measure.as_text(found))


def _first_ms(records: Featured, record_id: str) -> int:
    """When a record happened."""
    return int(records.event_ms[list(records.ids).index(record_id)])


def _trained(folder: Path, records: Featured, labels: Sequence[PlantedFraud], asked: argparse.Namespace) -> Path:
    """The rules with a model that is trained on ``records``, in ``folder``."""
    from train import train  # noqa: PLC0415 - needs requirements.lock, which judging does not

    frauds = {record for label in labels for record in label.record_ids}
    found = train(records, frauds, asked.seed)
    sys.stdout.write(f"trained on {found.trained_on[0]:,} records, {found.trained_on[1]:,} of them of frauds\n")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "rules", folder, ignore=shutil.ignore_patterns(".*"))
    rule = (folder / RULE).read_text()
    (folder / RULE).write_text(re.sub(r"(?m)^threshold: .*$", f"threshold: {found.threshold}", rule))
    (folder / MODEL).write_bytes(found.model)
    return folder


def _crossline(*arguments: Any) -> None:
    command = [str(each) for each in arguments]
    sys.stdout.write(f"$ crossline {' '.join(command)}\n")
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "crossline.cli.main", *command], check=True)


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/card-model"), help="folder for all that is made")
    parser.add_argument("--seed", type=int, default=21, help="equal seeds give equal payments and models")
    parser.add_argument("--before", type=int, default=432_000, help="payments to train on; 20 a second")
    parser.add_argument("--later", type=int, default=288_000, help="payments to judge, which come after those")
    parser.add_argument("--judge-only", action="store_true", help="train nothing: the model in rules/ judges")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
