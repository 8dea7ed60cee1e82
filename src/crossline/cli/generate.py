"""``crossline generate``: makes the workloads, to files, to standard output or to Kafka."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from crossline.basics.errors import UsageError
from crossline.generate.cards import CardWorkload
from crossline.generate.labels import label_lines
from crossline.generate.rules_many import many_rules_yaml
from crossline.generate.send import DirectoryTarget, SendResult, StreamTarget, Target, send
from crossline.generate.source import Workload, make_workload
from crossline.io.sinks.outfile import growing_file, is_standard_output

app = typer.Typer(
    help="Generate workloads: card payments for measurements, card frauds to test rules.", no_args_is_help=True
)

# Beyond these, memory or 64 bits end first.
NUMBER_MAX = 10**12
SEED_MAX = 2**63 - 1
FILES_MAX = 100_000
RATE_MAX = 10_000_000
THINGS_MAX = 20_000_000
DISORDER_MS_MAX = 86_400_000
FRAUDS_MAX = 100
RULES_MAX = 100_000

Records = Annotated[int, typer.Option(min=0, max=NUMBER_MAX, help="How many records.")]
Start = Annotated[int, typer.Option(min=0, max=NUMBER_MAX, help="Number of the first record.")]
Seed = Annotated[int, typer.Option(min=0, max=SEED_MAX, help="Equal seeds make equal records.")]
Output = Annotated[str | None, typer.Option(help="File, or directory with --files; - is standard output.")]
Files = Annotated[
    int | None, typer.Option(min=1, max=FILES_MAX, help="Number of files to write into the directory --output.")
]
Rate = Annotated[
    int | None, typer.Option(min=1, max=RATE_MAX, help="Records per second, open loop; without it, as fast as it goes.")
]
EventRate = Annotated[int | None, typer.Option(min=1, max=RATE_MAX, help="Records per second of event time.")]
BaseTime = Annotated[
    str | None,
    typer.Option(help="Event time of the first record, RFC 3339, or now (then --event-rate is --rate unless given)."),
]
Accounts = Annotated[int | None, typer.Option(min=1, max=THINGS_MAX, help="How many accounts there are.")]
Disorder = Annotated[
    int | None, typer.Option(min=0, max=DISORDER_MS_MAX, help="Bound of the disorder of records, in milliseconds.")
]
Brokers = Annotated[str | None, typer.Option(help="Kafka's bootstrap servers, with --topic; key: account_id.")]
Topic = Annotated[str | None, typer.Option(help="Kafka topic; the header crossline_sent_us has the time to send.")]
Registry = Annotated[
    str | None,
    typer.Option(help="Address of a schema registry: records go to the topic as Avro, by a schema put there."),
]
Client = Annotated[
    Path | None,
    typer.Option(
        "--client",
        help="File of settings of the Kafka client, name=value a line: security.protocol, sasl.username, sasl.password "
        "and so on.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Summary as JSON.")]


def register(parent: typer.Typer) -> None:
    """Add the command to the command line."""
    parent.add_typer(app, name="generate")


@dataclass(frozen=True, slots=True)
class Where:
    """Where records go; checked as one."""

    output: str | None
    files: int | None
    brokers: str | None
    topic: str | None
    registry: str | None = None
    client: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what does not name exactly one place."""
        if (self.brokers is None) != (self.topic is None):
            raise UsageError("--brokers and --topic go together")
        if (self.output is None) == (self.brokers is None):
            raise UsageError("name one place: --output FILE, --output - or --brokers … --topic …")
        if self.registry is not None and self.brokers is None:
            raise UsageError("--registry needs --brokers and --topic: in files records are JSON")
        if self.client is not None and self.brokers is None:
            raise UsageError("--client needs --brokers and --topic")
        if self.files and self.output in {None, "-"}:
            raise UsageError("--files needs --output DIRECTORY")

    @property
    def standard_output(self) -> bool:
        """Whether records go where the command prints."""
        return self.output is not None and (self.output == "-" or is_standard_output(Path(self.output)))

    def __str__(self) -> str:
        """The place as a person reads it."""
        return f"{self.topic} at {self.brokers}" if self.brokers else str(self.output)


