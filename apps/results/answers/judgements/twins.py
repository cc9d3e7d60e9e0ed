"""The fidelity of a twin, on which the verdicts of its campaign depend."""

from __future__ import annotations

from collections.abc import Iterator

from apps.results.answers.judgements.judged_campaign import JudgedCampaign
from apps.results.answers.sentences import Judgement
from apps.results.runs.fidelity import lowest


def fidelity(judged: JudgedCampaign) -> Iterator[Judgement]:
    """Yield one sentence for a campaign that runs a twin."""
    result = lowest(judged.campaign)
    if result is None:
        return
    figures = {"fidelity": result.value, "runs": result.runs, "covered": result.twin.covered}
    yield Judgement("twin", result.sentence, "note" if result.is_trusted else "warning", figures)
