"""How far the load of a twin resembles production: every verdict of its campaign rests on that."""

from __future__ import annotations

from collections.abc import Iterator

from apps.results.answers.judgements.judged_campaign import Asked
from apps.results.answers.sentences import Judgement
from apps.results.runs.fidelity import lowest
from common.wording import counted

TRUSTED = 0.8  # below it, the sentence is a warning


def fidelity(asked: Asked) -> Iterator[Judgement]:
    """One sentence for a campaign that runs a twin."""
    found = lowest(asked.campaign)
    if found is None:
        return
    load = f"The load is a twin of the database {found.twin.database}."
    figures = {"fidelity": found.value, "runs": found.runs, "covered": found.twin.covered}
    if found.value is None:
        yield Judgement("twin", f"{load} Its fidelity is unknown: no run counted its statements.", "warning", figures)
        return
    least = "at least " if found.runs > 1 else ""
    sentence = f"{load} Its fidelity is {least}{100 * found.value:.0f} % in {counted(found.runs, 'run')}."
    yield Judgement("twin", sentence, "note" if found.value >= TRUSTED else "warning", figures)
