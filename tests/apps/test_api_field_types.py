"""Fields of the API's responses have the types of the dataclasses that they show.

The fields are declared, not derived: most of their lines are descriptions for readers of the API."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from msgspec import inspect
from rest_framework import serializers as drf

from apps.campaigns import history
from apps.campaigns import queries as campaign_queries
from apps.campaigns.api import lifecycle, queues
from apps.campaigns.api import serializers as campaigns
from apps.campaigns.design import plan
from apps.campaigns.design.before_start import feasibility, placement
from apps.campaigns.execution import schedule
from apps.campaigns.library import scripts
from apps.decisions.api import team
from apps.decisions.api import views as decisions
from apps.decisions.configuration_drift import comparison as drift
from apps.decisions.configuration_drift import report
from apps.decisions.search import decided_settings, full_text, palette
from apps.decisions.timeline import entries
from apps.hosts.api import serializers as hosts
from apps.hosts.facts import changes as facts
from apps.results.answers import hosts as per_host
from apps.results.answers import sentences, summary, table
from apps.results.answers.changes import answer as changes
from apps.results.answers.changes import plans
from apps.results.answers.comparison import compare as comparison
from apps.results.answers.comparison import differences, sides
from apps.results.answers.history import baselines as repeated
from apps.results.api import baselines, compare, imports, observed
from apps.results.api import views as results
from apps.results.imports import understand
from apps.results.runs import fidelity, proof
from apps.results.runs import observed as costs
from apps.searches import api as searches
from apps.searches import importance
from apps.tuning import api as tuning
from apps.tuning import effects, parameters, rules, services

PAIRS: dict[type[drf.Serializer[Any]], type] = {
    results.PointSerializer: table.Point,
    results.ModeSerializer: table.Mode,
    results.LevelRowSerializer: table.LevelRow,
    results.HostLevelSerializer: per_host.HostLevel,
    results.HostAnswerSerializer: per_host.HostAnswer,
    results.CampaignTableSerializer: table.CampaignTable,
    results.JudgementSerializer: sentences.Judgement,
    results.SummaryCellSerializer: summary.SummaryCell,
    results.SummaryFigureSerializer: summary.SummaryFigure,
    results.SummarySerializer: summary.SummaryTable,
    results.ProofCheckSerializer: proof.ProofCheck,
    results.SubjectSerializer: proof.ProofSubject,
    results.ProvenSerializer: proof.Proven,
    results.ChangeSerializer: proof.ChangedValue,
    results.ProofSerializer: proof.ProofReport,
    observed.StatementFiguresSerializer: fidelity.Figures,
    observed.ComparedStatementSerializer: fidelity.ComparedStatement,
    observed.FidelitySerializer: fidelity.Fidelity,
    observed.CostSerializer: costs.Cost,
    compare.SideSerializer: sides.Arm,
    compare.UnlikeSerializer: differences.Difference,
    compare.FigureChangeSerializer: changes.FigureChange,
    compare.SideChangesSerializer: changes.LevelChanges,
    compare.PlanChangeSerializer: plans.PlanChange,
    compare.ComparedSerializer: comparison.Compared,
    baselines.BaselineSerializer: repeated.Baseline,
    imports.NoteSerializer: understand.Note,
    imports.FoundRunSerializer: understand.DraftRun,
    queues.WaitingSerializer: schedule.Waiting,
    queues.QueueSerializer: schedule.HostSchedule,
    queues.OnHostSerializer: schedule.OnHost,
    lifecycle.HistorySerializer: history.Entry,
    lifecycle.CheckSerializer: feasibility.StartCheck,
    campaigns.ComplaintSerializer: scripts.Complaint,
    campaigns.CheckedSerializer: scripts.Checked,
    campaigns.ProgressSerializer: campaign_queries.Progress,
    campaigns.WeightyChangeSerializer: facts.FactChange,
    campaigns.BreakSerializer: campaign_queries.Break,
    campaigns.PlannedSerializer: plan.Planned,
    campaigns.ShareSerializer: placement.HostShare,
    campaigns.PreviewSerializer: placement.StartPreview,
    hosts.FactChangeSerializer: facts.FactChange,
    tuning.DifferenceSerializer: rules.RevisionDifference,
    tuning.RefusalSerializer: effects.Refusal,
    tuning.ItemSerializer: effects.PlannedChange,
    tuning.EffectSerializer: effects.Effect,
    tuning.DryRunSerializer: services.Preview,
    tuning.ParameterSerializer: parameters.Parameter,
    team.EntrySerializer: entries.TimelineEntry,
    team.TimelineSerializer: entries.Timeline,
    team.HitSerializer: full_text.Hit,
    team.WhySerializer: decided_settings.Behind,
    team.PlaceSerializer: palette.PaletteEntry,
    decisions.DriftRowSerializer: drift.ComparedValue,
    decisions.DriftSerializer: report.HostDrift,
    searches.SettingImportanceSerializer: importance.SettingImportance,
    searches.ImportanceSerializer: importance.Answer,
}
TYPES: dict[type[drf.Field[Any, Any, Any, Any]], tuple[type[inspect.Type], ...]] = {
    drf.BooleanField: (inspect.BoolType,),
    drf.CharField: (inspect.StrType, inspect.LiteralType),
    drf.ChoiceField: (inspect.LiteralType,),
    drf.DateTimeField: (inspect.DateTimeType,),
    drf.DictField: (inspect.DictType,),
    drf.FloatField: (inspect.FloatType,),
    drf.IntegerField: (inspect.IntType,),
    drf.ListField: (inspect.ListType,),
    drf.UUIDField: (inspect.UUIDType,),
}


def annotation(kind: type, name: str) -> Any:
    """The type of a field or a property; None for a value that the endpoint computes."""
    hints, shown = get_type_hints(kind), getattr(kind, name, None)
    return get_type_hints(shown.fget)["return"] if isinstance(shown, property) else hints.get(name)


def agrees(field: drf.Field[Any, Any, Any, Any], kind: inspect.Type) -> bool:
    """Whether the field shows all values of that type, and null only if it is one of them."""
    if isinstance(kind, inspect.AnyType) or isinstance(field, drf.JSONField):
        return True
    types = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    present = [one for one in types if not isinstance(one, inspect.NoneType)]
    if field.allow_null != (len(present) < len(types)):
        return False
    if isinstance(field, drf.Serializer):
        return True
    if not isinstance(present[0], TYPES[type(field)]):
        return False
    inner = getattr(present[0], "item_type", getattr(present[0], "value_type", None))
    return inner is None or type(field.child) not in TYPES or agrees(field.child, inner)


@pytest.mark.parametrize(("serializer", "kind"), PAIRS.items(), ids=lambda each: each.__name__)
def test_fields_have_the_types_of_the_dataclass(serializer: type[drf.Serializer[Any]], kind: type) -> None:
    fields = serializer().fields.values()
    declared = {field.source: field for field in fields if not isinstance(field, drf.ListSerializer)}
    types = {name: hint for name in declared if (hint := annotation(kind, name))}

    others = {name: hint for name, hint in types.items() if not agrees(declared[name], inspect.type_info(hint))}

    assert types
    assert others == {}
