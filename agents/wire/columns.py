"""The columns of time series: what each number of a sample is, as load generators and collectors declare it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping


@dataclass(frozen=True)
class Column:
    """One column of a time series.

    Columns of one `group` share a panel, which is drawn by default where they are `shown`. `better` is higher, lower or
    "" for neither. A `gauge` is a value of the moment; all other columns count since the previous sample. A `heat`
    group has a row for each part of the machine and is always drawn as a heat map; the columns of a `stacked` group add
    up to a whole and are drawn as stacked areas."""

    unit: str
    help: str
    group: str
    better: str = ""
    gauge: bool = False
    shown: bool = False
    heat: bool = False
    stacked: bool = False


Columns = dict[str, Column]


def columns(group: str, unit: str, named: Mapping[str, str], **more: Any) -> Columns:
    """Columns of one group and unit, from their names and descriptions."""
    return {name: Column(unit, text, group, **more) for name, text in named.items()}
