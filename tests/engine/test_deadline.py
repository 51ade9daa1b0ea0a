"""HTTP calls that keep to a deadline, against real servers on the loopback: slow ones, proxies, TLS."""

from __future__ import annotations

import contextlib
import gzip
import select
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")

from line_server import Line, Serve, serving, soon
from surefind.base.errors import SurefindError, UsageError
from surefind.base.running import StoppedError, started
from surefind.engine.net import trust
from surefind.engine.net.endpoint import Endpoint

WAITS = 30.0
"""Seconds that a slow server goes on, if it is waited for."""


def drip(head: bytes, drop: bytes) -> Serve:
    """`head` at once, then `drop` again and again, each sooner than a read may take."""

    def serve(line: socket.socket, request: bytes) -> bool:
        line.sendall(head)
        end = time.monotonic() + WAITS
        while time.monotonic() < end:
            time.sleep(0.02)
            line.sendall(drop)
        return False

    return serve


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def post(url: str, within: float = 5.0, body: Any = None, retries: int = 0) -> Any:
    return Endpoint(url, "", within, retries).post(body or {})


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(
    "serve",
    [
        drip(b"HTTP/1.1 200 OK\r\nx-slow: ", b"a"),
        drip(b"HTTP/1.1 200 OK\r\n", b"x-slow: a\r\n"),
        drip(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", b" "),
        drip(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["one header", "many headers", "body", "chunks", "interim answers"],
)
def test_an_answer_that_drips_is_left_in_time(serve: Serve) -> None:
    with serving(serve) as line:
        begin = time.monotonic()
        with pytest.raises(SurefindError, match=r"did not answer within 0\.3 s"):
            post(f"http://127.0.0.1:{line.port}/", within=0.3)
        assert time.monotonic() - begin < WAITS / 3


def test_all_tries_together_end_in_time() -> None:
    with serving(drip(b"HTTP/1.1 200 OK\r\nx-slow: ", b"a")) as line:
        begin = time.monotonic()
        with pytest.raises(SurefindError, match=r"did not answer within .* after \d tries"):
            Endpoint(f"http://127.0.0.1:{line.port}/", "", 0.2, 9).post({}, total=2.0)
        assert time.monotonic() - begin < WAITS / 3


def test_a_call_that_nobody_waits_for_ends_though_the_server_hangs() -> None:
    stop = threading.Event()
    with serving(drip(b"HTTP/1.1 200 OK\r\nx-slow: ", b"a")) as line:
        call = started(lambda: post(f"http://127.0.0.1:{line.port}/", within=WAITS), stop)
        assert soon(lambda: len(line.requests) == 1)
        stop.set()
        with pytest.raises(StoppedError):
            call.result(WAITS / 3)


def test_a_server_that_reads_slowly_is_left_in_time() -> None:
    """Each part of the body is taken in time, all of them are not."""

    def sips(line: socket.socket, request: bytes) -> bool:
        while line.recv(65536):
            time.sleep(0.02)
        return False

    with serving(sips, reads=False) as line:
        begin = time.monotonic()
        with pytest.raises(SurefindError, match="did not answer within 1 s"):
            post(f"http://127.0.0.1:{line.port}/", within=1.0, body={"a": "x" * 60_000_000})
        assert time.monotonic() - begin < 12  # to be taken whole, it needs 18 s and more


def test_a_tls_handshake_that_never_ends_is_left_in_time() -> None:
    with serving(lambda line, request: bool(line.recv(65536)), reads=False) as line:
        begin = time.monotonic()
        with pytest.raises(SurefindError, match=r"cannot be reached|did not answer within 0\.3 s"):
            post(f"https://127.0.0.1:{line.port}/", within=0.3)
        assert time.monotonic() - begin < WAITS / 3


# ---------------------------------------------------------------- answers


def test_a_packed_answer_is_unpacked() -> None:
    body = gzip.compress(b'{"a": 1}')
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n"

    def packed(line: socket.socket, request: bytes) -> bool:
        line.sendall(head.encode() + body)
        return True

    with serving(packed) as line:
        assert post(f"http://127.0.0.1:{line.port}/") == {"a": 1}


def _endless(head: bytes, piece: bytes, sent: list[int]) -> Serve:
    """An answer that does not end: as much as is taken."""

    def serve(line: socket.socket, request: bytes) -> bool:
        line.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + head + b"\r\n")
        with contextlib.suppress(OSError):
            while True:
                line.sendall(piece)
                sent.append(len(piece))
        return False

    return serve


ZEROS = gzip.compress(bytes(100_000_000))
"""100 MB in 100 kB."""


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"", b" " * 65_536),
        (b"transfer-encoding: chunked\r\n", b"10000\r\n" + b"x" * 65_536 + b"\r\n"),
        (b"content-length: 9000000000\r\n", b"x" * 65_536),
        (b"content-encoding: gzip\r\n", ZEROS),
        (b"content-encoding: deflate\r\n", zlib.compress(bytes(100_000_000))),
    ],
    ids=["until it closes", "chunked", "a length", "gzip", "deflate"],
)
def test_an_answer_without_end_is_left_at_the_limit(head: bytes, piece: bytes) -> None:
    sent: list[int] = []
    with serving(_endless(head, piece, sent)) as line, pytest.raises(SurefindError, match="more than 16 MB"):
        Endpoint(f"http://127.0.0.1:{line.port}/", "", 60.0, 3).post({})
    assert line.connections == 1 and sum(sent) < 40e6, "nothing more is read, and nobody asks again"


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_may_be_limited_further_whatever_its_status(status: int) -> None:
    body = b'{"a": "' + b"x" * 1000 + b'"}'

    def serve(line: socket.socket, request: bytes) -> bool:
        line.sendall(f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        return True

    with serving(serve) as line:
        server = Endpoint(f"http://127.0.0.1:{line.port}/", "", 5.0, 0)
        with pytest.raises(SurefindError, match=r"more than 0\.0005 MB"):
            server.post({}, max_bytes=500)
        if status == 200:
            assert server.post({}, max_bytes=2000) == {"a": "x" * 1000}
        assert b"accept-encoding: gzip, deflate" in line.requests[-1].lower()


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "x"])
def test_an_answer_that_is_packed_twice_or_otherwise_is_refused(encoding: str) -> None:
    body = gzip.compress(gzip.compress(b"{}"))
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n"

    def packed(line: socket.socket, request: bytes) -> bool:
        line.sendall(head.encode() + body)
        return True

    with serving(packed) as line, pytest.raises(SurefindError, match="packed its answer"):
        Endpoint(f"http://127.0.0.1:{line.port}/", "", 5.0, 0).post({})


@pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}"])
def test_a_broken_answer_is_an_error(answer: bytes) -> None:
    def broken(line: socket.socket, request: bytes) -> bool:
        line.sendall(answer)
        return False

    with serving(broken) as line, pytest.raises(SurefindError, match="broke the connection"):
        post(f"http://127.0.0.1:{line.port}/")


def test_a_redirect_is_not_followed() -> None:
    with serving() as other:
        head = f"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:{other.port}/\r\ncontent-length: 0\r\n\r\n"

        def redirects(line: socket.socket, request: bytes) -> bool:
            line.sendall(head.encode())
            return True

        with serving(redirects) as line, pytest.raises(SurefindError, match=r"answered 307\. Check url"):
            post(f"http://127.0.0.1:{line.port}/")
        assert other.connections == 0


def test_a_strange_scheme_is_an_error() -> None:
    with pytest.raises(SurefindError, match="Check url"):
        post("ftp://127.0.0.1/")


# ---------------------------------------------------------------- proxies


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers far away may receive text, and this machine is asked through the proxy like any other."""
    monkeypatch.setattr(trust, "check", lambda url, key_env: None)
    monkeypatch.setattr(trust, "is_local", lambda url: False)


@pytest.mark.usefixtures("trusted")
def test_a_far_server_is_asked_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"user:p%C3%A4%20ss@127.0.0.1:{proxy.port}")
        server = Endpoint("http://far.invalid/v1", "", 5.0, 0)
        assert [server.post({}) for _ in range(2)] == [{}, {}]
    assert proxy.requests[0].startswith(b"POST http://far.invalid/v1 HTTP/1.1\r\n")
    assert b"proxy-authorization: basic dxnlcjpww6qgc3m=" in proxy.requests[0].lower()
    assert proxy.connections == 1


def test_no_proxy_is_asked_about_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as proxy, serving() as server:
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
        post(f"http://127.0.0.1:{server.port}/")
        assert (proxy.connections, server.connections) == (0, 1)


@pytest.mark.usefixtures("trusted")
def test_a_proxy_that_drips_and_one_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(drip(b"HTTP/1.1 200 OK\r\nx-slow: ", b"a")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(SurefindError, match="did not answer within"):
            post("https://far.invalid/", within=0.3)
    assert proxy.requests[0].startswith(b"CONNECT far.invalid:443 HTTP/1.1\r\n")

    def forbids(line: socket.socket, request: bytes) -> bool:
        line.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
        return False

    with serving(forbids) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(SurefindError, match="403"):
            post("https://far.invalid/")


@pytest.mark.usefixtures("trusted")
def test_a_proxy_that_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the address, which may hold a password."""
    monkeypatch.setitem(sys.modules, "socksio", None)
    for address in ("ftp://user:secret@127.0.0.1:9", "socks5://user:secret@127.0.0.1:9"):
        monkeypatch.setenv("ALL_PROXY", address)
        with pytest.raises(UsageError, match=r"proxy in the environment cannot be used.*httpx\[socks\]") as caught:
            post("http://far.invalid/")
        assert "secret" not in str(caught.value)