@app.command()
def tx(
    *,
    records: Records = 2_000_000,
    start: Start = 0,
    seed: Seed = 1,
    output: Output = None,
    files: Files = None,
    rate: Rate = None,
    event_rate: EventRate = None,
    base_time: BaseTime = None,
    accounts: Accounts = None,
    merchants: Annotated[int | None, typer.Option(min=1, max=THINGS_MAX, help="How many merchants there are.")] = None,
    disorder_ms: Disorder = None,
    with_device: Annotated[bool, typer.Option(help="Add device_id, as the many-rules sets need it.")] = False,
    brokers: Brokers = None,
    topic: Topic = None,
    registry: Registry = None,
    client: Client = None,
    as_json: AsJson = False,
) -> None:
    """Card transactions for measurements."""
    where = Where(output, files, brokers, topic, registry, client)
    parameters = {"seed": seed, "accounts": accounts, "merchants": merchants, "disorder_ms": disorder_ms}
    parameters |= {"with_device": with_device, **_times(base_time, rate, event_rate, disorder_ms)}
    workload = make_workload("tx", _parameters(parameters))
    summary = {"workload": "tx", "seed": seed, "start": start}
    _run(workload, where, range(start, start + records), rate, summary, as_json=as_json)


@app.command()
def cards(
    *,
    records: Records = 144_000,
    start: Start = 0,
    seed: Seed = 1,
    output: Output = None,
    labels: Annotated[Path | None, typer.Option(help="File for the labels of planted frauds.")] = None,
    files: Files = None,
    rate: Rate = None,
    event_rate: EventRate = None,
    base_time: BaseTime = None,
    accounts: Accounts = None,
    disorder_ms: Disorder = None,
    frauds: Annotated[
        int | None, typer.Option(min=0, max=FRAUDS_MAX, help="Of each kind in 20 minutes of event time.")
    ] = None,
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", help="Kind of fraud to plant; may be given again; by default all.")
    ] = None,
    brokers: Brokers = None,
    topic: Topic = None,
    registry: Registry = None,
    client: Client = None,
    as_json: AsJson = False,
) -> None:
    """Everyday card payments with planted and labelled frauds."""
    where = Where(output, files, brokers, topic, registry, client)
    numbers = {"seed": seed, "accounts": accounts, "disorder_ms": disorder_ms, "frauds_per_epoch": frauds}
    parameters: dict[str, Any] = {**numbers, "kinds": tuple(kinds) if kinds else None}
    parameters |= _times(base_time, rate, event_rate, disorder_ms)
    workload = CardWorkload(**_parameters(parameters))
    summary: dict[str, Any] = {"workload": "cards", "seed": seed, "start": start}
    if labels:
        if output is not None and os.path.realpath(labels) == os.path.realpath(output):
            raise UsageError(f"--labels and --output are both {output}; give each a file of its own")
        planted = workload.labels(start, records)
        with growing_file(labels) as file:
            file.write(label_lines(planted))
        summary |= {"labels": str(labels), "frauds": len(planted)}
    _run(workload, where, range(start, start + records), rate, summary, as_json=as_json)


@app.command()
def rules(
    count: Annotated[int, typer.Option(min=1, max=RULES_MAX, help="How many rules.")] = 1_000,
    output: Annotated[str, typer.Option(help="File; - is standard output.")] = "-",
    as_json: AsJson = False,
) -> None:
    """Many velocity rules over four key spaces, for measurements with records of tx --with-device."""
    text = many_rules_yaml(count)
    if output == "-":
        sys.stdout.write(text)
    else:
        with growing_file(Path(output)) as file:
            file.write(text.encode())
    if as_json:
        # As with records: they own the standard output where they go there.
        stream = sys.stderr if output == "-" else sys.stdout
        stream.write(orjson.dumps({"rules": count, "output": output}).decode() + "\n")


