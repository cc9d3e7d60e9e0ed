"""Series as blocks of columns, and the stored ones converted: one form for readers."""

import zlib

import django.contrib.postgres.fields
import django.db.models.deletion
import numpy as np
from django.db import migrations, models

FULL = 4096


def convert(apps, schema_editor):
    """From float64, column after column, deflated as a whole."""
    from apps.results.store import codec
    from apps.results.store.fold import group_of

    blocks = apps.get_model("results", "Block").objects
    for series in apps.get_model("results", "Series").objects.iterator(chunk_size=10):
        flat = np.frombuffer(zlib.decompress(bytes(series.packed)), dtype="<f8") if series.packed else np.empty(0)
        table = dict(zip(series.columns, flat.reshape(len(series.columns), series.samples), strict=True))
        groups = {}
        for name in series.columns:
            groups.setdefault(group_of(series.source, name), []).append(name)
        for first in range(0, series.samples, FULL):
            here = slice(first, first + FULL)
            t = table["t"][here]
            told = {"series": series, "first": first, "samples": len(t), "begin": float(t[0]), "end": float(t[-1])}
            blocks.bulk_create(
                blocks.model(
                    group=group, columns=names, packed=codec.pack([table[name][here] for name in names]), **told
                )
                for group, names in groups.items()
            )


def convert_back(apps, schema_editor):
    from apps.results.store import codec

    for series in apps.get_model("results", "Series").objects.iterator(chunk_size=10):
        table = {name: np.full(series.samples, np.nan) for name in series.columns}
        for block in series.blocks.all():
            arrays = codec.unpack(bytes(block.packed), block.samples, [True] * len(block.columns))
            for name, values in zip(block.columns, arrays, strict=True):
                table[name][block.first : block.first + block.samples] = values
        values = np.array([table[name] for name in series.columns])
        series.packed = zlib.compress(np.ascontiguousarray(values, dtype="<f8").tobytes(), 6)
        series.save(update_fields=["packed"])


class Migration(migrations.Migration):
    dependencies = [
        ("results", "0002_marks"),
    ]

    operations = [
        migrations.AlterField("series", "samples", models.PositiveIntegerField(default=0)),
        migrations.CreateModel(
            name="Block",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "group",
                    models.CharField(blank=True, help_text="group of the declared columns; empty: t", max_length=80),
                ),
                (
                    "columns",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=80), size=None),
                ),
                (
                    "first",
                    models.PositiveIntegerField(help_text="index of its first sample in the series, from 0"),
                ),
                ("samples", models.PositiveIntegerField()),
                ("begin", models.FloatField(help_text="t of its first sample")),
                ("end", models.FloatField(help_text="t of its last sample")),
                ("packed", models.BinaryField()),
                (
                    "series",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="blocks", to="results.series"
                    ),
                ),
            ],
            options={
                "ordering": ["series", "first", "group"],
                "constraints": [models.UniqueConstraint(fields=("series", "group", "first"), name="block_once")],
            },
        ),
        migrations.AlterField("series", "packed", models.BinaryField(default=b"")),
        migrations.RunPython(convert, convert_back),
        migrations.RemoveField("series", "packed"),
    ]
