"""A report as PDF, for paper and the archive. Charts are vector graphics; the table of runs is attached."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from fpdf import FPDF
from fpdf.fonts import FontFace

from apps.campaigns.models import Campaign
from apps.results.report.content import CampaignReport, mean, relative, report_of, verdict_text
from common import verdicts

# From Debian's fonts-dejavu-core; without it, only Western European characters are available.
FONTS = Path("/usr/share/fonts/truetype/dejavu")
FACES = {"": "DejaVuSans.ttf", "B": "DejaVuSans-Bold.ttf"}
BLUE, ORANGE, GREY, LINE = (0, 114, 178), (213, 94, 0), (89, 89, 89), (217, 221, 227)
MARGIN_MM, CHART_MM, ROW_MM = 18.0, 62.0, 6.5
MOST_LEVELS = 30  # in a chart
MOST_LETTERS = 800  # of a cell: the row of a longer one may be higher than a page, which FPDF refuses
LATIN = str.maketrans({"\u2212": "-", "\u202f": " ", "\u2013": "-", "\u2014": "-", "…": "...", "×": "x", "→": "->"})


class _Paper(FPDF):
    """A4 pages with a footer, and one font family."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.wide = (FONTS / FACES[""]).exists()
        for style, file in FACES.items() if self.wide else ():
            self.add_font("report", style, str(FONTS / file))
        self.family = "report" if self.wide else "helvetica"
        self.report_title = title
        self.set_title(self.fit(title))
        self.set_margins(MARGIN_MM, MARGIN_MM)
        self.set_auto_page_break(True, MARGIN_MM)
        self.alias_nb_pages()
        self.add_page()

    def fit(self, text: str) -> str:
        """Return text that the font supports: other characters become question marks if the wide font is not
        installed."""
        return text if self.wide else text.translate(LATIN).encode("latin-1", "replace").decode("latin-1")

    def footer(self) -> None:
        self.set_y(-12)
        self.letters(7.5, colour=GREY)
        self.cell(0, 5, self.fit(f"{self.report_title[:90]}    {self.page_no()} / {{nb}}"), align="C")

    def letters(self, size: float, style: str = "", colour: Sequence[int] = (31, 35, 40)) -> None:
        self.set_font(self.family, style, size)
        self.set_text_color(*colour)

    def say(self, text: str, size: float = 9.5, style: str = "", colour: Sequence[int] = (31, 35, 40)) -> None:
        self.letters(size, style, colour)
        self.multi_cell(0, size * 0.5, self.fit(text), new_x="LMARGIN", new_y="NEXT", align="L")
        self.ln(1)

    def head(self, text: str) -> None:
        """Write a heading, never at the bottom of a page."""
        if self.will_page_break(24):
            self.add_page()
        self.ln(3)
        self.say(text, 12, "B")

    def list(self, sentences: Sequence[str]) -> None:
        for sentence in sentences:
            self.say(f"\u2013 {sentence}")

    def grid(self, head: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
        """Write a table whose heading repeats on each page."""
        self.letters(8)
        self.set_draw_color(*LINE)
        self.set_fill_color(255, 255, 255)
        faint = FontFace(emphasis="BOLD", color=GREY, fill_color=(245, 246, 248))
        with self.table(
            col_widths=tuple(widths), headings_style=faint, line_height=4.2, padding=0.8, text_align="LEFT",
            borders_layout="HORIZONTAL_LINES",
        ) as table:  # fmt: skip
            for cells in [head, *rows]:
                row = table.row()
                for cell in cells:
                    row.cell(self.fit(cell if len(cell) <= MOST_LETTERS else f"{cell[:MOST_LETTERS]}…"))
        self.ln(2)


def report_pdf(campaign: Campaign) -> IO[bytes]:
    """Return the document. It is built in memory: a report has some dozen pages for any number of runs."""
    report = report_of(campaign)
    paper = _Paper(report.title)
    for part in (_summary, _results, _findings, _method, _environment, _failed):
        part(paper, report)
    paper.embed_file(
        basename=f"runs-{campaign.pk}.csv", bytes=report.csv.encode(), desc="every run with all its figures"
    )
    return io.BytesIO(bytes(paper.output()))


def _summary(paper: _Paper, report: CampaignReport) -> None:
    campaign = report.campaign
    paper.say(report.title, 17, "B")
    paper.say(campaign.question, 11, colour=GREY)
    paper.ln(1)
    with paper.local_context():
        paper.set_fill_color(229, 241, 248)
        paper.letters(10.5)
        text = paper.fit(report.table.sentence)
        paper.multi_cell(0, 5.6, text, fill=True, padding=2, new_x="LMARGIN", new_y="NEXT", align="L")
    paper.ln(2)
    by = f"By {campaign.created_by}, on {campaign.host.name}. Made {report.made_at}. Campaign {campaign.pk}."
    paper.say(f"{report.counted}. {by}", 8.5, colour=GREY)


def _results(paper: _Paper, report: CampaignReport) -> None:
    table = report.table
    paper.head(f"{table.metric} by {table.factor_names}")
    _levels_drawn(paper, report)
    if table.bounded:
        paper.head(f"Differences from {table.baseline}")
        _differences_drawn(paper, report)
    paper.head("Results")
    rows = [
        [
            level.label,
            f"{level.ok} of {level.planned}",
            mean(level),
            relative(level, table.baseline),
            verdict_text(level),
        ]
        for level in table.levels
    ]
    head = [
        table.factor_names,
        "ok",
        f"{table.metric} ({table.unit}) [95 %]",
        f"against {table.baseline} [95 %]",
        "verdict",
    ]
    paper.grid(head, rows, (26, 12, 26, 26, 18))
    if report.summary and len(report.summary.levels) <= 6:
        other_figures = [
            [one.step, one.name, one.unit, *(_figure(cell.mean) for cell in one.cells)] for one in report.summary.shown
        ]
        paper.head("Other figures")
        paper.grid(
            ["step", "figure", "unit", *report.summary.levels],
            other_figures,
            (14, 24, 10, *[14] * len(report.summary.levels)),
        )


def _findings(paper: _Paper, report: CampaignReport) -> None:
    paper.head("Findings")
    paper.list([finding.sentence for finding in report.findings])


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,.5g}"


