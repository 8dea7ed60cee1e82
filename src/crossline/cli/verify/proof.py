"""``crossline verify`` of a proof: it runs the backtest again and compares the result with the proof."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import shown
from crossline.cli.rules.prove import proven


def is_proof(found: Mapping[str, Any]) -> bool:
    """Whether it is a proof and no receipt."""
    return str(found.get("kind")) == "crossline proof"


def proven_again(proof: Mapping[str, Any], pipeline: Path | None, inputs: list[str]) -> dict[str, Any]:
    """``the same``, or ``differs`` with what. Raises UsageError if it cannot be run."""
    from crossline.backtest.workbench.interval import Interval
    from crossline.backtest.workbench.proof import differences

    if pipeline is None:
        raise UsageError("a proof is run again by the pipeline that it is about; name its file with --pipeline")
    try:
        text, files = str(proof["text"]), proof["data"]["files"]
        interval = Interval(proof["interval"]["from_ms"], proof["interval"]["to_ms"])
        root = pipeline.resolve().parent
        given = inputs or [f"{each['stream']}={root / each['name']}" for each in files]
        rule_id = str(proof["rule_id"])
        known = {*proof["digests"], *proof["result"]}
        known.remove("result")
    except (KeyError, TypeError) as error:
        raise UsageError(
            f"found a proof without {shown(str(error))}; expected one of crossline rules prove --json"
        ) from None
    missing = [each["name"] for each in files if not inputs and not (root / each["name"]).is_file()]
    if missing:
        raise UsageError(f"found no file {', '.join(missing)} of the proof; put it back, or name others with --input")
    with TemporaryDirectory(prefix="crossline-proof-") as folder:
        path = Path(folder) / "rule.yaml"
        path.write_text(text)
        again = proven(path, pipeline, given, interval, rule=rule_id)
    found = differences(proof, again)
    return {
        "result": "differs" if found else "the same",
        **{name: again[name] for name in ("rule_id", "version", "digests")},
        "records": again["data"]["records"],
        "alerts": again["result"]["alerts"],
        "differences": found,
    }
