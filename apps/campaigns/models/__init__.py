"""Workloads, data sets and where they live, campaigns, and runs."""

from apps.campaigns.models.campaign import Campaign, all_sources
from apps.campaigns.models.copies import DataCopy, DataUse
from apps.campaigns.models.runs import Artefact, PartArtefact, PartEvent, Run, RunEvent, RunPart, RunQuerySet
from apps.campaigns.models.workloads import DataSet, OwnRecipe, Workload

__all__ = [
    "Artefact",
    "Campaign",
    "DataCopy",
    "DataSet",
    "DataUse",
    "OwnRecipe",
    "PartArtefact",
    "PartEvent",
    "Run",
    "RunEvent",
    "RunPart",
    "RunQuerySet",
    "Workload",
    "all_sources",
]
