"""``crossline doctor``: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from crossline.cli.doctor_kafka import kafka_findings
from crossline.cli.doctor_machine import Finding, machine_findings
from crossline.core.config import Pipeline, in_folder, load_pipeline
from crossline.core.errors import UsageError

_STYLES = {"ok": "green", "warning": "yellow", "missing": "red"}
_WIDTH_PIPED = 2000


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(name="doctor")(doctor)


def doctor(
    pipeline: Annotated[
        Path | None, typer.Option(help="Look also at the Kafka brokers and topics of this pipeline.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The findings as JSON.")] = False,
) -> None:
    """Say what is installed, what is missing, and how to get it; exit 1 where something that is needed is missing."""
    config = _read(pipeline) if pipeline is not None else None
    uses_kafka = config is not None and any(source.kind == "kafka" for source in config.sources.values())
    findings = machine_findings(spark_kafka_needed=uses_kafka)
    if config is not None:
        findings += kafka_findings(config, os.environ)
    missing = [finding for finding in findings if finding.status == "missing"]
    if as_json:
        value = {"schema_version": 1, "ok": not missing, "findings": [finding.as_json() for finding in findings]}
        sys.stdout.write(orjson.dumps(value).decode() + "\n")
    else:
        _show(findings)
    raise typer.Exit(1 if missing else 0)


def _read(path: Path) -> Pipeline:
    def read(name: str) -> str:
        return (path.parent / name).read_text(encoding="utf-8")

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"pipeline file {path} cannot be read: {error.strerror}") from None
    return in_folder(load_pipeline(text, str(path), read), str(path.parent))


def _show(findings: Sequence[Finding]) -> None:
    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = _WIDTH_PIPED
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("what", "state", "found", "to do"):
        table.add_column(column)
    for finding in findings:
        table.add_row(finding.name, finding.status, finding.found, finding.advice, style=_STYLES[finding.status])
    console.print(table)
