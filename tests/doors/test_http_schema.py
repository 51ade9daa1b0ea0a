"""Requests made from the OpenAPI schema: every answer is one that the schema knows, and none is an error of ours."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from http_helpers import Served


@pytest.mark.hypothesis
def test_no_request_breaks_the_server(server: Served) -> None:
    import schemathesis  # takes half a second, which every process that collects the tests would spend
    from schemathesis.checks import not_a_server_error

    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    asked: Counter[str] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events"):
            continue  # it answers for as long as a job runs

        @settings(max_examples=settings.default.max_examples // 10, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def ask(case: schemathesis.Case) -> None:
            if (case.method, case.path) == ("POST", "/v1/jobs") and isinstance(case.body, dict):
                case.body = {**case.body, "kind": "bench", "exam": "none"}  # no long work
            answer = case.call(timeout=20)
            asked[f"{case.method} {case.path}"] += 1
            case.validate_response(answer, checks=[not_a_server_error])
            assert "Traceback" not in answer.text
            if answer.status_code >= 400:
                assert answer.headers["content-type"][0] == "application/problem+json"

        ask()
    assert len(asked) >= 15 and sum(asked.values()) > 20
