"""`/healthz`, `/readyz` and `/metrics`: for those who run the server."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

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
