"""Reports of tests: a failure includes the logs of the stack's services, and a broken hook fails only one test."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from tests.servers.ground import Ground


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """An exception in a hook below this one, here or in a plugin, would end the session with INTERNALERROR."""
    try:
        report = yield
        if report.failed:
            report.sections.extend(_services(item))
        return report
    except Exception:  # noqa: BLE001 - whatever it is, the other tests go on
        return _broken(item, call, traceback.format_exc())


def _services(item: pytest.Item) -> list[tuple[str, str]]:
    """The last lines of each service, for a test on the whole stack."""
    ground = getattr(item, "funcargs", {}).get("ground")
    return [("the stack's services", ground.supervisor.describe_services())] if isinstance(ground, Ground) else []


def _broken(item: pytest.Item, call: pytest.CallInfo[None], trace: str) -> pytest.TestReport:
    """pytest's own report, failed in any case, with the trace of the hook."""
    report = pytest.TestReport.from_item_and_call(item, call)
    if not report.failed:
        report.outcome, report.longrepr = "failed", f"a report hook failed\n{trace}"
    report.sections.append(("a report hook failed", trace))
    return report
