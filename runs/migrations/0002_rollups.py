"""What fold writes: counts by time, histograms, days of sources, and how far it has counted."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0001_runs"),
    ]

    operations = [
        migrations.CreateModel(
            name="FoldState",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("last", models.BigIntegerField(default=0)),
                ("system_identifier", models.BigIntegerField()),
                ("hours_to", models.DateTimeField()),
                ("days_to", models.DateTimeField()),
                ("folded_at", models.DateTimeField(null=True)),
                ("watched_mark", models.BigIntegerField()),
                ("watched_at", models.DateTimeField()),
            ],
            options={
                "db_table": "fold_state",
            },
        ),
        migrations.CreateModel(
            name="SourceDay",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "day",
                        "kind",
                        "name",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.IntegerField()),
                ("day", models.DateField()),
                ("kind", models.TextField(blank=True, db_collation="C", default="")),
                ("name", models.TextField(blank=True, db_collation="C", default="")),
                ("stopped", models.IntegerField(default=0)),
                ("completed", models.IntegerField(default=0)),
                ("calls", models.BigIntegerField(default=0)),
                ("cost", models.DecimalField(decimal_places=6, default=0, max_digits=30)),
                (
                    "organisations",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.IntegerField(), null=True, size=None
                    ),
                ),
            ],
            options={
                "db_table": "source_day",
            },
        ),
        migrations.CreateModel(
            name="Histogram",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "cut",
                        "grain",
                        "job_type",
                        "release",
                        "step_unit",
                        "at",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.IntegerField()),
                (
                    "cut",
                    models.SmallIntegerField(
                        choices=[
                            (0, "all runs"),
                            (1, "a job type"),
                            (2, "a release"),
                            (3, "a job type and a release"),
                        ]
                    ),
                ),
                ("grain", models.SmallIntegerField(choices=[(0, "quarter-hour"), (1, "hour"), (2, "day")])),
                ("at", models.DateTimeField()),
                ("job_type", models.TextField(blank=True, db_collation="C", default="")),
                ("release", models.TextField(blank=True, db_collation="C", default="")),
                ("step_unit", models.TextField(blank=True, db_collation="C", default="")),
                ("tasks", models.IntegerField(default=0)),
                ("near_cap", models.IntegerField(default=0)),
                ("cap", models.IntegerField(null=True)),
                (
                    "steps",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None),
                ),
                (
                    "steps_tasks",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None),
                ),
                (
                    "durations",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None),
                ),
                (
                    "durations_tasks",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None),
                ),
            ],
            options={
                "db_table": "histogram",
                "indexes": [
                    django.contrib.postgres.indexes.BrinIndex(models.F("at"), name="histogram_at_brin")
                ],
            },
        ),
        migrations.CreateModel(
            name="Rollup",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "cut",
                        "grain",
                        "job_type",
                        "release",
                        "at",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.IntegerField()),
                (
                    "cut",
                    models.SmallIntegerField(
                        choices=[
                            (0, "all runs"),
                            (1, "a job type"),
                            (2, "a release"),
                            (3, "a job type and a release"),
                        ]
                    ),
                ),
                ("grain", models.SmallIntegerField(choices=[(0, "quarter-hour"), (1, "hour"), (2, "day")])),
                ("at", models.DateTimeField()),
                ("job_type", models.TextField(blank=True, db_collation="C", default="")),
                ("release", models.TextField(blank=True, db_collation="C", default="")),
                ("runs", models.IntegerField(default=0)),
                ("completed", models.IntegerField(default=0)),
                ("eligible", models.IntegerField(default=0)),
                ("halted", models.IntegerField(default=0)),
                ("stopped", models.IntegerField(default=0)),
                ("looped", models.IntegerField(default=0)),
                ("forced", models.IntegerField(default=0)),
                ("blocked", models.IntegerField(default=0)),
                ("provider_failures", models.IntegerField(default=0)),
                ("halts_budget", models.IntegerField(default=0)),
                ("halts_repetition", models.IntegerField(default=0)),
                ("halts_cycle", models.IntegerField(default=0)),
                ("halts_progress", models.IntegerField(default=0)),
                ("halts_error", models.IntegerField(default=0)),
                ("halts_source", models.IntegerField(default=0)),
                ("halts_control", models.IntegerField(default=0)),
                ("halts_other", models.IntegerField(default=0)),
                ("duplicates", models.BigIntegerField(default=0)),
                ("tokens", models.DecimalField(decimal_places=0, default=0, max_digits=30)),
                ("cost", models.DecimalField(decimal_places=6, default=0, max_digits=30)),
                ("cost_useful", models.DecimalField(decimal_places=6, default=0, max_digits=30)),
                ("cost_forced", models.DecimalField(decimal_places=6, default=0, max_digits=30)),
                ("cost_halted", models.DecimalField(decimal_places=6, default=0, max_digits=30)),
                ("cost_failed", models.DecimalField(decimal_places=6, default=0, max_digits=30)),
                ("repeated_cost", models.DecimalField(decimal_places=6, default=0, max_digits=30)),
                ("loop_cost", models.DecimalField(decimal_places=6, default=0, max_digits=30)),
                (
                    "reasons",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(blank=True, db_collation="C", default=""),
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "reasons_runs",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.IntegerField(), default=list, size=None
                    ),
                ),
            ],
            options={
                "db_table": "rollup",
                "indexes": [django.contrib.postgres.indexes.BrinIndex(models.F("at"), name="rollup_at_brin")],
            },
        ),
        # The rows of the quarter-hour in progress are updated every second: room on the page keeps that in place.
        migrations.RunSQL(
            "ALTER TABLE rollup SET (fillfactor = 80);"
            "ALTER TABLE histogram SET (fillfactor = 70);"
            "ALTER TABLE source_day SET (fillfactor = 80);",
            migrations.RunSQL.noop,
        ),
    ]
