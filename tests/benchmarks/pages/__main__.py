"""Durations of pages and lists with a long history: with the server of `make demo`, and rendered in Chromium.

python -m tests.benchmarks.pages                 10 000 runs, then 13 554 more in one campaign
python -m tests.benchmarks.pages --runs 1000000  and then a million, which takes ten minutes and 5 GB more

The campaigns of one stage are those of the next as well: history grows backwards (tests/rows/history.py).
A database that `--state` kept is measured from its number of runs on. The web server's CPU time is shown, too: on
a busy machine, pages mostly wait for the CPU.
Every page of tests/documents/pages.py is requested as well, with the rows of tests/rows/populate.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.pages.server import fill_pages, running, stages
from tests.benchmarks.pages.stages import Stage, measure

AIM_MS, AIM_DRAWN_MS, AIM_OPENED_MS = 200.0, 1000.0, 1500.0
TIMES = 40


def table(stages: list[Stage]) -> str:
    """Markdown: a line for each page, with p50, p95 and queries at each stage, and how much dearer the last is."""
    heads = [
        "p50, p95 in ms (CPU in ms, queries, kB)",
        *(stage.title for stage in stages),
        "p95 of the last to the first",
    ]
    lines = [_line(heads), "|---" * len(heads) + "|"]
    for name in stages[-1].pages:
        own = [stage.pages.get(name) for stage in stages]
        cells = [
            f"{each.p50:.0f}, {each.p95:.0f} ({each.cpu:.0f}, {each.queries}, {each.size / 1000:.0f})" if each else ""
            for each in own
        ]
        known = [each.p95 for each in own if each]
        lines.append(_line([name, *cells, f"{known[-1] / known[0]:.2f}" if len(known) > 1 else ""]))
    for words, browsed in (
        ("chart drawn", [stage.drawn for stage in stages]),
        ("opened with an empty cache", [stage.opened for stage in stages]),
    ):
        for name in browsed[-1]:
            times = [each.get(name) for each in browsed]
            cells = [f"{statistics.median(each):.0f}, {max(each):.0f}" if each else "" for each in times]
            lines.append(_line([f"{name}, {words}: p50, largest", *cells, ""]))
    lines.append(_line(["peak memory of a web process", *(f"{stage.peak_mb:.0f} MB" for stage in stages), ""]))
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def failures(stages: list[Stage]) -> list[str]:
    slow = [
        f"{stage.title}: {page_times.page} {page_times.p95:.0f} ms"
        for stage in stages
        for page_times in stage.pages.values()
        if page_times.p95 > AIM_MS
    ]
    late = [
        f"{stage.title}: {name} is drawn after {max(times):.0f} ms"
        for stage in stages
        for name, times in stage.drawn.items()
        if max(times) > AIM_DRAWN_MS
    ]
    late += [
        f"{stage.title}: {name} is drawn after {max(times):.0f} ms with an empty cache"
        for stage in stages
        for name, times in stage.opened.items()
        if max(times) > AIM_OPENED_MS
    ]
    return [*slow, *late]


def firsts(stage: Stage) -> Iterator[str]:
    """Durations of first requests, whose results are cached for later ones."""
    for name, page_times in stage.pages.items():
        if page_times.first > 2 * page_times.p95:
            yield f"  {name}, the first time: {page_times.first:.0f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.pages", description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[], metavar="N", help="further stages of N runs each")
    parser.add_argument("--times", type=int, default=TIMES, help=f"that each page is asked for ({TIMES})")
    parser.add_argument("--no-browser", action="store_true", help="without Chromium")
    parser.add_argument("--state", type=Path, help="a directory that keeps the database for the next time")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    measured = []
    with running(options.state) as stack:
        from apps.campaigns.models import Run
        from tests.rows import history

        others = fill_pages(stack.state)
        listed, present = stages(options.runs), Run.objects.count()
        for title, runs, large in [each for each in listed if each[1] >= present] or listed[-1:]:
            history.fill(runs, large=large)
            measured.append(measure(stack, title, others, options.times, not options.no_browser))
            print("\n".join([title, *firsts(measured[-1])]))
    print(table(measured))
    for miss in failures(measured):
        print(f"misses its aim: {miss}")
    return 1 if failures(measured) else 0


if __name__ == "__main__":
    sys.exit(main())
