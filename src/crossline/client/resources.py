"""Reads and writes besides decisions, shared by both clients: they return a value in one, an awaitable in the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from crossline.client.calls import ApiCall, When, call, instant_text, key_query

Found = TypeVar("Found")


class Resources(ABC, Generic[Found]):
    """Bodies of the API. All calls raise ClientError: ApiError if it refuses, UnreachableError after the deadline.

    ``if_match``: the ``ETag`` that was read; PreconditionError if the resource has changed since. Each write has an
    idempotency key of its own, with which it is retried after a broken connection.
    """

    @abstractmethod
    def call(self, asked: ApiCall) -> Found:
        """The body of the answer to any call."""

    def decision(self, decision_id: str) -> Found:
        """A decision as it was answered, with its ``revisions``."""
        return self.call(call("decision", [decision_id]))

    def decisions(self, record_id: str) -> Found:
        """The decisions about a record."""
        return self.call(call("decisions", query={"record_id": record_id}))

    def receipt(self, decision_id: str) -> Found:
        """The receipt of a decision, as ``crossline verify`` takes it."""
        return self.call(call("receipt", [decision_id]))

    def alert(self, alert_id: str) -> Found:
        """An alert."""
        return self.call(call("alert", [alert_id]))

    def alert_records(self, alert_id: str) -> Found:
        """The records that an alert rests on."""
        return self.call(call("alert_records", [alert_id]))

    def entity(self, field: str, value: str) -> Found:
        """What is known of a value of a key field: figures now, alerts, decisions, holds, lists."""
        return self.call(call("entity", [field, value]))

    def label(
        self,
        stream: str,
        record_id: str,
        *,
        is_fraud: bool,
        known_at: When | None = None,
        reason: str | None = None,
        if_match: str | None = None,
    ) -> Found:
        """Label a record as fraud or not, and since when that is known (default: now)."""
        body = {"is_fraud": is_fraud, "known_at": instant_text(known_at), "reason": reason}
        return self.call(call("label", [stream, record_id], body=body, if_match=if_match))

    def holds(self, key: Mapping[str, str] | None = None) -> Found:
        """The keys that are held now, in ``items``; ``key``: of these values of key fields alone."""
        return self.call(call("holds", query=key_query(key)))

    def hold(
        self,
        key: Mapping[str, str],
        *,
        until: When,
        reason: str,
        action: str | None = None,
        rule_id: str | None = None,
        stream: str | None = None,
    ) -> Found:
        """Hold ``action`` at a key (``{"account_id": "a1"}``) until an instant; with ``rule_id`` as its alerts do."""
        body = {"rule_id": rule_id, "key": dict(key), "action": action, "until": instant_text(until), "reason": reason}
        return self.call(call("hold", body={**body, "stream": stream}))

    def release(self, hold_id: str, *, reason: str, if_match: str | None = None) -> Found:
        """End a hold before its time."""
        return self.call(call("release", [hold_id], body={"reason": reason}, if_match=if_match))

    def list_put(
        self,
        name: str,
        entry: str,
        *,
        until: When | None = None,
        value: float | bool | None = None,
        if_match: str | None = None,
    ) -> Found:
        """Put an entry on a list, until an instant or for good; ``value``: the entry, where it is no text."""
        body = {"until": instant_text(until), "value": value}
        return self.call(call("list_put", [name, entry], body=body, if_match=if_match))

    def list_delete(self, name: str, entry: str, *, if_match: str | None = None) -> Found:
        """Take an entry off a list."""
        return self.call(call("list_delete", [name, entry], if_match=if_match))

    def rules(self) -> Found:
        """The rules in force."""
        return self.call(call("rules"))

    def rule_versions(self, rule_id: str) -> Found:
        """The history of a rule."""
        return self.call(call("rule_versions", [rule_id]))

    def rules_check(self, body: Mapping[str, Any]) -> Found:
        """Whether rules are right, without publishing them."""
        return self.call(call("rules_check", body=body))

    def rules_test(self, body: Mapping[str, Any]) -> Found:
        """Run the tests of rules: a job."""
        return self.call(call("rules_test", body=body))

    def rules_backtest(self, body: Mapping[str, Any]) -> Found:
        """Judge the past by rules: a job."""
        return self.call(call("rules_backtest", body=body))

    def rules_publish(self, body: Mapping[str, Any]) -> Found:
        """Publish a file of rules (``name``, ``text``); ``waits`` has what a second person must approve."""
        return self.call(call("rules_publish", body=body))

    def rules_approve(self, body: Mapping[str, Any], *, if_match: str | None = None) -> Found:
        """Approve a version that another principal published."""
        return self.call(call("rules_approve", body=body, if_match=if_match))

    def rule_set_status(self, rule_id: str, body: Mapping[str, Any], *, if_match: str | None = None) -> Found:
        """Give a version another ``status``; ``waits``, where a second person has to approve."""
        return self.call(call("rule_set_status", [rule_id], body=body, if_match=if_match))

    def rule_set_share(self, rule_id: str, body: Mapping[str, Any], *, if_match: str | None = None) -> Found:
        """Have a version decide about another ``share`` of keys; ``waits`` as with a status."""
        return self.call(call("rule_set_share", [rule_id], body=body, if_match=if_match))

    def job(self, job_id: str) -> Found:
        """How far a job is, and what it found."""
        return self.call(call("job", [job_id]))

    def job_cancel(self, job_id: str) -> Found:
        """End a job."""
        return self.call(call("job_cancel", [job_id]))
