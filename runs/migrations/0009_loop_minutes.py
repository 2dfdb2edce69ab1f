"""Tasks by minute of receipt, how far minutes are closed and judged, and each series' detector."""

import django.contrib.postgres.indexes
from django.db import migrations, models

TEXT = {"blank": True, "db_collation": "C", "default": ""}


class Migration(migrations.Migration):
    dependencies = [("runs", "0008_checkpoints")]

    operations = [
        migrations.CreateModel(
            name="AlertState",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "job_type",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.IntegerField()),
                ("job_type", models.TextField(**TEXT)),
                ("last_window", models.IntegerField()),
                ("is_open", models.BooleanField(default=False)),
                ("evidence", models.FloatField(default=0)),
                ("usual", models.FloatField(null=True)),
                ("tasks_a_day", models.IntegerField(default=0)),
                ("state", models.JSONField(default=dict)),
            ],
            options={
                "db_table": "alert_state",
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_open", True)),
                        fields=["tenant_id", "job_type"],
                        name="alert_state_open",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="LoopClock",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("closed", models.IntegerField()),
                ("mark", models.BigIntegerField()),
                ("first_run", models.UUIDField(null=True)),
                ("last_run", models.UUIDField(null=True)),
            ],
            options={
                "db_table": "loop_clock",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="loop_clock_one_row")
                ],
            },
        ),
        migrations.CreateModel(
            name="LoopMinute",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "job_type",
                        "minute",
                        "release",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.IntegerField()),
                ("job_type", models.TextField(**TEXT)),
                ("minute", models.IntegerField()),
                ("release", models.TextField(**TEXT)),
                ("runs", models.IntegerField(default=0)),
                ("looped", models.IntegerField(default=0)),
                ("provider", models.IntegerField(default=0)),
                ("provider_looped", models.IntegerField(default=0)),
                ("late", models.IntegerField(default=0)),
                ("late_looped", models.IntegerField(default=0)),
                ("tasks", models.IntegerField(default=0)),
                ("looped_tasks", models.IntegerField(default=0)),
            ],
            options={
                "db_table": "loop_minute",
                "indexes": [
                    django.contrib.postgres.indexes.BrinIndex(
                        models.F("minute"), name="loop_minute_brin", pages_per_range=16
                    )
                ],
            },
        ),
    ]
