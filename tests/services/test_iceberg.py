"""The local Iceberg catalog: on loopback alone, and what it acknowledged survives a crash."""

from __future__ import annotations

import ipaddress
from contextlib import closing
from typing import TYPE_CHECKING

import psutil
import pytest
from dev.services.iceberg import LocalIceberg as Server

from crossline.basics.errors import PermanentError
from crossline.lake.catalogs.rest_catalog import rest_catalog
from crossline.settings.process.lake import RestCatalogSettings

if TYPE_CHECKING:
    from dev.services.iceberg import LocalIceberg


def test_outside_of_with_there_is_no_server() -> None:
    with pytest.raises(PermanentError, match="use it as `with LocalIceberg\\(\\) as server:`"):
        _ = Server().folder


def test_it_listens_on_loopback_and_keeps_what_it_acknowledged(iceberg_server: LocalIceberg) -> None:
    assert iceberg_server.pid is not None
    connections = psutil.Process(iceberg_server.pid).net_connections("inet")
    open_at = [each.laddr.ip for each in connections if each.status == "LISTEN"]
    assert open_at
    assert all(ipaddress.ip_address(ip.removeprefix("::ffff:")).is_loopback for ip in open_at), open_at
    settings = RestCatalogSettings(kind="rest", uri=iceberg_server.uri)
    with closing(rest_catalog("lake", settings, {}, {})) as catalog:
        catalog.create_namespace("kept")
        iceberg_server.kill()
        iceberg_server.start()
        assert catalog.namespace_exists("kept")
