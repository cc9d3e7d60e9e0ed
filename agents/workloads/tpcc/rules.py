"""Rules of TPC-C that the load and its data set share: cardinalities, last names, transactions. Pure.

Clause numbers are those of TPC-C 5.11.
"""

from __future__ import annotations

from dataclasses import dataclass

ITEMS, DISTRICTS, CUSTOMERS, NEW_ORDERS, MOST_LINES = 100_000, 10, 3000, 900, 15
NAMES = 1000
DISTS = tuple(f"s_dist_{number:02}" for number in range(1, DISTRICTS + 1))  # columns of stock
OLDEST = 12  # PostgreSQL: the first pgbench with \gset and \if, and foreign keys to partitioned tables
SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
# The constants C of NURand (clause 2.1.6). Those for last names, of the data and of the load, differ by 65 to 119.
LOADED_NAMES, RUN_NAMES, RUN_CUSTOMERS, RUN_ITEMS = 157, 223, 259, 7911


@dataclass(frozen=True)
class Transaction:
    """`weight` is its share of the mix in percent. `keying_s` is the time to enter it at a terminal, `thinking_s` the
    mean of the think time after it, which has an exponential distribution (clause 5.2.5.7)."""

    name: str
    weight: int
    keying_s: int
    thinking_s: int


TRANSACTIONS = (
    Transaction("new_order", 45, 18, 12),
    Transaction("payment", 43, 3, 12),
    Transaction("order_status", 4, 2, 10),
    Transaction("delivery", 4, 2, 5),
    Transaction("stock_level", 4, 2, 5),
)
LONGEST_THINKING = 10  # times its mean


def last_name(number: str) -> str:
    """SQL: the last name of a number from 0 to 999 (clause 4.3.2.3)."""
    syllables = "('{" + ",".join(SYLLABLES) + "}'::text[])"
    return " || ".join(f"{syllables}[1 + {number} / {unit} % 10]" for unit in (100, 10, 1))
