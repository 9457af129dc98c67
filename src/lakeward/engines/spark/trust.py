"""The certificates that this machine trusts, as a key store that Java reads.

Java has its own list of certificate authorities. Behind a proxy that inspects traffic, the machine
trusts a further one, which the list of a Java from a wheel lacks.
"""

from __future__ import annotations

import os
import re
import ssl
import struct
from hashlib import sha1
from pathlib import Path
from typing import Final

PASSWORD: Final = "changeit"  # noqa: S105  what every Java's own list has; nothing in it is secret
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


def authorities() -> list[bytes]:
    """Return the certificates that the machine trusts; none if no list is found.

    `SSL_CERT_FILE` comes first, then the usual files of operating systems.
    """
    for place in (os.environ.get("SSL_CERT_FILE"), *_BUNDLES):
        try:
            text = Path(place).read_text("ascii", "replace") if place else ""
        except OSError:
            continue
        if found := _CERTIFICATE.findall(text):
            return [ssl.PEM_cert_to_DER_cert(certificate) for certificate in found]
    return []


def key_store(certificates: list[bytes]) -> bytes:
    """Return a key store in Java's own format, JKS, that trusts the certificates."""
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        # An entry to trust, its name, when it was made, its kind, and itself.
        body += struct.pack(">I", 2) + _text(f"authority-{number}") + struct.pack(">Q", 0)
        body += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    # That is how the format is sealed; it detects damage, and is no secret.
    seal = sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body)  # noqa: S324
    return body + seal.digest()


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded
