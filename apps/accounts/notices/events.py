"""What people can be told of: each kind of event, and what it means in words."""

KINDS: dict[str, str] = {
    "campaign.finished": "a campaign has finished",
    "campaign.failed": "a campaign has failed",
    "run.waiting": "a run waits for a change by hand",
    "schedule.missed": "a scheduled campaign did not start",
    "schedule.regression": "a scheduled campaign is worse than the earlier ones",
    "schedule.stopped": "a schedule has stopped",
    "host.quarantined": "a host was quarantined",
    "host.unreachable": "a host is unreachable",
    "host.unfit": "a host failed its health check",
    "decision.stale": "a host changed, so a decision may no longer hold there",
    "decision.contradicted": "newer results contradict a decision",
}
# Sent by the button of that name, to whoever presses it.
TEST = "test"
