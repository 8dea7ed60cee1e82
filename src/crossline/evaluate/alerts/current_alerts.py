"""The last word on each alert: what stands of alerts and their corrections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

RETRACTED = "retracted"
_STANDS = ("amended", "reinstated")  # the others


def current_states(alerts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """``alerts``, in the order of emission, after the corrections among them.

    An amended alert has its new content, and its former id and kind. A correction of an alert that is not in ``alerts``
    stays as it is.
    """
    found: dict[str, dict[str, Any]] = {}
    first: dict[str, Mapping[str, Any]] = {}
    for alert in alerts:
        corrected = first.get(str(alert.get("corrects")))
        if corrected is None:
            first[alert["alert_id"]] = alert
            found[alert["alert_id"]] = dict(alert)
        elif alert["outcome"] == RETRACTED:
            found.pop(corrected["alert_id"], None)
        elif alert["outcome"] not in _STANDS:
            raise ValueError(
                f"correction of {corrected['alert_id']}: found outcome {alert['outcome']}, which is none of corrections"
            )
        else:
            named = {name: corrected[name] for name in ("alert_id", "kind", "corrects")}
            kept = {name: value for name, value in alert.items() if name not in _OF_CORRECTIONS}
            found[corrected["alert_id"]] = {**kept, **named}
    return list(found.values())


_OF_CORRECTIONS = ("outcome", "value_before", "caused_by")
