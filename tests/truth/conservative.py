"""Scenarios whose intervals cover the truth more often than 95 %, and why that is accepted."""

from __future__ import annotations

from collections.abc import Mapping

NO_INTERVAL = "there is no interval, because the runs do not allow one"
EVERY_READING = "the intervals hold at all readings together"
AVERAGED = "the interval averages over noise that this scenario does not have"

CONSERVATIVE: Mapping[str, str] = {
    "2 hosts, host x level sd 3.0 %": NO_INTERVAL,
    "all runs of a level retried later, the host drifts": NO_INTERVAL,
    "2 levels, 10 blocks, read after every run": EVERY_READING,
    "3 levels, 5 blocks, read after every run": EVERY_READING,
    "4 levels, 5 blocks, read after every run": EVERY_READING,
    "4 levels, 10 blocks, read after every run": EVERY_READING,
    "8 levels, 5 blocks, read after every run": EVERY_READING,
    "trend, none, 300 samples, autocorrelation 0.9": AVERAGED,
    "trend of 5 %, 300 samples, autocorrelation 0.9": AVERAGED,
    "drift, none, 8 levels x 3, runs independent": AVERAGED,
    "drift, none, 8 levels x 3, autocorrelation 0.6": AVERAGED,
    "drift of 6 %, 8 levels x 3, blocks sd 1 %": AVERAGED,
    "drift of 3 %, 8 levels x 3, runs independent": AVERAGED,
}
