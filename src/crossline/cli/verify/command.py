"""``crossline verify``: is a receipt as it was written, and does the log give the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Group
from rich.text import Text

from crossline.basics.errors import UsageError
from crossline.basics.texts.plaintext import printable
from crossline.cli.backtest import inputs_by_stream
from crossline.cli.launch.process import do_without_pandas
from crossline.cli.launch.startup import tell_compiling
from crossline.cli.terminal import notes
from crossline.cli.terminal import tables as terminal
from crossline.cli.terminal.tables import NameValues
from crossline.cli.verify.inputs import read_receipt_file
from crossline.cli.verify.proof import is_proof, proven_again
from crossline.serve.ledger.chain import ChainFault, faults_of, is_erased
from crossline.serve.ledger.queries import LedgerCheck
from crossline.serve.ledger.reports import check_ledger, receipt_of
from crossline.serve.ledger.signing import Verifier

if TYPE_CHECKING:
    from crossline.serve.ledger.comparison import Difference, ReplayResult

SAME, OTHERWISE = 0, 1
_STYLES = {"the same": "bold green", "differs": "bold yellow", "altered": "bold red", "whole": "bold green"}
_STYLES |= {"erased": "bold yellow"}
_FAULTS_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="verify")(verify)


def verify(
    receipt: Annotated[
        str | None, typer.Argument(metavar="[RECEIPT]", help="File with a receipt as JSON; - for the standard input.")
    ] = None,
    *,
    pipeline: Annotated[
        Path | None, typer.Option(help="Pipeline file, for its sources, rule log, lists and policy.")
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            help="Ledger, a file or the address of a database: its chains are checked; with a receipt, that it is in "
            "there."
        ),
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="Ed25519 public key in PEM form, to check signatures.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Policy file of that time; by default the pipeline's.", exists=True, dir_okay=False),
    ] = None,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", help="Files instead of a source; NAME=GLOB for several streams."),
    ] = None,
    then: Annotated[
        bool, typer.Option("--then", help="Judge up to the record alone; later revisions count as no difference.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")] = False,
) -> None:
    """Check a receipt, and judge its record again from the log: the same, differs, or altered.

    Without --pipeline nothing is judged: whole is what is as it was written. Exit codes: 0 the same or whole, 1 differs
    or altered, 2 wrong use.
    """
    verifier = Verifier.from_file(public_key) if public_key is not None else None
    if receipt is None:
        if ledger is None:
            raise UsageError(
                "found neither a receipt nor --ledger; expected crossline verify RECEIPT.json --pipeline FILE"
            )
        raise typer.Exit(_report_ledger(check_ledger(ledger, verifier), ledger, as_json=as_json))
    found = read_receipt_file(receipt)
    if is_proof(found):
        raise typer.Exit(_report_proof(proven_again(found, pipeline, input_ or []), as_json=as_json))
    faults = faults_of(found, verifier)
    if not faults and ledger is not None:
        faults = list(_in_ledger(found, ledger))
    result = _result(found, faults, verifier, ledger)
    if not faults and is_erased(found):
        result |= {"result": "erased", "digest": "of the receipt before its ids were erased"}
        result["notes"].append("ids of a person were erased from this receipt: it cannot be judged again")
    elif not faults and pipeline is not None:
        _judged(result, found, pipeline, policy, input_ or [], then=then)
    elif not faults:
        result["notes"].append("nothing was judged again: name the pipeline file with --pipeline")
    raise typer.Exit(_report(result, as_json=as_json))


def _result(
    receipt: Mapping[str, Any], faults: Sequence[ChainFault], verifier: Verifier | None, ledger: str | None
) -> dict[str, Any]:
    decision = receipt.get("decision")
    answered: Mapping[str, Any] = decision if isinstance(decision, dict) else {}
    signature = "none" if receipt.get("signature") is None else "not checked: name the key with --public-key"
    if verifier is not None and not faults:
        signature = f"holds, of key {verifier.key_id}"
    return {
        "result": "altered" if faults else "whole",
        **{name: answered.get(name) for name in ("decision_id", "stream", "record_id", "decision", "answered")},
        "replica": receipt.get("replica"),
        "sequence": receipt.get("sequence"),
        "digest": "does not hold" if faults else "holds",
        "signature": "does not hold" if faults and verifier is not None else signature,
        "ledger": None if ledger is None else ("has another" if faults else "has it"),
        "records": None,
        "faults": [each.to_json() for each in faults],
        "differences": [],
        "notes": [],
    }


def _in_ledger(receipt: Mapping[str, Any], ledger: str) -> Iterator[ChainFault]:
    mine = receipt_of(ledger, str(receipt["decision"].get("decision_id")))
    place = (str(receipt["replica"]), int(receipt["sequence"]))
    if mine is None:
        yield ChainFault("left_out", *place, f"the ledger {ledger} has no receipt of this decision")
    elif mine != receipt and not (is_erased(mine) and mine.get("digest") == receipt.get("digest")):
        text = f"the ledger {ledger} has another receipt of this decision, {str(mine.get('digest'))[:12]}…"
        yield ChainFault("altered", *place, text)


def _judged(
    result: dict[str, Any],
    receipt: Mapping[str, Any],
    pipeline: Path,
    policy: Path | None,
    inputs: list[str],
    *,
    then: bool,
) -> None:
    """Judge again, and write what came of it into ``result``."""
    do_without_pandas()
    tell_compiling()
    from crossline.cli.verify.replay import judge_again, open_log
    from crossline.rule_registry.content import read_pipeline_in_place
    from crossline.runtime.machine.temporary_folders import own_folder_for
    from crossline.serve.ledger.comparison import differences

    given = inputs_by_stream(inputs, read_pipeline_in_place(pipeline).streams) if inputs else {}
    with own_folder_for("verify") as folder:
        log = open_log(pipeline, policy, given, folder, receipt, then=then, note_progress=notes.note)
        again: ReplayResult = judge_again(log, receipt, folder, then=then)
    found: list[Difference] = differences(receipt, again)
    result["result"] = "differs" if found else "the same"
    result["records"] = again.records
    result["differences"] = [each.to_json() for each in found]
    result["notes"] = log.notes


def _report(result: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(orjson.dumps(result).decode() + "\n")
    else:
        terminal.show(Group(_head(str(result["result"])), NameValues(_result_rows(result))))
        for note in result["notes"]:
            notes.note(note)
    return SAME if result["result"] in {"the same", "whole", "erased"} else OTHERWISE


def _report_proof(result: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(orjson.dumps(result).decode() + "\n")
    else:
        lines = [
            ("rule", f"{result['rule_id']} version {result['version']}"),
            ("judged again", f"{result['records']:,} records, {result['alerts']:,} alerts"),
            *(
                (each["what"], f"proof: {_short(each['proof'])}; again: {_short(each['again'])}")
                for each in result["differences"]
            ),
        ]
        terminal.show(Group(_head(str(result["result"])), NameValues(lines)))
    return SAME if result["result"] == "the same" else OTHERWISE


def _result_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "decision", f"{result['decision']} ({result['answered']}), {result['decision_id']}"
    yield "record", f"{result['record_id']} of {result['stream']}"
    yield "receipt", f"{result['sequence']} of {result['replica']}"
    yield "digest", str(result["digest"])
    yield "signature", str(result["signature"])
    if result["ledger"] is not None:
        yield "ledger", str(result["ledger"])
    if result["records"] is not None:
        yield "judged again", f"{result['records']:,} records of the log"
    for fault in result["faults"]:
        yield fault["fault"].replace("_", " "), fault["text"]
    for each in result["differences"]:
        yield each["what"], f"receipt: {_short(each['receipt'])}; log: {_short(each['log'])}"
    for because in dict.fromkeys(cause for each in result["differences"] for cause in each["because"]):
        yield "because", because


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, dict) and "rule_id" in each for each in value):
        return ", ".join(f"{each['rule_id']}@{each['rule_version']}" for each in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(each)}" for name, each in value.items())
    return "none" if value is None else orjson.dumps(value).decode()


def _report_ledger(check: LedgerCheck, path: str, *, as_json: bool) -> int:
    body = check.to_json()
    if as_json:
        sys.stdout.write(orjson.dumps(body).decode() + "\n")
    else:
        terminal.show(Group(_head(body["result"]), NameValues(_of_ledger(check, path))))
    return OTHERWISE if check.faults else SAME


def _of_ledger(check: LedgerCheck, path: str) -> Iterator[tuple[str, str]]:
    yield "ledger", str(path)
    for replica, count in check.chains.items():
        yield "chain", f"{replica}: {count:,} receipts"
    unchecked = (
        f", {check.unchecked:,} signatures not checked: name the key with --public-key" if check.unchecked else ""
    )
    yield "signed", f"{check.signed:,}{unchecked}"
    if check.erased:
        yield "erased", f"{check.erased:,} receipts without ids; their places in the chains hold"
    counts = check.counts
    for kind, number in counts.answered.items():
        revised, differs = counts.revised.get(kind, 0), counts.differs.get(kind, 0)
        share = f"{100 * counts.share(kind):.3g} %"
        yield kind, f"{number:,} answered, {revised:,} revised, {differs:,} decided otherwise ({share})"
    yield "pending", f"{counts.pending:,}"
    for fault in check.faults[:_FAULTS_SHOWN]:
        yield fault.fault.replace("_", " "), f"{fault.replica} {fault.sequence}: {fault.text}".strip()
    if len(check.faults) > _FAULTS_SHOWN:
        yield "", f"and {len(check.faults) - _FAULTS_SHOWN:,} more; --json names all"


def _head(result: str) -> Text:
    return Text(printable(result), _STYLES[result])
