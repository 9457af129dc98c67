"""An OpenID provider on loopback, which signs tokens with keys of its own."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

AUDIENCE = "lakeward-of-tests"


SECRET = b"a secret that everybody can read"
_PUBLISHED = {
    "kty": "oct",
    "k": base64.urlsafe_b64encode(SECRET).decode().rstrip("="),
    "kid": "published",
    "alg": "HS256",
    "use": "sig",
}
"""A provider may publish a secret by mistake; a token signed with it proves nothing."""


class Issuer:
    """A provider with one key, which can be replaced; it counts how often keys are asked for."""

    def __init__(self) -> None:
        self.asked = 0
        self.keys: dict[str, Any] = {}
        self.rotate("first")
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith("openid-configuration"):
                    body: dict[str, Any] = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
                else:
                    issuer.asked += 1
                    body = {"keys": [*map(issuer.public, issuer.keys), _PUBLISHED]}
                data = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def settings(self) -> dict[str, str]:
        """How a service is told to trust it."""
        return {"issuer": self.url, "audience": AUDIENCE}

    def rotate(self, kid: str, *, kind: str = "rsa") -> None:
        """Sign with a new key from now on; the old ones are gone."""
        made: Any = ec.generate_private_key(ec.SECP256R1())
        if kind == "rsa":
            made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.keys = {kid: made}

    def public(self, kid: str) -> dict[str, Any]:
        """A public key, as it is published."""
        key = self.keys[kid]
        of = jwt.algorithms.RSAAlgorithm if _is_rsa(key) else jwt.algorithms.ECAlgorithm
        found: dict[str, Any] = json.loads(of.to_jwk(key.public_key()))
        return {**found, "kid": kid, "use": "sig"}

    def token(
        self, *, key: Any = None, headers: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """A token for a user, valid for five minutes; claims of None are left out."""
        (kid, own), *_ = self.keys.items()
        now = int(time.time())
        body = {"iss": self.url, "aud": AUDIENCE, "sub": "u1", "iat": now, "exp": now + 300}
        given = {name: value for name, value in {**body, **claims}.items() if value is not None}
        signing = own if key is None else key
        kind = "RS256" if _is_rsa(signing) else "ES256"
        return jwt.encode(given, signing, algorithm=kind, headers={"kid": kid, **(headers or {})})


def _is_rsa(key: Any) -> bool:
    return isinstance(key, rsa.RSAPrivateKey)
