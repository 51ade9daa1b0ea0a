"""`/healthz`, `/readyz` and `/metrics`: for those who run the server.

`/docs`: the routes as a page, made from the OpenAPI schema. It needs no script and nothing from elsewhere.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import HTMLResponse, JSONResponse, Response

from surefind.base.errors import SurefindError
from surefind.doors.http.problems import problem
from surefind.doors.http.service import Served

router = APIRouter(tags=["operation"])


@router.get("/healthz", summary="Is the server running?")
async def healthz() -> dict[str, str]:
    """Answers as long as the process does."""
    return {"status": "ok"}


@router.get("/readyz", summary="Can the server answer searches?", responses={503: {}})
async def readyz(request: Request, service: Served) -> Response:
    """Answers 200 if the indexes of every pipeline are open, else 503."""

    def check() -> None:
        service.reader().view.ready(
            [retriever for p in service.kb.settings.pipelines.values() for retriever in p.retrieve]
        )

    try:
        await service.work(check)
    except SurefindError:
        return problem(503, "The knowledge base has no documents or no indexes yet.", request.state.id)
    return Response(b'{"status":"ready"}', media_type="application/json")


@router.get("/metrics", summary="Figures for Prometheus", response_class=Response)
async def metrics(request: Request, service: Served) -> Response:
    """Counts and times of requests. Needs the scope admin, unless the server is open."""
    if not service.gatekeeper.lets_everybody_in:
        await service.caller(request, "admin")
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


manual_router = APIRouter(include_in_schema=False)
_making = threading.Lock()
_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h2{margin-top:2.5rem;border-bottom:1px solid #8886}h3{margin-bottom:.2rem;font-size:1.05rem}
code,pre{font-family:ui-monospace,monospace;font-size:.92em}
pre{background:#8881;padding:.6rem;overflow:auto;border-radius:4px}
h3{overflow-wrap:anywhere}.t{overflow-x:auto}
table{border-collapse:collapse;width:100%}
td,th{padding:.25rem .6rem .25rem 0;text-align:left;vertical-align:top;border-bottom:1px solid #8883}
.m{display:inline-block;min-width:4.5rem;font-weight:600}
"""


@manual_router.get("/openapi.json")
async def schema(request: Request, service: Served) -> JSONResponse:
    return await service.work(lambda: JSONResponse(schema_of(request.app)))


def schema_of(app: Any) -> dict[str, Any]:
    """Returns the schema, which is made once: two threads that make it at the same time fail."""
    with _making:
        made: dict[str, Any] = app.openapi()
        return made


@manual_router.get("/docs", response_class=HTMLResponse)
async def manual(request: Request, service: Served) -> HTMLResponse:
    return await service.work(lambda: HTMLResponse(_page(request.app)))


@lru_cache(maxsize=2)
def _page(app: Any) -> str:
    schema = schema_of(app)
    info = schema["info"]
    parts = [f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"]
    parts += [f"<p>{escape(part)}</p>" for part in info["description"].split("\n\n")]
    parts.append("<p>The schema: <a href='openapi.json'>openapi.json</a></p>")
    rooms: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, about in methods.items():
            rooms.setdefault(about.get("tags", ["other"])[0], []).append(_route(path, method, about, schema))
    for name, routes in rooms.items():
        parts += [f"<h2>{escape(name.capitalize())}</h2>", *routes]
    head = f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><style>{_STYLE}</style>"
    body = "".join(parts)
    return f"<!doctype html><html lang='en'><head><title>Surefind API</title>{head}</head><body>{body}</body></html>"


def _route(path: str, method: str, about: dict[str, Any], schema: dict[str, Any]) -> str:
    rows = [
        (
            parameter["name"],
            parameter["in"],
            _type(parameter["schema"]),
            parameter.get("description") or parameter["schema"].get("description", ""),
        )
        for parameter in about.get("parameters", ())
    ]
    body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    for name, field in _fields(body, schema):
        rows.append((name, "body", _type(field), field.get("description", "")))
    table = "".join(
        f"<tr><td><code>{escape(name)}</code><td>{escape(where)}<td>{escape(kind)}<td>{escape(text)}</tr>"
        for name, where, kind, text in rows
    )
    head = "<tr><th>name<th>in<th>type<th>what</tr>"
    region = "class='t' tabindex='0' role='region' aria-label='Parameters'"
    shown = f"<div {region}><table>{head}{table}</table></div>" if rows else ""
    title = f"<span class='m'>{method.upper()}</span><code>{escape(path)}</code>"
    return f"<h3>{title}</h3><p>{escape(about.get('description', about.get('summary', '')))}</p>{shown}"


def _fields(body: dict[str, Any] | None, schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    name = (body or {}).get("$ref", "").rpartition("/")[2]
    fields: dict[str, dict[str, Any]] = schema.get("components", {}).get("schemas", {}).get(name, {})
    return list(fields.get("properties", {}).items())


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(kind for option in schema["anyOf"] if (kind := _type(option)) != "null")
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    return str(schema.get("type", ""))
