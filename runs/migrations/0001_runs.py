"""Runs and what ingest keeps beside them. The run table is made in SQL: Django knows its columns only."""

from datetime import UTC, datetime

from django.db import migrations, models

import runs.models.fields
from runs.partitions import ensure_partitions

RUN = """\
CREATE TABLE run (
    tenant_id integer NOT NULL,
    attempt smallint NOT NULL,
    eligible boolean NOT NULL,
    completes boolean NOT NULL,
    run_id uuid NOT NULL,
    ingest_mark bigint NOT NULL,
    at timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL,
    duration_ms bigint NOT NULL,
    tokens_input bigint NOT NULL,
    tokens_output bigint NOT NULL,
    tokens_cached bigint NOT NULL,
    policy_revision bigint NOT NULL,
    policy_version bigint NOT NULL,
    steps integer NOT NULL,
    turns integer NOT NULL,
    tool_calls integer NOT NULL,
    refusals integer NOT NULL,
    retries integer NOT NULL,
    blocked integer NOT NULL,
    blocked_by_provider integer NOT NULL,
    duplicates integer NOT NULL,
    peak_repeats smallint NOT NULL,
    peak_stall smallint NOT NULL,
    peak_error_streak smallint NOT NULL,
    peak_domain_calls smallint NOT NULL,
    peak_listing_pages smallint NOT NULL,
    peak_refusals smallint NOT NULL,
    looped boolean NOT NULL,
    provider_failure boolean NOT NULL,
    clock_suspect boolean NOT NULL,
    sanitized boolean NOT NULL,
    step_cap integer,
    parent_run_id uuid,
    resumed_from uuid,
    cost numeric(14, 6) NOT NULL,
    body_digest bytea NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    answer text COLLATE "C" NOT NULL,
    halt_reason text COLLATE "C" NOT NULL,
    family text COLLATE "C" NOT NULL,
    mode text COLLATE "C" NOT NULL,
    would_halt text COLLATE "C" NOT NULL,
    step_unit text COLLATE "C" NOT NULL,
    cost_basis text COLLATE "C" NOT NULL,
    job_type text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    release text COLLATE "C" NOT NULL,
    root_task_id text COLLATE "C" NOT NULL,
    guard_version text COLLATE "C" NOT NULL,
    detail json NOT NULL,
    PRIMARY KEY (tenant_id, run_id),
    CONSTRAINT run_outcome_known CHECK (outcome IN ('completed', 'halted', 'failed', 'completed_forced',
        'cancelled', 'escalated', 'unresolved')),
    CONSTRAINT run_answer_known CHECK (answer IN ('full', 'none', 'forced')),
    CONSTRAINT run_family_of_reason CHECK ((halt_reason = '') = (family = '')),
    CONSTRAINT run_cost_bounded CHECK (cost BETWEEN 0 AND 99999999.999999),
    CONSTRAINT run_times_bounded CHECK (
        at BETWEEN '1970-01-01Z' AND '2200-01-01Z' AND started_at BETWEEN '1970-01-01Z' AND '2200-01-01Z'
        AND ended_at BETWEEN '1970-01-01Z' AND '2200-01-01Z' AND duration_ms BETWEEN 0 AND 7300000000000),
    CONSTRAINT run_tokens_bounded CHECK (
        tokens_input BETWEEN 0 AND 1000000000000 AND tokens_output BETWEEN 0 AND 1000000000000
        AND tokens_cached BETWEEN 0 AND tokens_input),
    CONSTRAINT run_counts_bounded CHECK (
        steps BETWEEN 0 AND 1000000000 AND turns BETWEEN 0 AND 1000000000
        AND tool_calls BETWEEN 0 AND 1000000000 AND refusals BETWEEN 0 AND 1000000000
        AND retries BETWEEN 0 AND 1000000000 AND blocked BETWEEN 0 AND 1000000000
        AND blocked_by_provider BETWEEN 0 AND 1000000000 AND duplicates BETWEEN 0 AND 1000000000
        AND attempt BETWEEN 1 AND 1000),
    CONSTRAINT run_peaks_bounded CHECK (
        peak_repeats >= 0 AND peak_stall >= 0 AND peak_error_streak >= 0 AND peak_domain_calls >= 0
        AND peak_listing_pages >= 0 AND peak_refusals >= 0)
) PARTITION BY RANGE (run_id);
-- Text of a few KB stays in its row and uncompressed: both cost COPY more than they save.
ALTER TABLE run ALTER COLUMN detail SET STORAGE EXTERNAL;
-- The newest runs of a tenant, and keyset pages of them.
CREATE INDEX run_tenant_at ON run (tenant_id, at, run_id);
-- The tree and the attempts of a task. A run that is its own root is found by its run_id.
CREATE INDEX run_tenant_root ON run (tenant_id, root_task_id) WHERE root_task_id <> '';
-- A time range over all tenants.
CREATE INDEX run_at_brin ON run USING brin (at) WITH (pages_per_range = 32);
-- What fold has not counted yet, every second: a BRIN index would read all that is not summarized each time. It
-- grows at its end only, 1 us a row.
CREATE INDEX run_mark ON run (ingest_mark);
"""


