"""The variables of traces and metrics: which addresses, headers, shares and intervals are accepted, and what a message
about one contains."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.configuration import otlp


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("", ""),
        ("http://otel:4318", "http://otel:4318/v1/traces"),
        ("https://otel.example.org/v1/traces", "https://otel.example.org/v1/traces"),
        ("http://[::1]:4318/tenant/", "http://[::1]:4318/tenant/v1/traces"),
    ],
)
def test_the_address_of_a_collector_gets_the_path_of_traces(address: str, url: str) -> None:
    assert otlp.traces_url("E", address) == url


@pytest.mark.parametrize("path", ["", "/", "/v1/traces", "/v1/metrics", "/v1/metrics/"])
def test_the_url_of_either_signal_leads_to_both(path: str) -> None:
    address = f"https://otel.example.org/tenant{path}"

    assert otlp.traces_url("E", address) == "https://otel.example.org/tenant/v1/traces"
    assert otlp.metrics_url("E", address) == "https://otel.example.org/tenant/v1/metrics"


def test_without_a_collector_there_is_no_url_of_metrics() -> None:
    assert otlp.metrics_url("E", "") == ""


@pytest.mark.parametrize(
    "address",
    [
        "otel:4318",
        "grpc://otel:4317",
        "http://",
        "http://otel:many",
        "http://otel/?key=1",
        "http://otel/#a",
        "http://o t",
    ],
)
def test_another_address_is_refused(address: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^E is .*: use .*http"):
        otlp.traces_url("E", address)


def test_headers_are_separated_by_commas_and_percent_encoded() -> None:
    assert otlp.headers("H", "authorization=Basic%20YTpi%3D,x-scope=1") == {
        "authorization": "Basic YTpi=",
        "x-scope": "1",
    }
    assert otlp.headers("H", "") == {}


@pytest.mark.parametrize("text", ["sesame", "a=1,sesame", "se(same=1", "a=sesame%0Ab:1", "a=sesame%C3%A4", "a="])
def test_an_invalid_header_is_named_by_its_number(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^header [12] of H has no ") as refused:
        otlp.headers("H", text)

    assert "sesame" not in str(refused.value) and refused.value.__cause__ is None


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_share_is_between_0_and_1(value: float) -> None:
    assert otlp.share("S", 0.25) == 0.25
    with pytest.raises(ImproperlyConfigured, match=r"S is .*: use a number from 0 to 1"):
        otlp.share("S", value)


@pytest.mark.parametrize("seconds", [0, 5, 60])
def test_metrics_are_sent_every_5_seconds_or_more_or_never(seconds: int) -> None:
    assert otlp.interval("I", seconds, "http://otel:4318/v1/traces") == seconds


@pytest.mark.parametrize("seconds", [-1, 1, 4])
def test_a_shorter_interval_is_refused(seconds: int) -> None:
    with pytest.raises(ImproperlyConfigured, match=rf"I is {seconds}: use 0, .* or at least 5"):
        otlp.interval("I", seconds, "http://otel:4318/v1/traces")


def test_an_interval_without_a_collector_is_refused() -> None:
    assert otlp.interval("I", 0, "") == 0
    with pytest.raises(ImproperlyConfigured, match="I is 60, but metrics need a collector: set PROVING_OTLP_ENDPOINT"):
        otlp.interval("I", 60, "")
