import datetime
import uuid
from decimal import Decimal

import django.db.models.deletion
import django.db.models.fields.json
import django.db.models.functions.text
import django.db.models.lookups
import pghistory.utils
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models

import runs.models.fields

# What fold has counted already, in every cut and grain that a run counts in.
COUNT_TOOL_CALLS = """
WITH quarter AS (
    SELECT tenant_id, job_type, release, date_bin('15 minutes', run.at, TIMESTAMPTZ '2000-01-01 00:00:00Z') AS at,
        sum(tool_calls) AS calls
    FROM run JOIN fold_state ON run.ingest_mark < fold_state.last GROUP BY 1, 2, 3, 4
), counted AS (
    SELECT t.tenant_id, c.cut, g.grain, date_bin(g.length, q.at, TIMESTAMPTZ '2000-01-01 00:00:00Z') AS at,
        CASE WHEN c.cut IN (1, 3) THEN q.job_type ELSE '' END COLLATE "C" AS job_type,
        CASE WHEN c.cut IN (2, 3) THEN q.release ELSE '' END COLLATE "C" AS release, sum(q.calls) AS calls
    FROM quarter AS q
    CROSS JOIN LATERAL (VALUES (q.tenant_id), (0)) AS t (tenant_id)
    CROSS JOIN (VALUES (0), (1), (2), (3)) AS c (cut)
    CROSS JOIN (
        VALUES (0, interval '15 minutes'), (1, interval '1 hour'), (2, interval '1 day')
    ) AS g (grain, length)
    GROUP BY 1, 2, 3, 4, 5, 6
)
UPDATE rollup SET tool_calls = counted.calls FROM counted
WHERE rollup.tenant_id = counted.tenant_id AND rollup.cut = counted.cut AND rollup.grain = counted.grain
    AND rollup.job_type = counted.job_type AND rollup.release = counted.release AND rollup.at = counted.at
"""


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0007_trail_actions"),
        ("tenants", "0006_trail_actions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("checkpoint_id", models.UUIDField()),
                ("run_id", models.UUIDField(null=True)),
                ("external_id", models.TextField(blank=True, db_collation="C", default="")),
                ("root_task_id", models.TextField(blank=True, db_collation="C", default="")),
                ("parent_run_id", models.UUIDField(null=True)),
                ("attempt", models.SmallIntegerField(default=1)),
                ("job_type", models.TextField(blank=True, db_collation="C", default="")),
                ("agent", models.TextField(blank=True, db_collation="C", default="")),
                ("release", models.TextField(blank=True, db_collation="C", default="")),
                ("reason", models.TextField(blank=True, db_collation="C", default="")),
                ("family", models.TextField(blank=True, db_collation="C", default="")),
                ("question", models.TextField(blank=True, db_collation="C", default="")),
                ("artifact_digest", models.TextField(blank=True, db_collation="C", default="")),
                ("steps", models.IntegerField(default=0)),
                ("cost", models.DecimalField(decimal_places=6, default=0, max_digits=14)),
                ("sub_agents", models.IntegerField(default=0)),
                ("uncertain", models.BooleanField(default=False)),
                ("approves", models.BooleanField(default=False)),
                ("opened_at", models.DateTimeField()),
                ("received_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                (
                    "on_timeout",
                    models.TextField(
                        blank=True,
                        choices=[("stop", "Stop"), ("force_answer", "Force an answer")],
                        db_collation="C",
                        default="",
                    ),
                ),
                (
                    "state",
                    models.TextField(
                        blank=True,
                        choices=[
                            ("open", "Open"),
                            ("claimed", "Claimed"),
                            ("decided", "Decided"),
                            ("delivered", "Delivered"),
                            ("consumed", "Carried out"),
                            ("expired", "Expired"),
                            ("undeliverable", "Undeliverable"),
                        ],
                        db_collation="C",
                        default="",
                    ),
                ),
                ("version", models.IntegerField(default=1)),
                ("claimed_at", models.DateTimeField(null=True)),
                ("lease_until", models.DateTimeField(null=True)),
                ("escalated_at", models.DateTimeField(null=True)),
                (
                    "last_did",
                    models.TextField(
                        blank=True,
                        choices=[
                            ("opened", "opened it"),
                            ("claimed", "claimed it"),
                            ("released", "released it"),
                            ("lease_ended", "held it until the claim ran out"),
                            ("handed_over", "handed it over"),
                            ("decided", "decided it"),
                            ("undone", "took the decision back"),
                            ("delivered", "got the decision"),
                            ("consumed", "carried the decision out"),
                            ("expired", "let it expire"),
                            ("undeliverable", "gave the decision up"),
                        ],
                        db_collation="C",
                        default="",
                    ),
                ),
                ("last_at", models.DateTimeField()),
                ("body_digest", models.BinaryField(max_length=16)),
                ("detail", runs.models.fields.PlainJSONField(default=dict)),
                ("clock_suspect", models.BooleanField(default=False)),
                ("sanitized", models.BooleanField(default=False)),
                (
                    "claimed_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "last_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "checkpoint",
            },
        ),
        migrations.CreateModel(
            name="CheckpointNote",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("text", models.TextField(blank=True, db_collation="C", default="")),
                ("at", models.DateTimeField()),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "checkpoint",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notes",
                        to="runs.checkpoint",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "checkpoint_note",
            },
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "action",
                    models.TextField(
                        blank=True,
                        choices=[
                            ("resume", "Resume"),
                            ("answer", "Answer"),
                            ("force_answer", "Force an answer"),
                            ("stop", "Stop"),
                            ("approve", "Approve the call"),
                        ],
                        db_collation="C",
                        default="",
                    ),
                ),
                ("reason", models.TextField(blank=True, db_collation="C", default="")),
                ("answer", models.TextField(blank=True, db_collation="C", default="")),
                ("change", models.JSONField(default=dict)),
                ("reconciled", models.JSONField(default=list)),
                ("tool", models.TextField(blank=True, db_collation="C", default="")),
                ("args_hash", models.TextField(blank=True, db_collation="C", default="")),
                ("artifact_digest", models.TextField(blank=True, db_collation="C", default="")),
                ("version", models.IntegerField()),
                ("by_system", models.BooleanField(default=False)),
                ("at", models.DateTimeField()),
                ("deliver_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("undone_at", models.DateTimeField(null=True)),
                ("delivered_at", models.DateTimeField(null=True)),
                ("consumed_at", models.DateTimeField(null=True)),
                ("attempt_id", models.UUIDField(null=True)),
                ("attempt", models.SmallIntegerField(null=True)),
                ("alerted_at", models.DateTimeField(null=True)),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "checkpoint",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="decisions",
                        to="runs.checkpoint",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
                (
                    "undone_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "db_table": "decision",
            },
        ),
        migrations.CreateModel(
            name="DecisionEvent",
            fields=[
                ("pgh_id", models.AutoField(primary_key=True, serialize=False)),
                ("pgh_created_at", models.DateTimeField(auto_now_add=True)),
                ("pgh_label", models.TextField(help_text="The event label.")),
                ("pgh_context", pghistory.utils.JSONField(null=True)),
                ("pgh_context_id", models.UUIDField(null=True)),
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, serialize=False)),
                (
                    "action",
                    models.TextField(
                        blank=True,
                        choices=[
                            ("resume", "Resume"),
                            ("answer", "Answer"),
                            ("force_answer", "Force an answer"),
                            ("stop", "Stop"),
                            ("approve", "Approve the call"),
                        ],
                        db_collation="C",
                        default="",
                    ),
                ),
                ("reason", models.TextField(blank=True, db_collation="C", default="")),
                ("answer", models.TextField(blank=True, db_collation="C", default="")),
                ("change", models.JSONField(default=dict)),
                ("reconciled", models.JSONField(default=list)),
                ("tool", models.TextField(blank=True, db_collation="C", default="")),
                ("args_hash", models.TextField(blank=True, db_collation="C", default="")),
                ("artifact_digest", models.TextField(blank=True, db_collation="C", default="")),
                ("version", models.IntegerField()),
                ("by_system", models.BooleanField(default=False)),
                ("at", models.DateTimeField()),
                ("deliver_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("undone_at", models.DateTimeField(null=True)),
                ("consumed_at", models.DateTimeField(null=True)),
                ("attempt_id", models.UUIDField(null=True)),
                ("attempt", models.SmallIntegerField(null=True)),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "checkpoint",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to="runs.checkpoint",
                    ),
                ),
                (
                    "pgh_obj",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="events",
                        to="runs.decision",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to="tenants.tenant",
                    ),
                ),
                (
                    "undone_by",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(fields=["tenant", "state", "due_at", "id"], name="checkpoint_queue"),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(fields=["tenant", "opened_at", "id"], name="checkpoint_opened"),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("run_id", None), _negated=True),
                fields=["tenant", "run_id"],
                name="checkpoint_run",
            ),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("root_task_id", ""), _negated=True),
                fields=["tenant", "root_task_id"],
                name="checkpoint_task",
            ),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("state__in", ["open", "claimed"])),
                fields=["expires_at"],
                name="checkpoint_expires",
            ),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("state", "claimed")), fields=["lease_until"], name="checkpoint_lease"
            ),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("escalated_at", None), ("state__in", ["open", "claimed"])),
                fields=["due_at"],
                name="checkpoint_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.UniqueConstraint(fields=("tenant", "checkpoint_id"), name="checkpoint_once"),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "state__in",
                        ["open", "claimed", "decided", "delivered", "consumed", "expired", "undeliverable"],
                    ),
                    ("on_timeout__in", ["stop", "force_answer"]),
                    (
                        "last_did__in",
                        [
                            "opened",
                            "claimed",
                            "released",
                            "lease_ended",
                            "handed_over",
                            "decided",
                            "undone",
                            "delivered",
                            "consumed",
                            "expired",
                            "undeliverable",
                        ],
                    ),
                ),
                name="checkpoint_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("state", "claimed"),
                        models.Q(("lease_until", None), _negated=True),
                        models.Q(("claimed_at", None), _negated=True),
                    ),
                    models.Q(models.Q(("state", "claimed"), _negated=True), ("lease_until", None)),
                    _connector="OR",
                ),
                name="checkpoint_leased_while_claimed",
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("steps__range", (0, 1000000000)),
                    ("sub_agents__range", (0, 1000000000)),
                    ("attempt__range", (1, 1000)),
                    ("version__gte", 1),
                ),
                name="checkpoint_counts_bounded",
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("cost__range", (0, Decimal("99999999.999999")))),
                name="checkpoint_cost_bounded",
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "opened_at__range",
                        (
                            datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            datetime.datetime(2200, 1, 1, 0, 0, tzinfo=datetime.UTC),
                        ),
                    ),
                    (
                        "expires_at__range",
                        (
                            datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            datetime.datetime(2200, 1, 1, 0, 0, tzinfo=datetime.UTC),
                        ),
                    ),
                    (
                        "due_at__range",
                        (
                            datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.UTC),
                            datetime.datetime(2200, 1, 1, 0, 0, tzinfo=datetime.UTC),
                        ),
                    ),
                ),
                name="checkpoint_times_bounded",
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("reason", ""), _negated=True), name="checkpoint_reason_named"
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.CheckConstraint(
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
                        django.db.models.functions.text.Length("reason"), 64
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("question"), 4096
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("artifact_digest"), 80
                    ),
                ),
                name="checkpoint_texts_short",
            ),
        ),
        migrations.AddIndex(
            model_name="checkpointnote",
            index=models.Index(fields=["checkpoint", "at"], name="checkpoint_note_of"),
        ),
        migrations.AddConstraint(
            model_name="checkpointnote",
            constraint=models.CheckConstraint(
                condition=models.Q(("text", ""), _negated=True), name="checkpoint_note_written"
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpointnote",
            constraint=models.CheckConstraint(
                condition=django.db.models.lookups.LessThanOrEqual(
                    django.db.models.functions.text.Length("text"), 4096
                ),
                name="checkpoint_note_short",
            ),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["checkpoint", "at"], name="decision_of"),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["tenant", "-at"], name="decision_newest"),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(
                condition=models.Q(("consumed_at", None), ("undone_at", None)),
                fields=["expires_at"],
                name="decision_unconsumed",
            ),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(
                condition=models.Q(("attempt_id", None), _negated=True),
                fields=["tenant", "attempt_id"],
                name="decision_attempt",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(
                condition=models.Q(("undone_at", None)), fields=("checkpoint",), name="decision_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(("action__in", ["resume", "answer", "force_answer", "stop", "approve"])),
                name="decision_action_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("by_system", False),
                    models.Q(("action__in", ["stop", "force_answer"]), ("by", None)),
                    _connector="OR",
                ),
                name="decision_system_never_resumes",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("undone_at", None),
                    models.Q(("consumed_at", None), ("delivered_at", None)),
                    _connector="OR",
                ),
                name="decision_undone_undelivered",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("attempt", None), ("attempt_id", None), ("consumed_at", None)),
                    models.Q(
                        models.Q(("consumed_at", None), _negated=True),
                        models.Q(("attempt_id", None), _negated=True),
                        models.Q(("attempt", None), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="decision_granted_to_one",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("reason"), 4096
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("answer"), 4096
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("tool"), 128
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("args_hash"), 80
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("artifact_digest"), 80
                    ),
                ),
                name="decision_texts_short",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_decisionevent" ("action", "answer", "args_hash", "artifact_digest", "at", "attempt", "attempt_id", "by_id", "by_system", "change", "checkpoint_id", "consumed_at", "deliver_at", "expires_at", "id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "reconciled", "tenant_id", "tool", "undone_at", "undone_by_id", "version") VALUES (NEW."action", NEW."answer", NEW."args_hash", NEW."artifact_digest", NEW."at", NEW."attempt", NEW."attempt_id", NEW."by_id", NEW."by_system", NEW."change", NEW."checkpoint_id", NEW."consumed_at", NEW."deliver_at", NEW."expires_at", NEW."id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."reason", NEW."reconciled", NEW."tenant_id", NEW."tool", NEW."undone_at", NEW."undone_by_id", NEW."version"); RETURN NULL;',
                    hash="9654ce978dae535dfaf6704d407872c254995c7b",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_86daa",
                    table="decision",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."action" IS DISTINCT FROM (NEW."action") OR OLD."answer" IS DISTINCT FROM (NEW."answer") OR OLD."args_hash" IS DISTINCT FROM (NEW."args_hash") OR OLD."artifact_digest" IS DISTINCT FROM (NEW."artifact_digest") OR OLD."at" IS DISTINCT FROM (NEW."at") OR OLD."attempt" IS DISTINCT FROM (NEW."attempt") OR OLD."attempt_id" IS DISTINCT FROM (NEW."attempt_id") OR OLD."by_id" IS DISTINCT FROM (NEW."by_id") OR OLD."by_system" IS DISTINCT FROM (NEW."by_system") OR OLD."change" IS DISTINCT FROM (NEW."change") OR OLD."checkpoint_id" IS DISTINCT FROM (NEW."checkpoint_id") OR OLD."consumed_at" IS DISTINCT FROM (NEW."consumed_at") OR OLD."deliver_at" IS DISTINCT FROM (NEW."deliver_at") OR OLD."expires_at" IS DISTINCT FROM (NEW."expires_at") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."reason" IS DISTINCT FROM (NEW."reason") OR OLD."reconciled" IS DISTINCT FROM (NEW."reconciled") OR OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."tool" IS DISTINCT FROM (NEW."tool") OR OLD."undone_at" IS DISTINCT FROM (NEW."undone_at") OR OLD."undone_by_id" IS DISTINCT FROM (NEW."undone_by_id") OR OLD."version" IS DISTINCT FROM (NEW."version"))',
                    func='INSERT INTO "runs_decisionevent" ("action", "answer", "args_hash", "artifact_digest", "at", "attempt", "attempt_id", "by_id", "by_system", "change", "checkpoint_id", "consumed_at", "deliver_at", "expires_at", "id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "reconciled", "tenant_id", "tool", "undone_at", "undone_by_id", "version") VALUES (NEW."action", NEW."answer", NEW."args_hash", NEW."artifact_digest", NEW."at", NEW."attempt", NEW."attempt_id", NEW."by_id", NEW."by_system", NEW."change", NEW."checkpoint_id", NEW."consumed_at", NEW."deliver_at", NEW."expires_at", NEW."id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."reason", NEW."reconciled", NEW."tenant_id", NEW."tool", NEW."undone_at", NEW."undone_by_id", NEW."version"); RETURN NULL;',
                    hash="0b48a1d417350517545192343709ee6e29d2e78a",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_dface",
                    table="decision",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decision",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_decisionevent" ("action", "answer", "args_hash", "artifact_digest", "at", "attempt", "attempt_id", "by_id", "by_system", "change", "checkpoint_id", "consumed_at", "deliver_at", "expires_at", "id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "reconciled", "tenant_id", "tool", "undone_at", "undone_by_id", "version") VALUES (OLD."action", OLD."answer", OLD."args_hash", OLD."artifact_digest", OLD."at", OLD."attempt", OLD."attempt_id", OLD."by_id", OLD."by_system", OLD."change", OLD."checkpoint_id", OLD."consumed_at", OLD."deliver_at", OLD."expires_at", OLD."id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."reason", OLD."reconciled", OLD."tenant_id", OLD."tool", OLD."undone_at", OLD."undone_by_id", OLD."version"); RETURN NULL;',
                    hash="492e193722bd8c1daddc1dd09ca0d41f3446787a",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_21f11",
                    table="decision",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="decisionevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="decision_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="decisionevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="decision_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="decisionevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="decision_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="decisionevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="decision_trail_before",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decisionevent",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail % is never emptied.', TG_TABLE_NAME;",
                    hash="5a9f16a7c68adbf56e59f8dfca40daa9ae86438a",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_35afa",
                    table="runs_decisionevent",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="decisionevent",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                    hash="5f41d6058733842472463e1b5bb8ce6e3b64da65",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_103d3",
                    table="runs_decisionevent",
                    when="BEFORE",
                ),
            ),
        ),
        # The sample of stops that is reviewed, and how many stops there are of each reason and job type: in an
        # order that no sender chooses, and without reading runs.
        migrations.RunSQL(
            "CREATE INDEX run_stops ON run (tenant_id, uuid_hash_extended(run_id, 7))"
            " INCLUDE (at, run_id, job_type, halt_reason, would_halt)"
            " WHERE halt_reason <> '' OR would_halt <> ''",
            "DROP INDEX run_stops",
        ),
        migrations.AddField(
            model_name="rollup",
            name="tool_calls",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.RunSQL(COUNT_TOOL_CALLS, migrations.RunSQL.noop),
    ]
