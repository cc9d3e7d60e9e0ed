"""The last steps of a twin's data set: keys, widths and limits with which statements read as much as in production."""

from __future__ import annotations

import re
from dataclasses import replace
from time import monotonic

import pytest
from django.db import DatabaseError, connection

from apps.campaigns.twins import calibration
from apps.campaigns.twins.build import Built, build
from apps.campaigns.twins.drawing import FINE
from readers.twin.capture import read_capture
from readers.twin.model import Capture, Counts, Statement
from tests.apps.campaigns.library.test_twin_data_sets import RAW

CALLS = 200
ORDERS = "select id, note from shop.orders where customer_id = $1"
LATEST = "select id from shop.orders where customer_id = $1 order by placed_at desc limit $2"
PERIOD = "select count(*) from shop.orders where placed_at between $1 and $2"


@pytest.fixture(scope="module")
def capture() -> Capture:
    return read_capture(RAW)


def loaded(capture: Capture, text: str, rows: float, blocks: float) -> Built:
    """The twin of a production database that only executes this statement, whose data set is loaded."""
    counts = Counts(calls=1000, ms=1.0, rows=round(1000 * rows), hit=round(1000 * blocks))
    built = build(replace(capture, statements=(Statement("1", text, counts),)))
    with connection.cursor() as cursor:
        for step in built.steps:
            if step.get("transaction", True):
                cursor.execute(step["sql"])
            else:
                cursor.execute("analyze")
    return built


def means(built: Built) -> tuple[float, float]:
    """Rows and blocks per call of the script, whose random numbers are evenly distributed."""
    *_, statement = built.scripts[0]["text"].splitlines()
    rows = blocks = 0.0
    with connection.cursor() as cursor:
        for call in range(CALLS):
            number = round((call + 0.5) / CALLS * FINE)
            text = re.sub(r":twin_\d+", str(number), statement)
            cursor.execute(f"explain (analyze, buffers, timing off, format json) {text}")
            plan = cursor.fetchone()[0][0]["Plan"]
            rows += plan["Actual Rows"]
            blocks += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return rows / CALLS, blocks / CALLS


@pytest.mark.parametrize(
    ("text", "rows", "blocks"),
    [(ORDERS, 3.6, 5.6), (ORDERS, 13.5, 10.0), (LATEST, 4.5, 6.5), (PERIOD, 1.0, 12.0)],
    ids=["cold keys", "hot keys", "limit", "range"],
)
def test_statements_read_as_many_rows_and_blocks_as_in_production(
    db: None, capture: Capture, text: str, rows: float, blocks: float
) -> None:
    built = loaded(capture, text, rows, blocks)

    assert means(built) == (pytest.approx(rows, rel=0.1), pytest.approx(blocks, rel=0.15))


def test_calibrated_changes_are_rolled_back(db: None, capture: Capture) -> None:
    loaded(capture, "delete from shop.lines where order_id = $1", rows=3, blocks=8)

    with connection.cursor() as cursor:
        cursor.execute("select count(*) from shop.lines")
        assert cursor.fetchone() == (60_000,)
        cursor.execute("select rows, note from proving_twin.calibration")
        assert cursor.fetchone()[0] == pytest.approx(3, rel=0.1)


def test_a_statement_that_fails_keeps_even_draws_and_its_error_is_stored(db: None, capture: Capture) -> None:
    built = loaded(capture, "select 1 / (id - id) from shop.orders where customer_id = $1", rows=3, blocks=5)

    with connection.cursor() as cursor:
        cursor.execute("select note from proving_twin.calibration")
        assert "division by zero" in cursor.fetchone()[0]
    with pytest.raises(DatabaseError, match="division by zero"):
        means(built)


def test_the_calibration_of_a_slow_statement_ends_at_its_time_limit_and_keeps_even_draws(
    db: None, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "LIMIT_S", 1)
    begin = monotonic()

    loaded(capture, "select o.id from shop.orders o cross join shop.lines where o.customer_id = $1", rows=3, blocks=5)

    with connection.cursor() as cursor:
        cursor.execute("select note from proving_twin.calibration")
        assert "statement timeout" in cursor.fetchone()[0]
    assert monotonic() - begin < 60


def test_plans_are_those_of_productions_settings(capture: Capture) -> None:
    built = build(replace(capture, settings={"random_page_cost": "1.1", "port": "5432"}))

    calibrated = [each["sql"] for each in built.steps if each["name"].startswith("calibrate-")]
    assert calibrated and all(
        each.startswith("set local random_page_cost = '1.1';\nset local statement_timeout") for each in calibrated
    )
