"""Incidents with their log, rules as people set them, silences, and how far rules are judged."""

import uuid

import django.db.models.deletion
import django.db.models.fields.json
import django.db.models.functions.text
import django.db.models.lookups
import pghistory.utils
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0009_loop_minutes"),
        ("tenants", "0006_trail_actions"),
        ("tenants", "__first__"),
    ]

    operations = [
        migrations.CreateModel(
            name="Evaluation",
            fields=[
                (
                    "rule",
                    models.CharField(
                        choices=[
                            ("loop_rate", "Loop rate spike"),
                            ("release", "Release that loops more"),
                            ("steps", "Steps creeping up"),
                            ("cost", "Cost per completed task"),
                            ("forced", "Forced answers"),
                            ("source", "Source in halted runs of several tenants"),
                            ("review_sla", "Review late"),
                            ("unconsumed", "Decision not taken up"),
                            ("pressure", "Live runs near a limit"),
                            ("never_ended", "Runs that never ended"),
                            ("precision", "Guard precision falling"),
                            ("ingest_silent", "Nothing arrives"),
                            ("fold_lag", "Counting is behind"),
                            ("outbox_stuck", "Notifications stuck"),
                            ("disk", "Disk filling up"),
                        ],
                        max_length=24,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("window", models.DateTimeField(null=True)),
                ("at", models.DateTimeField()),
                ("since", models.DateTimeField()),
                ("error", models.TextField(blank=True, db_collation="C", default="")),
            ],
            options={
                "db_table": "alert_evaluation",
            },
        ),
        migrations.CreateModel(
            name="Incident",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "rule",
                    models.CharField(
                        choices=[
                            ("loop_rate", "Loop rate spike"),
                            ("release", "Release that loops more"),
                            ("steps", "Steps creeping up"),
                            ("cost", "Cost per completed task"),
                            ("forced", "Forced answers"),
                            ("source", "Source in halted runs of several tenants"),
                            ("review_sla", "Review late"),
                            ("unconsumed", "Decision not taken up"),
                            ("pressure", "Live runs near a limit"),
                            ("never_ended", "Runs that never ended"),
                            ("precision", "Guard precision falling"),
                            ("ingest_silent", "Nothing arrives"),
                            ("fold_lag", "Counting is behind"),
                            ("outbox_stuck", "Notifications stuck"),
                            ("disk", "Disk filling up"),
                        ],
                        max_length=24,
                    ),
                ),
                ("subject", models.TextField(blank=True, db_collation="C", default="")),
                ("job_type", models.TextField(blank=True, db_collation="C", default="")),
                ("release", models.TextField(blank=True, db_collation="C", default="")),
                ("title", models.TextField()),
                (
                    "severity",
                    models.CharField(
                        choices=[("info", "Info"), ("warning", "Warning"), ("critical", "Critical")],
                        max_length=16,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("acknowledged", "Acknowledged"),
                            ("resolved", "Resolved"),
                        ],
                        default="open",
                        max_length=16,
                    ),
                ),
                ("version", models.IntegerField(default=1)),
                ("opened_at", models.DateTimeField()),
                ("last_at", models.DateTimeField()),
                ("window", models.DateTimeField(null=True)),
                ("clear", models.SmallIntegerField(default=0)),
                ("acknowledged_at", models.DateTimeField(null=True)),
                ("resolved_at", models.DateTimeField(null=True)),
                ("resolved_how", models.TextField(blank=True, db_collation="C", default="")),
                ("reopened", models.IntegerField(default=0)),
                ("evidence", models.JSONField(default=dict)),
                ("query", models.JSONField(default=dict)),
                (
                    "acknowledged_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "assigned_to",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "resolved_by",
                    models.ForeignKey(
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
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "incident",
            },
        ),
        migrations.CreateModel(
            name="IncidentStep",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "transition",
                    models.CharField(
                        choices=[
                            ("opened", "opened"),
                            ("reopened", "reopened"),
                            ("unsilenced", "still there as its silence ended"),
                            ("worse", "became more severe"),
                            ("acknowledged", "acknowledged"),
                            ("assigned", "assigned"),
                            ("noted", "noted"),
                            ("resolved", "resolved"),
                        ],
                        max_length=16,
                    ),
                ),
                ("version", models.IntegerField()),
                ("at", models.DateTimeField()),
                ("note", models.TextField(blank=True, db_collation="C", default="")),
                ("silenced", models.BooleanField(default=False)),
                (
                    "by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "incident",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="steps",
                        to="runs.incident",
                    ),
                ),
                (
                    "to",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "db_table": "incident_step",
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="Rule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "rule",
                    models.CharField(
                        choices=[
                            ("loop_rate", "Loop rate spike"),
                            ("release", "Release that loops more"),
                            ("steps", "Steps creeping up"),
                            ("cost", "Cost per completed task"),
                            ("forced", "Forced answers"),
                            ("source", "Source in halted runs of several tenants"),
                            ("review_sla", "Review late"),
                            ("unconsumed", "Decision not taken up"),
                            ("pressure", "Live runs near a limit"),
                            ("never_ended", "Runs that never ended"),
                            ("precision", "Guard precision falling"),
                            ("ingest_silent", "Nothing arrives"),
                            ("fold_lag", "Counting is behind"),
                            ("outbox_stuck", "Notifications stuck"),
                            ("disk", "Disk filling up"),
                        ],
                        max_length=24,
                    ),
                ),
                ("job_type", models.TextField(blank=True, db_collation="C", default="")),
                ("enabled", models.BooleanField(default=True)),
                (
                    "severity",
                    models.CharField(
                        choices=[("info", "Info"), ("warning", "Warning"), ("critical", "Critical")],
                        max_length=16,
                    ),
                ),
                ("parameters", models.JSONField(default=dict)),
                ("version", models.IntegerField(default=1)),
                ("at", models.DateTimeField()),
                (
                    "by",
                    models.ForeignKey(
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
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "alert_rule",
            },
        ),
        migrations.CreateModel(
            name="RuleEvent",
            fields=[
                ("pgh_id", models.AutoField(primary_key=True, serialize=False)),
                ("pgh_created_at", models.DateTimeField(auto_now_add=True)),
                ("pgh_label", models.TextField(help_text="The event label.")),
                ("pgh_context", pghistory.utils.JSONField(null=True)),
                ("pgh_context_id", models.UUIDField(null=True)),
                ("id", models.BigIntegerField()),
                (
                    "rule",
                    models.CharField(
                        choices=[
                            ("loop_rate", "Loop rate spike"),
                            ("release", "Release that loops more"),
                            ("steps", "Steps creeping up"),
                            ("cost", "Cost per completed task"),
                            ("forced", "Forced answers"),
                            ("source", "Source in halted runs of several tenants"),
                            ("review_sla", "Review late"),
                            ("unconsumed", "Decision not taken up"),
                            ("pressure", "Live runs near a limit"),
                            ("never_ended", "Runs that never ended"),
                            ("precision", "Guard precision falling"),
                            ("ingest_silent", "Nothing arrives"),
                            ("fold_lag", "Counting is behind"),
                            ("outbox_stuck", "Notifications stuck"),
                            ("disk", "Disk filling up"),
                        ],
                        max_length=24,
                    ),
                ),
                ("job_type", models.TextField(blank=True, db_collation="C", default="")),
                ("enabled", models.BooleanField(default=True)),
                (
                    "severity",
                    models.CharField(
                        choices=[("info", "Info"), ("warning", "Warning"), ("critical", "Critical")],
                        max_length=16,
                    ),
                ),
                ("parameters", models.JSONField(default=dict)),
                ("version", models.IntegerField(default=1)),
                ("at", models.DateTimeField()),
                (
                    "by",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "pgh_obj",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="events",
                        to="runs.rule",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Silence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "rule",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("loop_rate", "Loop rate spike"),
                            ("release", "Release that loops more"),
                            ("steps", "Steps creeping up"),
                            ("cost", "Cost per completed task"),
                            ("forced", "Forced answers"),
                            ("source", "Source in halted runs of several tenants"),
                            ("review_sla", "Review late"),
                            ("unconsumed", "Decision not taken up"),
                            ("pressure", "Live runs near a limit"),
                            ("never_ended", "Runs that never ended"),
                            ("precision", "Guard precision falling"),
                            ("ingest_silent", "Nothing arrives"),
                            ("fold_lag", "Counting is behind"),
                            ("outbox_stuck", "Notifications stuck"),
                            ("disk", "Disk filling up"),
                        ],
                        default="",
                        max_length=24,
                    ),
                ),
                ("subject", models.TextField(blank=True, db_collation="C", default="")),
                ("reason", models.TextField()),
                ("until", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("settled_at", models.DateTimeField(null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "ended_by",
                    models.ForeignKey(
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
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "silence",
            },
        ),
        migrations.CreateModel(
            name="SilenceEvent",
            fields=[
                ("pgh_id", models.AutoField(primary_key=True, serialize=False)),
                ("pgh_created_at", models.DateTimeField(auto_now_add=True)),
                ("pgh_label", models.TextField(help_text="The event label.")),
                ("pgh_context", pghistory.utils.JSONField(null=True)),
                ("pgh_context_id", models.UUIDField(null=True)),
                ("id", models.BigIntegerField()),
                (
                    "rule",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("loop_rate", "Loop rate spike"),
                            ("release", "Release that loops more"),
                            ("steps", "Steps creeping up"),
                            ("cost", "Cost per completed task"),
                            ("forced", "Forced answers"),
                            ("source", "Source in halted runs of several tenants"),
                            ("review_sla", "Review late"),
                            ("unconsumed", "Decision not taken up"),
                            ("pressure", "Live runs near a limit"),
                            ("never_ended", "Runs that never ended"),
                            ("precision", "Guard precision falling"),
                            ("ingest_silent", "Nothing arrives"),
                            ("fold_lag", "Counting is behind"),
                            ("outbox_stuck", "Notifications stuck"),
                            ("disk", "Disk filling up"),
                        ],
                        default="",
                        max_length=24,
                    ),
                ),
                ("subject", models.TextField(blank=True, db_collation="C", default="")),
                ("reason", models.TextField()),
                ("until", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "ended_by",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "pgh_obj",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="events",
                        to="runs.silence",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.AddIndex(
            model_name="incident",
            index=models.Index(fields=["tenant", "-opened_at", "-id"], name="incident_newest"),
        ),
        migrations.AddIndex(
            model_name="incident",
            index=models.Index(fields=["rule", "tenant", "subject", "-opened_at"], name="incident_last"),
        ),
        migrations.AddConstraint(
            model_name="incident",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "resolved"), _negated=True),
                fields=("rule", "tenant", "subject"),
                name="incident_one_open",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="incident",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("resolved_at__isnull", False), ("state", "resolved")),
                    models.Q(models.Q(("state", "resolved"), _negated=True), ("resolved_at", None)),
                    _connector="OR",
                ),
                name="incident_resolved_when",
            ),
        ),
        migrations.AddConstraint(
            model_name="incident",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "rule__in",
                        [
                            "loop_rate",
                            "release",
                            "steps",
                            "cost",
                            "forced",
                            "source",
                            "review_sla",
                            "unconsumed",
                            "pressure",
                            "never_ended",
                            "precision",
                            "ingest_silent",
                            "fold_lag",
                            "outbox_stuck",
                            "disk",
                        ],
                    ),
                    ("state__in", ["open", "acknowledged", "resolved"]),
                    ("severity__in", ["info", "warning", "critical"]),
                ),
                name="incident_words_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="incident",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("subject"), 300
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("job_type"), 128
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("release"), 257
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("title"), 500
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("resolved_how"), 300
                    ),
                ),
                name="incident_texts_short",
            ),
        ),
        migrations.AddIndex(
            model_name="incidentstep",
            index=models.Index(fields=["incident", "id"], name="incident_step_log"),
        ),
        migrations.AddConstraint(
            model_name="incidentstep",
            constraint=models.UniqueConstraint(
                condition=models.Q(("transition", "noted"), _negated=True),
                fields=("incident", "version"),
                name="incident_step_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="incidentstep",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "transition__in",
                        [
                            "opened",
                            "reopened",
                            "unsilenced",
                            "worse",
                            "acknowledged",
                            "assigned",
                            "noted",
                            "resolved",
                        ],
                    )
                ),
                name="incident_step_transition_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="incidentstep",
            constraint=models.CheckConstraint(
                condition=django.db.models.lookups.LessThanOrEqual(
                    django.db.models.functions.text.Length("note"), 2000
                ),
                name="incident_step_note_short",
            ),
        ),
        migrations.AddConstraint(
            model_name="rule",
            constraint=models.UniqueConstraint(
                fields=("tenant", "rule", "job_type"), name="alert_rule_once", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="rule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "rule__in",
                        [
                            "loop_rate",
                            "release",
                            "steps",
                            "cost",
                            "forced",
                            "source",
                            "review_sla",
                            "unconsumed",
                            "pressure",
                            "never_ended",
                            "precision",
                            "ingest_silent",
                            "fold_lag",
                            "outbox_stuck",
                            "disk",
                        ],
                    ),
                    ("severity__in", ["info", "warning", "critical"]),
                ),
                name="alert_rule_words_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="rule",
            constraint=models.CheckConstraint(
                condition=django.db.models.lookups.LessThanOrEqual(
                    django.db.models.functions.text.Length("job_type"), 128
                ),
                name="alert_rule_texts_short",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="rule",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_ruleevent" ("at", "by_id", "enabled", "id", "job_type", "parameters", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "rule", "severity", "tenant_id", "version") VALUES (NEW."at", NEW."by_id", NEW."enabled", NEW."id", NEW."job_type", NEW."parameters", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."rule", NEW."severity", NEW."tenant_id", NEW."version"); RETURN NULL;',
                    hash="d31d025dc7993c20fedba7910778ee5471c06a36",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_9fdfb",
                    table="alert_rule",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="rule",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.* IS DISTINCT FROM NEW.*)",
                    func='INSERT INTO "runs_ruleevent" ("at", "by_id", "enabled", "id", "job_type", "parameters", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "rule", "severity", "tenant_id", "version") VALUES (NEW."at", NEW."by_id", NEW."enabled", NEW."id", NEW."job_type", NEW."parameters", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."rule", NEW."severity", NEW."tenant_id", NEW."version"); RETURN NULL;',
                    hash="1e8605b852384c6771efab112cd1361a8e72f959",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_c3af1",
                    table="alert_rule",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="rule",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_ruleevent" ("at", "by_id", "enabled", "id", "job_type", "parameters", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "rule", "severity", "tenant_id", "version") VALUES (OLD."at", OLD."by_id", OLD."enabled", OLD."id", OLD."job_type", OLD."parameters", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."rule", OLD."severity", OLD."tenant_id", OLD."version"); RETURN NULL;',
                    hash="eb190f32ba5efc4ae93ca01892d4503767d5a09c",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_afbe0",
                    table="alert_rule",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="ruleevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="rule_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="ruleevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="rule_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="ruleevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="rule_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="ruleevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="rule_trail_before",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="ruleevent",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail % is never emptied.', TG_TABLE_NAME;",
                    hash="acf59cc93a20bca7bc130f829df00bcdf489a2f8",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_49922",
                    table="runs_ruleevent",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="ruleevent",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                    hash="430dbb0eb0cf9caf28e09052a983fb19cd97020d",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_063f9",
                    table="runs_ruleevent",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="silence",
            index=models.Index(
                condition=models.Q(("settled_at", None)), fields=["tenant", "until"], name="silence_unsettled"
            ),
        ),
        migrations.AddIndex(
            model_name="silence",
            index=models.Index(fields=["tenant", "-created_at"], name="silence_newest"),
        ),
        migrations.AddConstraint(
            model_name="silence",
            constraint=models.CheckConstraint(
                condition=models.Q(("until__gt", models.F("created_at"))), name="silence_ends_later"
            ),
        ),
        migrations.AddConstraint(
            model_name="silence",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("rule", ""),
                    (
                        "rule__in",
                        [
                            "loop_rate",
                            "release",
                            "steps",
                            "cost",
                            "forced",
                            "source",
                            "review_sla",
                            "unconsumed",
                            "pressure",
                            "never_ended",
                            "precision",
                            "ingest_silent",
                            "fold_lag",
                            "outbox_stuck",
                            "disk",
                        ],
                    ),
                    _connector="OR",
                ),
                name="silence_rule_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="silence",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("subject"), 300
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("reason"), 300
                    ),
                    models.Q(("reason", ""), _negated=True),
                ),
                name="silence_texts_short",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="silence",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_silenceevent" ("created_at", "created_by_id", "ended_at", "ended_by_id", "id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "rule", "subject", "tenant_id", "until") VALUES (NEW."created_at", NEW."created_by_id", NEW."ended_at", NEW."ended_by_id", NEW."id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."reason", NEW."rule", NEW."subject", NEW."tenant_id", NEW."until"); RETURN NULL;',
                    hash="e5c2abcd5c1810e00ae33156118bb89243bbf4d2",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_31d9a",
                    table="silence",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="silence",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."created_by_id" IS DISTINCT FROM (NEW."created_by_id") OR OLD."ended_at" IS DISTINCT FROM (NEW."ended_at") OR OLD."ended_by_id" IS DISTINCT FROM (NEW."ended_by_id") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."reason" IS DISTINCT FROM (NEW."reason") OR OLD."rule" IS DISTINCT FROM (NEW."rule") OR OLD."subject" IS DISTINCT FROM (NEW."subject") OR OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."until" IS DISTINCT FROM (NEW."until"))',
                    func='INSERT INTO "runs_silenceevent" ("created_at", "created_by_id", "ended_at", "ended_by_id", "id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "rule", "subject", "tenant_id", "until") VALUES (NEW."created_at", NEW."created_by_id", NEW."ended_at", NEW."ended_by_id", NEW."id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."reason", NEW."rule", NEW."subject", NEW."tenant_id", NEW."until"); RETURN NULL;',
                    hash="1369ceed2acba674420d443e7892eb07846ff82c",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_f745c",
                    table="silence",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="silence",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_silenceevent" ("created_at", "created_by_id", "ended_at", "ended_by_id", "id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "reason", "rule", "subject", "tenant_id", "until") VALUES (OLD."created_at", OLD."created_by_id", OLD."ended_at", OLD."ended_by_id", OLD."id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."reason", OLD."rule", OLD."subject", OLD."tenant_id", OLD."until"); RETURN NULL;',
                    hash="e6837bd328bb6c9677caeb0b7afc8116a09debc0",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_5a830",
                    table="silence",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="silenceevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="silence_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="silenceevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="silence_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="silenceevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="silence_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="silenceevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="silence_trail_before",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="silenceevent",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail % is never emptied.', TG_TABLE_NAME;",
                    hash="c026738d0be67d6803ec895a26d7ad315b7a2c51",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_a8912",
                    table="runs_silenceevent",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="silenceevent",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                    hash="d8ea4bd7937c98b8d97402cdca7a7500fb06854b",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_4d892",
                    table="runs_silenceevent",
                    when="BEFORE",
                ),
            ),
        ),
    ]
