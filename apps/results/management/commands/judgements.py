"""Print the findings of a campaign, as on its page."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.campaigns.models import Campaign
from apps.results.answers.judgements import judgements
from apps.results.answers.sentences import by_topic


class Command(BaseCommand):
    help = "Print the findings of a campaign by topic, in the sentences of its page."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("campaign", type=UUID, help="id of the campaign, as in its address")
        parser.add_argument("--json", action="store_true", help="include the figures, as in the API")

    def handle(self, *args: Any, **options: Any) -> None:
        campaign = Campaign.objects.select_related("workload").filter(pk=options["campaign"]).first()
        if campaign is None:
            raise CommandError(f"no campaign has the id {options['campaign']}")
        findings = judgements(campaign)
        if options["json"]:
            self.stdout.write(json.dumps([finding.as_dict() for finding in findings], indent=2, ensure_ascii=False))
            return
        for topic, of_topic in by_topic(findings):
            self.stdout.write(topic)
            for each in of_topic:
                self.stdout.write(f"  {each.sentence}")