def _parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that were given; the workload knows the others."""
    return {name: value for name, value in parameters.items() if value is not None}


def _times(base_time: str | None, rate: int | None, event_rate: int | None, disorder_ms: int | None) -> dict[str, Any]:
    """Base time and rate of event time. From ``now``, records lie in the past, by up to the disorder."""
    if base_time == "now":
        delay_ms = 2_000 if disorder_ms is None else disorder_ms
        return {"base_ms": int(time.time() * 1_000) - delay_ms, "rate_per_s": event_rate or rate}
    if base_time is None:
        return {"rate_per_s": event_rate}
    try:
        moment = datetime.fromisoformat(base_time)
    except ValueError as error:
        raise UsageError(f"--base-time is {base_time!r}; expected e.g. 2026-01-01T00:00:00Z, or now") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return {"base_ms": round(moment.timestamp() * 1_000), "rate_per_s": event_rate}


def _run(
    workload: Workload, where: Where, numbers: range, rate: int | None, summary: dict[str, Any], *, as_json: bool
) -> None:
    """Send the records and print the summary."""
    with ExitStack() as stack:
        target = _target(workload, where, numbers, stack)
        progress = stack.enter_context(_progress(len(numbers)))
        sent = send(workload, target, numbers, rate_per_s=rate, progress=progress)
    summary |= {
        "output": str(where),
        "records": sent.records,
        "bytes": sent.data_bytes,
        "seconds": round(sent.seconds, 3),
    }
    summary["records_per_s"] = round(sent.records / sent.seconds) if sent.seconds else None
    if rate:
        summary |= {"rate_per_s": rate, "behind_ms_max": round(sent.behind_ms_max, 1)}
    # Records own standard output where they go there.
    stream = sys.stderr if where.standard_output else sys.stdout
    stream.write(orjson.dumps(summary).decode() + "\n" if as_json else _sentence(summary, sent))


def _target(workload: Workload, where: Where, numbers: range, stack: ExitStack) -> Target:
    settings = client_settings(where.client) if where.client is not None else {}
    if where.brokers and where.topic and where.registry:
        from crossline.generate.avro import AvroTarget, avro_schema
        from crossline.io.registry.client import register_at

        schema = avro_schema(workload)
        return AvroTarget(
            where.brokers, where.topic, schema, register_at(where.registry, where.topic, schema), settings
        )
    if where.brokers and where.topic:
        from crossline.generate.kafka import KafkaTarget

        return KafkaTarget(where.brokers, where.topic, settings)
    if where.standard_output:
        return StreamTarget(sys.stdout.buffer)
    path = Path(str(where.output))
    if where.files:
        return DirectoryTarget(path, where.files, numbers)
    return StreamTarget(stack.enter_context(growing_file(path)))


def client_settings(path: Path) -> dict[str, str]:
    """The settings in a file, one a line; blank lines, and those that begin with #, are none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"--client {path} cannot be read: {error}") from None
    found = {}
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, equals, value = line.partition("=")
            if not equals:
                raise UsageError(f"{path}:{number}: expected name=value, a setting of the Kafka client")
            found[name.strip()] = value.strip()
    return found


@contextmanager
def _progress(records: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on standard error where a person sees it."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("generating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("generating", total=records)
        yield lambda done: bar.advance(task, done)


def _sentence(summary: dict[str, Any], sent: SendResult) -> str:
    text = f"{sent.records:,} records ({sent.data_bytes / 1e6:,.1f} MB) to {summary['output']} in {sent.seconds:.1f} s"
    if "behind_ms_max" in summary:
        text += f", at most {summary['behind_ms_max']} ms behind"
    if "labels" in summary:
        text += f"; {summary['frauds']} frauds planted, labels in {summary['labels']}"
    return text + "\n"
