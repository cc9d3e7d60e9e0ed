"""Renders random campaigns, and reports errors and sentences that contradict their figures.

    python -m tests.truth.sentences                        # 2,000 campaigns
    nice -n 15 python -m tests.truth.sentences --campaigns 200000
    python -m tests.truth.sentences --first 1234 --campaigns 1   # one of them again, with its sentences

A campaign is made from its number alone (random_campaigns.py): sizes, failures, zeros, ties, missing levels, retries,
interim analyses, extensions, fixed rates, several hosts and factors. Verdicts, headline, findings and answer card come
from the product's pure functions. The check (contradictions.py) reads the numbers from the sentences. Each number also
has sentences of other pages (other_pages.py): Compare, schedules, what changed, searches and reviews of decisions.
tests/apps/results/answers/test_random_campaigns.py checks that campaigns in a database have the same sentences.
"""
