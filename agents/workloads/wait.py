"""wait: nothing but time, for a device to cool down or statistics to be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from .base import DAY_S, Context, Metric, Options, Workload

if TYPE_CHECKING:
    from .base import Stage


class Wait(Workload):
    kind = "wait"
    title = "Wait"
    help = "Waits between two steps; collectors continue, and nothing is measured"
    metrics: dict[str, Metric] = {}
    measures = False
    schema = {
        "type": "object",
        "title": "Wait",
        "properties": {
            "seconds": {"type": "number", "minimum": 0, "maximum": DAY_S, "title": "Seconds", "default": 10},
        },
        "additionalProperties": False,
    }

    def argv(self, options: Options, context: Context) -> list[str]:
        return [context.program, str(options.get("seconds", 10))]

    def duration(self, options: Options) -> Optional[float]:
        return float(options.get("seconds", 10))

    def measure(self, options: Options, stage: Stage) -> None:
        seconds = self.duration(options) or 0.0
        argv = self.argv(options, Context(stage.tool("sleep"), str(stage.out), ""))
        stage.measure(argv, limit_s=seconds + 60.0, total_s=seconds, on_line=lambda line: None)
