"""The local registry, without its downloads, which only the deep tests fetch."""

from __future__ import annotations

import ipaddress
import os

import psutil
import pytest
from dev.services.registry import LocalRegistry

from crossline.basics.errors import PermanentError
from crossline.runtime.machine.jars import Pin, pins


def test_outside_of_with_there_is_no_registry() -> None:
    with pytest.raises(PermanentError, match="use it as `with LocalRegistry\\(\\) as server:`"):
        _ = LocalRegistry().folder


def test_its_archive_is_pinned_by_its_whole_name() -> None:
    (pin,) = (each for each in pins() if each.group == "registry")
    assert pin.file_name == "apicurio-registry-app-3.3.3-all.tar.gz"
    assert pin.coordinates == ("io.apicurio", "apicurio-registry-app", "3.3.3", "all", "tar.gz")
    assert Pin("", "", "org/example/one/1.0/one-1.0.jar").coordinates == ("org.example", "one", "1.0")


@pytest.mark.skipif(os.environ.get("CROSSLINE_DEEP") != "1", reason="fetches 159 MB")
def test_two_of_them_run_side_by_side_and_listen_on_loopback_alone() -> None:
    with LocalRegistry() as first, LocalRegistry() as second:
        for each in (first, second):
            assert each.pid is not None
            open_at = [c.laddr.ip for c in psutil.Process(each.pid).net_connections("inet") if c.status == "LISTEN"]
            assert len(open_at) == 2
            assert all(ipaddress.ip_address(ip.removeprefix("::ffff:")).is_loopback for ip in open_at), open_at
