"""What the pages stand on: what the API's routes stand on, and what the console keeps of people."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossline.serve.access.audit import AuditLog
from crossline.serve.access.roles import Principal
from crossline.serve.approvals.file import ApprovalFile
from crossline.serve.console.accounts.login_attempts import Tries
from crossline.serve.console.accounts.preferences import PreferenceFile
from crossline.serve.console.accounts.provider import ProviderLogin
from crossline.serve.console.accounts.sessions import Sessions
from crossline.serve.console.accounts.store import kept_in
from crossline.serve.console.accounts.users import UserFile
from crossline.serve.console.casework.presence import EvidenceCache, Presence
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.reads.history import LakeReads
from crossline.settings.process.serve import ServeSettings

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class PageDependencies:
    """What views are handed in.

    ``deps``: what the API's routes stand on. ``api``: these routes behind their access layer, which gets the principal.
    ``charge``: counts requests of a principal, of the API and the console together.
    ``present``, ``judged``: what is remembered while people look at cases. ``lake``: reads the lake.
    """

    deps: Dependencies
    settings: ServeSettings
    api: App
    audit: AuditLog
    charge: Callable[[Principal, int], None]
    users: UserFile
    sessions: Sessions
    tries: Tries
    preferences: PreferenceFile
    approvals: ApprovalFile
    provider: ProviderLogin | None = None
    lake: LakeReads | None = None
    present: Presence = field(default_factory=Presence)
    judged: EvidenceCache = field(default_factory=EvidenceCache)

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return self.deps.now_ms()


def parts_of(
    deps: Dependencies,
    settings: ServeSettings,
    api: App,
    audit: AuditLog,
    charge: Callable[[Principal, int], None],
    environment: Mapping[str, str] = os.environ,
    lake: LakeReads | None = None,
) -> PageDependencies:
    """The parts, with their files in ``deps.path`` and at ``serve.users``.

    Raises UsageError if ``serve.oidc`` names a secret that is not in ``environment``.
    """
    kept, users = kept_in(deps.path), UserFile(Path(settings.users))
    oidc = settings.oidc
    provider = None if oidc is None or oidc.client_id is None else ProviderLogin(oidc, kept, environment)
    people = (users, Sessions(kept, users), Tries(kept), PreferenceFile(kept))
    return PageDependencies(deps, settings, api, audit, charge, *people, ApprovalFile(deps.path), provider, lake)
