"""A workload is a list of named steps; what had been a kind with options becomes its only measured step."""

import hashlib
import json
from typing import Any

from django.db import migrations, models


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def to_steps(apps: Any, schema_editor: Any) -> None:
    for workload in apps.get_model("campaigns", "Workload").objects.all():
        options = dict(workload.options)
        warmup_s = options.pop("warmup_s", 0)
        steps = [{"name": "measure", "role": "measure", "kind": workload.kind, "options": options}]
        if warmup_s:
            warm = {key: value for key, value in options.items() if key != "transactions"} | {"time_s": warmup_s}
            steps.insert(0, {"name": "warm", "role": "warm", "kind": workload.kind, "options": warm})
        workload.steps, workload.digest = steps, digest({"steps": steps})
        workload.save(update_fields=["steps", "digest"])


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0004_collect")]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="steps",
            field=models.JSONField(default=list, help_text='[{"name", "role", "kind", "options"}]'),
            preserve_default=False,
        ),
        migrations.RunPython(to_steps, migrations.RunPython.noop),
        migrations.RemoveField(model_name="workload", name="kind"),
        migrations.RemoveField(model_name="workload", name="options"),
        migrations.AlterField(
            model_name="campaign",
            name="metric",
            field=models.CharField(default="tps", help_text="step.name where several are measured", max_length=80),
        ),
    ]
