"""The trust store is one that Java's own keytool reads."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from crossline.runtime.machine.java import find_java
from crossline.runtime.machine.truststore import PASSWORD, certificates, write_trust_store

# A self-signed certificate made for this test with OpenSSL: CN=crossline test, elliptic curve, valid to 2126.
PEM = """\
-----BEGIN CERTIFICATE-----
MIIBiTCCAS+gAwIBAgIUaTaFedyuw0mBfbKcD+YXqL85NFowCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOY3Jvc3NsaW5lIHRlc3QwIBcNMjYxMTIxMDMzNjM5WhgPMjEy
NjEwMjgwMzM2MzlaMBkxFzAVBgNVBAMMDmNyb3NzbGluZSB0ZXN0MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEpIW5eTtpbzJ80kaVrC/Rv5QcSA70kCdvW1OCjOwK
WlWHiPuzO0E53vmGmKhUeQ3+SfN0NN1RsfsAgkKn3JX+pqNTMFEwHQYDVR0OBBYE
FB3hPVHkhFBG3XFdyqeR7hJJnmJCMB8GA1UdIwQYMBaAFB3hPVHkhFBG3XFdyqeR
7hJJnmJCMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgarYwUAnI
uXh9P46ybSzT6Z5Od3dPXRaNfcAjXjpZrVoCIQD84qI2smsSBAaWr3+iYoZOib3V
th/BfdmR5L7YQnwdqA==
-----END CERTIFICATE-----
"""


def test_the_bundle_that_pip_is_reported_of_is_trusted(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(PEM)
    more, fewer = certificates({"PIP_CERT": str(bundle)}), certificates({})
    assert len(more) == len(fewer) + 1


def test_keytool_reads_what_was_written(tmp_path: Path) -> None:
    keytool = find_java().home / "bin" / "keytool"
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(PEM)
    store = tmp_path / "trust.jks"
    (ours,) = set(certificates({"PIP_CERT": str(bundle)})) - set(certificates({}))
    write_trust_store(store, [ours])
    found = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", PASSWORD, "-J-Duser.language=en"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C"},
    ).stdout
    assert "ca0, " in found
    assert (
        "D7:5F:C3:7B:79:38:0F:DC:6A:3C:72:2F:53:21:5D:2C:D5:31:43:09:2A:DD:4A:E7:3F:3F:F8:6D:74:33:18:BB"
        in found.replace(" ", "")
    )