# ---------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed one for localhost, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    made = path.with_name("certificate.pem")
    command = (
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        f"-addext subjectAltName=DNS:localhost -keyout {path} -out {made}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    path.write_text(path.read_text() + made.read_text())
    return path


@pytest.fixture
def secure(certificate: Path) -> Iterator[Line]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(context=context) as line:
        yield line


def test_a_certificate_that_nobody_signed_is_refused(secure: Line) -> None:
    with pytest.raises(SurefindError, match=r"cannot be reached .*CERTIFICATE_VERIFY_FAILED"):
        post(f"https://127.0.0.1:{secure.port}/")
    assert secure.requests == []


@pytest.mark.usefixtures("trusted")
def test_a_certificate_that_the_environment_trusts_is_taken(
    secure: Line, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert post(f"https://localhost:{secure.port}/") == {}
    with pytest.raises(SurefindError, match="CERTIFICATE_VERIFY_FAILED"):  # of another name
        post(f"https://127.0.0.1:{secure.port}/")


@pytest.mark.usefixtures("trusted")
def test_tls_through_a_proxy(secure: Line, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tunnel(line: socket.socket, request: bytes) -> bool:
        with socket.create_connection(("127.0.0.1", secure.port)) as far:
            line.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            other = {line: far, far: line}
            while True:
                for one in select.select([line, far], [], [], 10)[0]:
                    part = one.recv(65536)
                    if not part:
                        return False
                    other[one].sendall(part)

    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(tunnel) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert post(f"https://localhost:{secure.port}/v1") == {}
    assert proxy.requests == [
        f"CONNECT localhost:{secure.port} HTTP/1.1\r\nHost: localhost:{secure.port}\r\nAccept: */*\r\n\r\n".encode()
    ]
    assert secure.requests[0].startswith(b"POST /v1 HTTP/1.1\r\n")
