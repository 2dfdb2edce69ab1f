"""What retention has done, from when on runs are there, and how it finds what stands beside old runs."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import pghistory.utils
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0003_stop_reviews"),
        ("tenants", "0002_one_organisation"),
    ]

    operations = [
        migrations.CreateModel(
            name="RetentionRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("progress", models.TextField(blank=True, db_collation="C", default="")),
                (
                    "days",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.DateField(), default=list, size=None
                    ),
                ),
                (
                    "postponed",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.DateField(), default=list, size=None
                    ),
                ),
                ("runs", models.BigIntegerField(default=0)),
                ("beside", models.BigIntegerField(default=0)),
                ("bytes_freed", models.BigIntegerField(default=0)),
                ("finished", models.BooleanField(default=False)),
                ("error", models.TextField(blank=True, db_collation="C", default="")),
            ],
            options={
                "db_table": "retention_run",
                "get_latest_by": "started_at",
            },
        ),
        migrations.CreateModel(
            name="RunHorizon",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kept_from", models.DateTimeField()),
            ],
            options={
                "db_table": "run_horizon",
            },
        ),
        migrations.CreateModel(
            name="RunHorizonEvent",
            fields=[
                ("pgh_id", models.AutoField(primary_key=True, serialize=False)),
                ("pgh_created_at", models.DateTimeField(auto_now_add=True)),
                ("pgh_label", models.TextField(help_text="The event label.")),
                ("pgh_context", pghistory.utils.JSONField(null=True)),
                ("pgh_context_id", models.UUIDField(null=True)),
                ("id", models.BigIntegerField()),
                ("kept_from", models.DateTimeField()),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.AddIndex(
            model_name="externalrun",
            index=django.contrib.postgres.indexes.BrinIndex(models.F("run_id"), name="external_run_brin"),
        ),
        migrations.AddIndex(
            model_name="runsource",
            index=django.contrib.postgres.indexes.BrinIndex(models.F("run_id"), name="run_source_brin"),
        ),
        migrations.AddIndex(
            model_name="taskcompletion",
            index=django.contrib.postgres.indexes.BrinIndex(models.F("run_id"), name="task_completion_brin"),
        ),
        migrations.AddIndex(
            model_name="retentionrun",
            index=models.Index(fields=["-started_at"], name="retention_run_newest"),
        ),
        migrations.AddField(
            model_name="runhorizon",
            name="tenant",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="runhorizonevent",
            name="pgh_obj",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="events",
                to="runs.runhorizon",
            ),
        ),
        migrations.AddField(
            model_name="runhorizonevent",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                related_query_name="+",
                to="tenants.tenant",
            ),
        ),
        migrations.AddConstraint(
            model_name="runhorizon",
            constraint=models.UniqueConstraint(
                fields=("tenant",), name="run_horizon_once", nulls_distinct=False
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="runhorizon",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_runhorizonevent" ("id", "kept_from", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "tenant_id") VALUES (NEW."id", NEW."kept_from", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."tenant_id"); RETURN NULL;',
                    hash="bda50bca4bd7376efda60fe07f5713ab55089b09",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_877ec",
                    table="run_horizon",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="runhorizon",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (OLD.* IS DISTINCT FROM NEW.*)",
                    func='INSERT INTO "runs_runhorizonevent" ("id", "kept_from", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "tenant_id") VALUES (NEW."id", NEW."kept_from", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."tenant_id"); RETURN NULL;',
                    hash="b10fc397707be0143cdffc2b70203d4b016986a5",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_933f3",
                    table="run_horizon",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="runhorizon",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_runhorizonevent" ("id", "kept_from", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "tenant_id") VALUES (OLD."id", OLD."kept_from", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."tenant_id"); RETURN NULL;',
                    hash="c23b4c13598154b3747a2cef5d37f0af7a138751",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_aa905",
                    table="run_horizon",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="runhorizonevent",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail % is never emptied.', TG_TABLE_NAME;",
                    hash="202d183ec1c2ae0c41b010ae523ffc29fa6cdb20",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_26f9b",
                    table="runs_runhorizonevent",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="runhorizonevent",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                    hash="ac51e2e27981790cbacdd668625e2db3795a95bf",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_f253c",
                    table="runs_runhorizonevent",
                    when="BEFORE",
                ),
            ),
        ),
    ]
