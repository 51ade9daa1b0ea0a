"""An identity provider on the loopback, which signs tokens with a real key."""

from __future__ import annotations

import http.server
import json
import threading
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa


class Provider:
    """An identity provider on the loopback, with a real key."""

    def __init__(self) -> None:
        self.private = rsa.generate_private_key(65537, 2048)
        self.asked = 0
        self.redirect = ""
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                if provider.redirect:
                    self.send_response(302)
                    self.send_header("Location", provider.redirect)
                    self.end_headers()
                    return
                body = json.dumps(provider.answer(self.path)).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, path: str) -> dict[str, Any]:
        if path.endswith("openid-configuration"):
            return {"jwks_uri": f"{self.url}/keys"}
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": "k1", "use": "sig", "alg": "RS256"}]}

    def token(self, kid: str = "k1", algorithm: str = "RS256", key: Any = None, **claims: Any) -> str:
        about = {"iss": self.url, "aud": "surefind", "exp": time.time() + 60, "sub": "ada", "groups": ["hr"]} | claims
        about = {name: value for name, value in about.items() if value is not None}
        return jwt.encode(about, key or self.private, algorithm, {"kid": kid})

    def close(self) -> None:
        self._server.shutdown()
