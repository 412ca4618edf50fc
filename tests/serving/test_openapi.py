"""Requests made from the OpenAPI document, right and wrong ones: no 5xx, and no status that it does not tell."""

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from serving_fakes import listening

from npda.demo.model import SHIPPED
from npda.serving.app import create_app
from npda.serving.settings import Key, Settings

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
BOUNDED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
KEY = "correct-horse-battery"


@pytest.fixture(scope="module")
def operations(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    app = create_app(Settings({"mini": SHIPPED}, folder, keys=(Key("anna", KEY),), device="cpu", max_seconds=10))
    with listening(app) as url:
        document = schemathesis.openapi.from_url(f"{url}/openapi.json")
        found = [result.ok() for result in document.get_all_operations() if isinstance(result, Ok)]
        assert len(found) > 8
        yield found


def ask(operations, examples: int, key: str | None = KEY):
    """Requests of every operation. → how often which status was answered"""
    statuses: Counter[int] = Counter()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    faults = []
    for operation in operations:

        @settings(BOUNDED, max_examples=examples)
        @given(operation.as_strategy())
        def work(case):
            statuses[case.call_and_validate(checks=CHECKS, headers=headers).status_code] += 1

        try:
            work()
        except FailureGroup as group:
            faults += [f"{operation.label}: {fault}" for fault in group.exceptions]
    assert not faults, "\n\n".join(faults)
    return statuses


def test_every_answer_is_one_that_the_document_tells(operations):
    statuses = ask(operations, 12)
    assert {200, 404, 422} <= set(statuses)
    assert statuses[503] == 0


def test_without_a_key_too(operations):
    assert set(ask(operations, 1, None)) <= {200, 401, 405}


@pytest.mark.slow
def test_many_more_of_them(operations):
    ask(operations, 300)