def _method(paper: _Paper, report: CampaignReport) -> None:
    campaign = report.campaign
    factors = [
        f"{factor['name']}: {', '.join(level['label'] for level in factor['levels'])}." for factor in campaign.factors
    ]
    paper.head("Method")
    paper.list(report.method)
    paper.head("Design")
    paper.list([*report.design, *factors, *([f"Workload {campaign.workload}."] if campaign.workload else [])])
    if report.threats:
        paper.head("Threats to validity")
        paper.list(report.threats)


def _environment(paper: _Paper, report: CampaignReport) -> None:
    paper.head("Environment")
    for environment in report.environments:
        changed = (
            [("Changed", f"{environment.versions} versions of its facts during the campaign")]
            if environment.versions > 1
            else []
        )
        paper.grid(["host", environment.host], [*environment.facts, *changed], (30, 90))


def _failed(paper: _Paper, report: CampaignReport) -> None:
    if report.failed:
        paper.head("Runs that were not successful")
        rows = [
            [str(run.position + 1), run.label, run.outcome, (run.error or {}).get("message", "")]
            for run in report.failed
        ]
        paper.grid(["run", "levels", "outcome", "why"], rows, (8, 30, 16, 56))


def _scale(values: Sequence[float], begin: float, end: float) -> Callable[[float], float]:
    """Return a linear scale from the smallest to the largest value, with some room at both ends."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or abs(high) * 0.01 or 1.0
    low, high = low - room, high + room
    return lambda value: begin + (value - low) / (high - low) * (end - begin)


def _ticks(values: Sequence[float]) -> list[float]:
    """Return about five round numbers between the smallest and the largest value."""
    low, high = min(values), max(values)
    rough = (high - low) / 5 or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
    return [step * place for place in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _levels_drawn(paper: _Paper, report: CampaignReport) -> None:
    """Draw a point for each run, and a diamond for the mean with its interval. The axis does not start at 0."""
    levels = [level for level in report.table.levels if level.ok][:MOST_LEVELS]
    values = [point.value for level in levels for point in level.points]
    values += [end for level in levels for end in (level.low, level.high) if end is not None]
    if not values:
        paper.say("No run was successful.", colour=GREY)
        return
    if paper.will_page_break(CHART_MM + 14):
        paper.add_page()
    top, left = paper.get_y() + 2, MARGIN_MM + 18
    right, bottom = paper.w - MARGIN_MM, paper.get_y() + CHART_MM
    y = _scale(values, bottom - 2, top + 2)
    _frame(paper, left, top, right, bottom)
    for tick in _ticks(values):
        paper.letters(7, colour=GREY)
        paper.text(MARGIN_MM, y(tick) + 1, f"{tick:,.4g}")
        paper.set_draw_color(*LINE)
        paper.line(left, y(tick), right, y(tick))
    step = (right - left) / len(levels)
    paper.letters(6.5 if len(levels) <= 12 else 5)
    flat = all(paper.get_string_width(paper.fit(level.label)) <= step for level in levels)
    for place, level in enumerate(levels):
        x = left + (place + 0.5) * step
        _level_drawn(paper, level, x, y)
        _label(paper, paper.fit(level.label), x, bottom + 3, flat)
    paper.set_y(bottom + (4 if flat else 16))
    paper.say(f"{report.table.metric} ({report.table.unit}); the axis does not start at 0", 7, colour=GREY)


def _level_drawn(paper: _Paper, level: Any, x: float, y: Callable[[float], float]) -> None:
    paper.set_draw_color(*BLUE)
    for point in level.points:
        paper.ellipse(x - 2.4, y(point.value) - 0.6, 1.2, 1.2)
    if level.mean is None:
        return
    paper.set_draw_color(*ORANGE)
    paper.set_fill_color(*ORANGE)
    _diamond(paper, x + 1.6, y(level.mean))
    if level.low is not None and level.high is not None:
        paper.line(x + 1.6, y(level.low), x + 1.6, y(level.high))


def _diamond(paper: _Paper, x: float, y: float) -> None:
    paper.polygon([(x - 1, y), (x, y - 1), (x + 1, y), (x, y + 1)], style="F")


def _label(paper: _Paper, text: str, x: float, y: float, flat: bool) -> None:
    """Write a label below its level, rotated and shortened if labels would overlap."""
    if flat:
        paper.text(x - paper.get_string_width(text) / 2, y, text)
        return
    with paper.rotation(-35, x, y - 1):
        paper.text(x, y, text if len(text) <= 22 else f"{text[:21]}.")


def _frame(paper: _Paper, left: float, top: float, right: float, bottom: float) -> None:
    paper.set_draw_color(*LINE)
    paper.set_line_width(0.2)
    paper.rect(left, top, right - left, bottom - top)


def _differences_drawn(paper: _Paper, report: CampaignReport) -> None:
    """Draw each interval as a line with its estimate, over the margin in grey and a line at 0."""
    table = report.table
    levels = sorted(table.bounded, key=lambda level: -abs(level.relative_percent or 0))[:MOST_LEVELS]
    levels = [level for level in table.bounded if level in levels]
    margin = 100 * table.delta
    height = ROW_MM * len(levels) + 8
    if paper.will_page_break(min(height, 200)):
        paper.add_page()
    left, right, top = MARGIN_MM + 46, paper.w - MARGIN_MM, paper.get_y() + 2
    reach = max(
        [1.5 * margin, *(abs(end or 0) for level in levels for end in (level.relative_low, level.relative_high))]
    )
    x = _scale([-reach, reach], left, right)
    bottom = top + ROW_MM * len(levels)
    paper.set_fill_color(235, 237, 240)
    paper.rect(x(-margin), top, x(margin) - x(-margin), bottom - top, style="F")
    _frame(paper, left, top, right, bottom)
    paper.set_draw_color(31, 35, 40)
    paper.line(x(0), top, x(0), bottom)
    for place, level in enumerate(levels):
        _difference_drawn(paper, level, x, top + (place + 0.5) * ROW_MM)
    paper.letters(7, colour=GREY)
    for tick in _ticks([-reach, reach]):
        label = f"{tick:+.3g} %" if tick else "0"
        paper.text(x(tick) - paper.get_string_width(label) / 2, bottom + 3.5, label)
    paper.set_y(bottom + 6)
    paper.say(f"95 % CIs; grey: the minimum effect of interest, ± {margin:g} %", 7, colour=GREY)


def _difference_drawn(paper: _Paper, level: Any, x: Callable[[float], float], y: float) -> None:
    paper.letters(7.5)
    label = paper.fit(level.label)
    paper.text(MARGIN_MM, y + 1, label if len(label) <= 32 else f"{label[:31]}.")
    shown = verdicts.verdict(level.verdict)
    colour = GREY if shown.colour is None else (BLUE, ORANGE)[shown.colour]
    paper.set_draw_color(*colour)
    paper.set_fill_color(*colour)
    paper.set_line_width(0.5)
    paper.line(x(level.relative_low), y, x(level.relative_high), y)
    _diamond(paper, x(level.relative_percent), y)
    paper.set_line_width(0.2)
