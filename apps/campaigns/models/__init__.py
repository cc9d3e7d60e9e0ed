"""Workloads, data sets and their copies, campaigns, runs, and schedules."""

from apps.campaigns.design.request import all_sources
from apps.campaigns.models.campaign import Campaign
from apps.campaigns.models.copies import DataCopy, DataUse
from apps.campaigns.models.runs import Artefact, Run, RunEvent, RunPart, RunQuerySet
from apps.campaigns.models.schedules import Schedule, Slot
from apps.campaigns.models.twins import Twin
from apps.campaigns.models.workloads import DataSet, OwnRecipe, Workload

__all__ = [
    "Artefact",
    "Campaign",
    "DataCopy",
    "DataSet",
    "DataUse",
    "OwnRecipe",
    "Run",
    "RunEvent",
    "RunPart",
    "RunQuerySet",
    "Schedule",
    "Slot",
    "Twin",
    "Workload",
    "all_sources",
]