def make_partitions(apps, schema_editor):
    ensure_partitions(datetime.now(UTC))


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(RUN, reverse_sql="DROP TABLE run")],
            state_operations=[
                migrations.CreateModel(
                    name="Run",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "tenant_id",
                                "run_id",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("tenant_id", models.IntegerField()),
                        ("run_id", models.UUIDField()),
                        ("ingest_mark", models.BigIntegerField()),
                        ("body_digest", models.BinaryField(max_length=16)),
                        ("root_task_id", models.TextField(blank=True, db_collation="C", default="")),
                        ("parent_run_id", models.UUIDField(null=True)),
                        ("resumed_from", models.UUIDField(null=True)),
                        ("attempt", models.SmallIntegerField(default=1)),
                        ("job_type", models.TextField(blank=True, db_collation="C", default="")),
                        ("agent", models.TextField(blank=True, db_collation="C", default="")),
                        ("release", models.TextField(blank=True, db_collation="C", default="")),
                        (
                            "outcome",
                            models.TextField(
                                blank=True,
                                choices=[
                                    ("completed", "completed"),
                                    ("completed_forced", "completed_forced"),
                                    ("unresolved", "unresolved"),
                                    ("escalated", "escalated"),
                                    ("halted", "halted"),
                                    ("cancelled", "cancelled"),
                                    ("failed", "failed"),
                                ],
                                db_collation="C",
                                default="",
                            ),
                        ),
                        (
                            "answer",
                            models.TextField(
                                blank=True,
                                choices=[("full", "full"), ("forced", "forced"), ("none", "none")],
                                db_collation="C",
                                default="",
                            ),
                        ),
                        ("halt_reason", models.TextField(blank=True, db_collation="C", default="")),
                        ("family", models.TextField(blank=True, db_collation="C", default="")),
                        ("mode", models.TextField(blank=True, db_collation="C", default="")),
                        ("would_halt", models.TextField(blank=True, db_collation="C", default="")),
                        ("at", models.DateTimeField()),
                        ("started_at", models.DateTimeField()),
                        ("ended_at", models.DateTimeField()),
                        ("received_at", models.DateTimeField()),
                        ("steps", models.IntegerField(default=0)),
                        ("turns", models.IntegerField(default=0)),
                        ("tool_calls", models.IntegerField(default=0)),
                        ("refusals", models.IntegerField(default=0)),
                        ("retries", models.IntegerField(default=0)),
                        ("step_unit", models.TextField(blank=True, db_collation="C", default="")),
                        ("step_cap", models.IntegerField(null=True)),
                        ("duration_ms", models.BigIntegerField(default=0)),
                        ("tokens_input", models.BigIntegerField(default=0)),
                        ("tokens_output", models.BigIntegerField(default=0)),
                        ("tokens_cached", models.BigIntegerField(default=0)),
                        ("cost", models.DecimalField(decimal_places=6, max_digits=14)),
                        ("cost_basis", models.TextField(blank=True, db_collation="C", default="")),
                        ("completes", models.BooleanField(default=False)),
                        ("eligible", models.BooleanField(default=False)),
                        ("looped", models.BooleanField(default=False)),
                        ("provider_failure", models.BooleanField(default=False)),
                        ("blocked", models.IntegerField(default=0)),
                        ("blocked_by_provider", models.IntegerField(default=0)),
                        ("duplicates", models.IntegerField(default=0)),
                        ("peak_repeats", models.SmallIntegerField(default=0)),
                        ("peak_stall", models.SmallIntegerField(default=0)),
                        ("peak_error_streak", models.SmallIntegerField(default=0)),
                        ("peak_domain_calls", models.SmallIntegerField(default=0)),
                        ("peak_listing_pages", models.SmallIntegerField(default=0)),
                        ("peak_refusals", models.SmallIntegerField(default=0)),
                        ("policy_revision", models.BigIntegerField(default=0)),
                        ("policy_version", models.BigIntegerField(default=0)),
                        ("guard_version", models.TextField(blank=True, db_collation="C", default="")),
                        ("clock_suspect", models.BooleanField(default=False)),
                        ("sanitized", models.BooleanField(default=False)),
                        ("detail", runs.models.fields.PlainJSONField(default=dict)),
                    ],
                    options={
                        "db_table": "run",
                    },
                ),
            ],
        ),
        migrations.CreateModel(
            name="IngestSpan",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "mark", "tenant_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("mark", models.BigIntegerField()),
                ("tenant_id", models.IntegerField()),
                ("min_run_id", models.UUIDField()),
                ("max_run_id", models.UUIDField()),
                ("runs", models.IntegerField()),
            ],
            options={
                "db_table": "ingest_span",
            },
        ),
        migrations.CreateModel(
            name="ExternalRun",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "external_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.IntegerField()),
                ("external_id", models.TextField(db_collation="C")),
                ("run_id", models.UUIDField()),
            ],
            options={
                "db_table": "external_run",
            },
        ),
        migrations.CreateModel(
            name="TaskCompletion",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "root_task_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.IntegerField()),
                ("root_task_id", models.TextField(db_collation="C")),
                ("run_id", models.UUIDField()),
                ("awaited_run_id", models.UUIDField(null=True)),
            ],
            options={
                "db_table": "task_completion",
                "indexes": [
                    models.Index(
                        condition=models.Q(("awaited_run_id__isnull", False)),
                        fields=["tenant_id", "awaited_run_id"],
                        name="task_completion_awaited",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RunSource",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "kind",
                        "name",
                        "run_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.IntegerField()),
                ("kind", models.TextField(db_collation="C")),
                ("name", models.TextField(db_collation="C")),
                ("run_id", models.UUIDField()),
            ],
            options={
                "db_table": "run_source",
            },
        ),
        migrations.RunPython(make_partitions, migrations.RunPython.noop),
    ]
