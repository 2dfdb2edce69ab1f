"""Runs that have not ended, work that was refused, and which runs were announced."""

from datetime import UTC, datetime
from decimal import Decimal

import django.db.models.functions.text
import django.db.models.lookups
from django.db import migrations, models

import runs.models.fields

# The default stays: a gate of the release before copies runs without the column.
ANNOUNCED = """\
SET LOCAL lock_timeout = '10s';
ALTER TABLE run ADD COLUMN announced boolean NOT NULL DEFAULT false;
"""
# Live rows are updated every few seconds and deleted soon: room on the page keeps a row where it is, and the
# space of those that ended is used again before the table grows.
STORAGE = """\
ALTER TABLE live_run SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.2);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0004_retention"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(ANNOUNCED, reverse_sql="ALTER TABLE run DROP COLUMN announced")
            ],
            state_operations=[
                migrations.AddField(
                    model_name="run",
                    name="announced",
                    field=models.BooleanField(default=False),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LiveRun",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "run_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.IntegerField()),
                ("run_id", models.UUIDField()),
                ("external_id", models.TextField(blank=True, db_collation="C", default="")),
                ("root_task_id", models.TextField(blank=True, db_collation="C", default="")),
                ("parent_run_id", models.UUIDField(null=True)),
                ("resumed_from", models.UUIDField(null=True)),
                ("attempt", models.SmallIntegerField(default=1)),
                ("job_type", models.TextField(blank=True, db_collation="C", default="")),
                ("agent", models.TextField(blank=True, db_collation="C", default="")),
                ("release", models.TextField(blank=True, db_collation="C", default="")),
                ("started_at", models.DateTimeField()),
                ("started_digest", models.BinaryField(max_length=16, null=True)),
                ("received_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                ("seq", models.IntegerField(default=-1)),
                ("steps", models.IntegerField(default=0)),
                ("turns", models.IntegerField(default=0)),
                ("cost", models.DecimalField(decimal_places=6, default=0, max_digits=14)),
                ("pressure", models.SmallIntegerField(default=0)),
                ("pressure_limit", models.TextField(blank=True, db_collation="C", default="")),
                ("pressures", runs.models.fields.PlainJSONField(default=dict)),
                ("sources", runs.models.fields.PlainJSONField(default=list)),
                ("detail", runs.models.fields.PlainJSONField(default=dict)),
                ("clock_suspect", models.BooleanField(default=False)),
                ("sanitized", models.BooleanField(default=False)),
            ],
            options={
                "db_table": "live_run",
                "indexes": [
                    models.Index(fields=["tenant_id", "pressure", "run_id"], name="live_run_pressure"),
                    models.Index(fields=["tenant_id", "last_at"], name="live_run_last"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("seq__range", (-1, 1000000000)),
                            ("steps__range", (0, 1000000000)),
                            ("turns__range", (0, 1000000000)),
                            ("attempt__range", (1, 1000)),
                            ("pressure__range", (0, 10000)),
                        ),
                        name="live_run_counts_bounded",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("cost__range", (0, Decimal("99999999.999999")))),
                        name="live_run_cost_bounded",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "started_at__range",
                                (
                                    datetime(1970, 1, 1, tzinfo=UTC),
                                    datetime(2200, 1, 1, tzinfo=UTC),
                                ),
                            )
                        ),
                        name="live_run_times_bounded",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("external_id"), 128
                            ),
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("root_task_id"), 128
                            ),
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("job_type"), 128
                            ),
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("agent"), 128
                            ),
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("release"), 257
                            ),
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("pressure_limit"), 64
                            ),
                        ),
                        name="live_run_texts_short",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RefusedWork",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "refusal_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.IntegerField()),
                ("refusal_id", models.UUIDField()),
                ("body_digest", models.BinaryField(max_length=16)),
                ("reason", models.TextField(blank=True, db_collation="C", default="")),
                ("job_type", models.TextField(blank=True, db_collation="C", default="")),
                ("agent", models.TextField(blank=True, db_collation="C", default="")),
                ("root_task_id", models.TextField(blank=True, db_collation="C", default="")),
                ("parent_run_id", models.UUIDField(null=True)),
                ("envelope", runs.models.fields.PlainJSONField(null=True)),
                ("detail", runs.models.fields.PlainJSONField(default=dict)),
                ("at", models.DateTimeField()),
                ("received_at", models.DateTimeField()),
                ("clock_suspect", models.BooleanField(default=False)),
                ("sanitized", models.BooleanField(default=False)),
            ],
            options={
                "db_table": "refused_work",
                "indexes": [
                    models.Index(fields=["tenant_id", "at", "refusal_id"], name="refused_work_at"),
                    models.Index(
                        condition=models.Q(("root_task_id", ""), _negated=True),
                        fields=["tenant_id", "root_task_id"],
                        name="refused_work_root",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("reason", ""), _negated=True), name="refused_work_reason_named"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "at__range",
                                (
                                    datetime(1970, 1, 1, tzinfo=UTC),
                                    datetime(2200, 1, 1, tzinfo=UTC),
                                ),
                            )
                        ),
                        name="refused_work_times_bounded",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("reason"), 64
                            ),
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("job_type"), 128
                            ),
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("agent"), 128
                            ),
                            django.db.models.lookups.LessThanOrEqual(
                                django.db.models.functions.text.Length("root_task_id"), 128
                            ),
                        ),
                        name="refused_work_texts_short",
                    ),
                ],
            },
        ),
        migrations.RunSQL(STORAGE, reverse_sql=migrations.RunSQL.noop),
    ]
