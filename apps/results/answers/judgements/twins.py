"""How much the load of a twin resembles production: the verdicts of its campaign depend on that."""

from __future__ import annotations

from collections.abc import Iterator

from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.sentences import Judgement
from apps.results.runs.fidelity import lowest
from common.wording import counted

TRUSTED = 0.8  # below it, the sentence is a warning


def fidelity(judged: JudgedCampaign) -> Iterator[Judgement]:
    """One sentence for a campaign that runs a twin."""
    result = lowest(judged.campaign)
    if result is None:
        return
    load = f"The load is a twin of the database {result.twin.database}."
    figures = {"fidelity": result.value, "runs": result.runs, "covered": result.twin.covered}
    if result.value is None:
        yield Judgement("twin", f"{load} Its fidelity is unknown: no run counted its statements.", "warning", figures)
        return
    at_least = "at least " if result.runs > 1 else ""
    sentence = f"{load} Its fidelity is {at_least}{100 * result.value:.0f} % in {counted(result.runs, 'run')}."
    yield Judgement("twin", sentence, "note" if result.value >= TRUSTED else "warning", figures)
