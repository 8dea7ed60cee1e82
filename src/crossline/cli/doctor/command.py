"""``crossline doctor``: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import orjson
import typer

from crossline.cli.doctor.machine import CheckResult, machine_findings
from crossline.cli.doctor.postgres import postgres_findings
from crossline.cli.doctor.redis import redis_findings
from crossline.cli.doctor.registry import registry_findings
from crossline.cli.extras import install
from crossline.cli.terminal.tables import Listing, show
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.settings.config import PipelineConfig

_STYLES = {"ok": "green", "warning": "yellow", "missing": "red"}


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(name="doctor")(doctor)


def doctor(
    pipeline: Annotated[
        Path | None,
        typer.Option(
            help="Check also the Kafka brokers, topics, schema registries, databases and Redis of this pipeline."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The findings as JSON.")] = False,
) -> None:
    """Say what is installed, what is missing, and how to get it; exit 1 where something that is needed is missing."""
    config = read_pipeline_in_place(pipeline) if pipeline is not None else None
    uses_kafka = config is not None and any(source.kind == "kafka" for source in config.sources.values())
    findings = machine_findings(spark_kafka_needed=uses_kafka)
    if config is not None:
        findings += [*_kafka_findings(config), *registry_findings(config, os.environ)]
        findings += [*postgres_findings(config, os.environ), *redis_findings(config, os.environ)]
    missing = [finding for finding in findings if finding.status == "missing"]
    if as_json:
        value = {"schema_version": 1, "ok": not missing, "findings": [finding.as_json() for finding in findings]}
        sys.stdout.write(orjson.dumps(value).decode() + "\n")
    else:
        show(_table(findings))
    raise typer.Exit(1 if missing else 0)


def _kafka_findings(config: PipelineConfig) -> Sequence[CheckResult]:
    """What is found of brokers and topics; where their client is not installed, that."""
    try:
        from crossline.cli.doctor.kafka import kafka_findings
    except ModuleNotFoundError as error:
        placed = (*config.sources.values(), *config.sinks, config.rules, config.lists, *config.tables.values())
        used = any(getattr(each, "kind", None) == "kafka" for each in placed)
        advice = install("kafka")
        return [CheckResult("Kafka", "missing", f"{error.name} is not installed", advice)] if used else []
    return kafka_findings(config, os.environ)


def _table(findings: Sequence[CheckResult]) -> Listing:
    table = Listing("what", "state", "found", "to do", long=("found", "to do"))
    for finding in findings:
        table.add(finding.name, finding.status, finding.found, finding.advice, style=_STYLES[finding.status])
    return table
