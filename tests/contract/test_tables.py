"""The CSV of the huge page experiment: what a row must hold, and how a bad one is named."""

from __future__ import annotations

import pytest

from common.errors import FormatError
from readers.others.huge_page_csv import COLUMNS, parse_huge_page_csv

ROW = "71,128MB,131072,0.175,36.389,0.103,0,5406,0,603,2026-11-21T00:57:32+00:00"


def table(*rows: str) -> bytes:
    return "".join(f"{row}\n" for row in (",".join(COLUMNS), *rows)).encode()


def test_cells_with_and_without_huge_pages_are_read() -> None:
    parsed = parse_huge_page_csv(table(ROW, "hugepage_error,2026-11-21T00:57:37+00:00"))

    (cell,), (refused,) = parsed.cells, parsed.not_measured
    assert (cell.line, cell.huge_pages, cell.shared_buffers_kib, cell.idx2_ms) == (2, 71, 131072, 0.103)
    assert (refused.line, refused.why) == (3, "hugepage_error")
    assert parsed.missing == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("128MB", "128GB", r"line 2, pg_cache: the value is '128GB' \(expected the size of 131072 KiB"),
        ("36.389", "36,389", "line 2: 12 columns"),
        ("36.389", "", r"line 2, seq\(ms\)"),
        ("5406", "-1", "line 2, heap_blks_hit"),
        ("+00:00", "", r"line 2, finish.*offset from UTC"),
        ("2026-11-21", "21.11.2026", "line 2, finish"),
        ("71,", "hugepage_error,", "line 2, huge_pages"),
        ("71,", '"71,', "unexpected end of data"),
    ],
)
def test_a_value_that_the_script_does_not_write_is_refused_with_line_and_column(
    old: str, new: str, message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        parse_huge_page_csv(table(ROW.replace(old, new, 1)))


def test_columns_in_another_order_are_refused() -> None:
    with pytest.raises(FormatError, match="line 1: the header is"):
        parse_huge_page_csv(table(ROW).replace(b"idx1(ms),seq(ms)", b"seq(ms),idx1(ms)"))
