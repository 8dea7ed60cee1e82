"""The commands of ``crossline``, each loaded when it is called."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

from crossline.cli.help import LazyGroup, member_of

# One module per command, or a folder with the module ``command``; each has ``register(app)``. The texts here are those
# of the commands.
COMMANDS = {
    "init": "Write an example project that runs: payments, three rules, and where to go from there.",
    "demo": "Card traffic with planted frauds through the whole pipeline, on this machine.",
    "run": "Run a pipeline until stopped; with --drain, process the available records, then exit.",
    "serve": "Answer requests for decisions over HTTP, and serve the console; its keys, its users, its audit log.",
    "backtest": "Judge files of the past; say what another rule set would change.",
    "replay": "Judge the records of the lake again; say what differs from what was delivered.",
    "figures": "Write figures of every record, as of that record, into a table: what models are trained on.",
    "rules": "Check, explain, test, compare, publish and list rules.",
    "alerts": "Read the alerts and dead letters of a store.",
    "holds": "Hold a key by hand until an instant, release it, list what is held.",
    "decisions": "List and show decisions on records.",
    "slo": "Say whether a pipeline keeps its objectives, and what is left of their error budgets.",
    "lake": "Iceberg tables with every record, alert and decision: write, look into, maintain.",
    "tokens": "Print the tokens of values of a sensitive field, for lists, tables, rules and questions; rotate the "
    "master key.",
    "verify": "Check a receipt, and judge its record again from the log: the same, differs, or altered.",
    "generate": "Generate workloads: card payments for measurements, card frauds to test rules.",
    "reshard": "Give the checkpoint of a stopped pipeline another number of shards.",
    "forget": "Erase a person from tables, files, state, stores and receipts of a pipeline.",
    "doctor": "Say what is installed, what is missing, and how to get it; exit 1 where something that is needed is "
    "missing.",
}


class Crossline(LazyGroup):
    """All commands."""

    known = COMMANDS

    @classmethod
    def load(cls, name: str) -> Any:
        """The command ``name``, with what it imports."""
        part = typer.Typer()
        module = importlib.import_module(f"crossline.cli.{name}")
        if hasattr(module, "__path__"):
            module = importlib.import_module(f"crossline.cli.{name}.command")
        module.register(part)
        return member_of(part, name)


app = typer.Typer(
    name="crossline",
    cls=Crossline,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from crossline.api.version import version

        typer.echo(f"crossline {version()}")
        raise typer.Exit


@app.callback(
    help="Real-time pattern and fraud detection on Apache Spark.\n\n"
    "Exit codes: 0 done, 1 the answer is no or the work failed, 2 wrong use."
)
def crossline(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    """Nothing of its own."""
