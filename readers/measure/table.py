"""Measurements of an imported table: one row in `row.csv` with its heading. The option `columns` defines each
column."""

from __future__ import annotations

from common.errors import FormatError
from readers.measure.figures import Measurement, Options, Outputs, distinct
from readers.table import FORMULA, number, read_table

ROW = "row.csv"


def measure_figures(outputs: Outputs, options: Options) -> list[Measurement]:
    """Return the measurements of the row. Options: {"columns": {header: {"name", "unit", "better"}}}. An empty cell
    was not measured."""
    table = read_table(outputs.get(ROW, b""), ROW)
    cells = dict(zip(table.head, table.rows[0].cells, strict=False))
    if len(table.rows[0].cells) < len(table.head):
        message = f"the row is cut: {len(table.rows[0].cells)} of {len(table.head)} cells"
        raise FormatError("figures", message, hint="its figures are only in the raw output")
    filled = {header: cells[header] for header in options["columns"] if cells.get(header)}
    measurements = [_figure(header, cell, options, table.delimiter == ";") for header, cell in filled.items()]
    if not measurements:
        raise FormatError(
            "figures", "the row has no figure", hint="a number in one of " + ", ".join(options["columns"])
        )
    return distinct(measurements)


def _figure(header: str, cell: str, options: Options, comma: bool) -> Measurement:
    value, column = number(cell, comma), options["columns"][header]
    if value is None:
        what = "a formula, not a number" if cell.startswith(FORMULA) else "no number"
        raise FormatError(header, f"{cell[:80]!r} is {what}", hint="a number with a decimal point, such as 0.175")
    return Measurement(column["name"], value, column["unit"], column["better"])
