"""What reviewers think of stops, with its trail."""

import django.db.models.deletion
import django.db.models.functions.text
import django.db.models.lookups
import pghistory.utils
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0002_rollups"),
        ("tenants", "0002_one_organisation"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="StopReview",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("run_id", models.UUIDField()),
                (
                    "verdict",
                    models.CharField(
                        choices=[("false_stop", "False stop"), ("right_stop", "Right stop")], max_length=16
                    ),
                ),
                ("detector", models.TextField(db_collation="C")),
                ("note", models.TextField(blank=True, db_collation="C", default="")),
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
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "stop_review",
            },
        ),
        migrations.CreateModel(
            name="StopReviewEvent",
            fields=[
                ("pgh_id", models.AutoField(primary_key=True, serialize=False)),
                ("pgh_created_at", models.DateTimeField(auto_now_add=True)),
                ("pgh_label", models.TextField(help_text="The event label.")),
                ("pgh_context", pghistory.utils.JSONField(null=True)),
                ("pgh_context_id", models.UUIDField(null=True)),
                ("id", models.BigIntegerField()),
                ("run_id", models.UUIDField()),
                (
                    "verdict",
                    models.CharField(
                        choices=[("false_stop", "False stop"), ("right_stop", "Right stop")], max_length=16
                    ),
                ),
                ("detector", models.TextField(db_collation="C")),
                ("note", models.TextField(blank=True, db_collation="C", default="")),
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
                        to="runs.stopreview",
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
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.AddConstraint(
            model_name="stopreview",
            constraint=models.UniqueConstraint(fields=("tenant", "run_id"), name="stop_review_once"),
        ),
        migrations.AddConstraint(
            model_name="stopreview",
            constraint=models.CheckConstraint(
                condition=models.Q(("verdict__in", ["false_stop", "right_stop"])),
                name="stop_review_verdict_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="stopreview",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.GreaterThan(
                        django.db.models.functions.text.Length("detector"), 0
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("detector"), 64
                    ),
                ),
                name="stop_review_detector_named",
            ),
        ),
        migrations.AddConstraint(
            model_name="stopreview",
            constraint=models.CheckConstraint(
                condition=django.db.models.lookups.LessThanOrEqual(
                    django.db.models.functions.text.Length("note"), 2000
                ),
                name="stop_review_note_short",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="stopreview",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_stopreviewevent" ("at", "by_id", "detector", "id", "note", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "run_id", "tenant_id", "verdict") VALUES (NEW."at", NEW."by_id", NEW."detector", NEW."id", NEW."note", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."run_id", NEW."tenant_id", NEW."verdict"); RETURN NULL;',
                    hash="fd0cfd8c089bb911e9f85d6214a338e95d838fac",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_b529c",
                    table="stop_review",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="stopreview",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.* IS DISTINCT FROM NEW.*)",
                    func='INSERT INTO "runs_stopreviewevent" ("at", "by_id", "detector", "id", "note", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "run_id", "tenant_id", "verdict") VALUES (NEW."at", NEW."by_id", NEW."detector", NEW."id", NEW."note", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."run_id", NEW."tenant_id", NEW."verdict"); RETURN NULL;',
                    hash="e2359db651793ca5edb2e6b6c2021cd59cc53c72",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_9dfa5",
                    table="stop_review",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="stopreview",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_stopreviewevent" ("at", "by_id", "detector", "id", "note", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "run_id", "tenant_id", "verdict") VALUES (OLD."at", OLD."by_id", OLD."detector", OLD."id", OLD."note", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."run_id", OLD."tenant_id", OLD."verdict"); RETURN NULL;',
                    hash="48c88096fe3014ee6f0dd5e67fe29a1873ec0c6e",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_093bf",
                    table="stop_review",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="stopreviewevent",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail % is never emptied.', TG_TABLE_NAME;",
                    hash="d2c176f5bd368bee2ad898d90e90a6a5769a6781",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_e5612",
                    table="runs_stopreviewevent",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="stopreviewevent",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                    hash="5f09eed743c17437b6caa7044b53ce502467055a",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_c2e77",
                    table="runs_stopreviewevent",
                    when="BEFORE",
                ),
            ),
        ),
    ]
