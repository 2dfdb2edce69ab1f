import django.contrib.postgres.indexes
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
        ("runs", "0010_incidents"),
        ("tenants", "0006_trail_actions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Channel",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.TextField(db_collation="C")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("mail", "E-mail"),
                            ("webhook", "Signed webhook"),
                            ("pagerduty", "PagerDuty"),
                            ("alertmanager", "Alertmanager webhook"),
                            ("apprise", "Chat or push service"),
                        ],
                        max_length=16,
                    ),
                ),
                ("destination", models.TextField(blank=True, db_collation="C", default="")),
                ("secret", models.BinaryField(max_length=16384)),
                ("incidents", models.BooleanField(default=True)),
                (
                    "severity",
                    models.CharField(
                        choices=[("info", "Info"), ("warning", "Warning"), ("critical", "Critical")],
                        default="warning",
                        max_length=16,
                    ),
                ),
                ("endings", models.BooleanField(default=True)),
                ("decisions", models.BooleanField(default=False)),
                ("group_s", models.SmallIntegerField(default=20)),
                ("repeat_h", models.SmallIntegerField(default=4)),
                ("enabled", models.BooleanField(default=True)),
                ("version", models.IntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("removed_at", models.DateTimeField(null=True)),
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
                    "organisation",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.organisation",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "db_table": "channel",
            },
        ),
        migrations.CreateModel(
            name="ChannelEvent",
            fields=[
                ("pgh_id", models.AutoField(primary_key=True, serialize=False)),
                ("pgh_created_at", models.DateTimeField(auto_now_add=True)),
                ("pgh_label", models.TextField(help_text="The event label.")),
                ("pgh_context", pghistory.utils.JSONField(null=True)),
                ("pgh_context_id", models.UUIDField(null=True)),
                ("id", models.BigIntegerField()),
                ("name", models.TextField(db_collation="C")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("mail", "E-mail"),
                            ("webhook", "Signed webhook"),
                            ("pagerduty", "PagerDuty"),
                            ("alertmanager", "Alertmanager webhook"),
                            ("apprise", "Chat or push service"),
                        ],
                        max_length=16,
                    ),
                ),
                ("destination", models.TextField(blank=True, db_collation="C", default="")),
                ("incidents", models.BooleanField(default=True)),
                (
                    "severity",
                    models.CharField(
                        choices=[("info", "Info"), ("warning", "Warning"), ("critical", "Critical")],
                        default="warning",
                        max_length=16,
                    ),
                ),
                ("endings", models.BooleanField(default=True)),
                ("decisions", models.BooleanField(default=False)),
                ("group_s", models.SmallIntegerField(default=20)),
                ("repeat_h", models.SmallIntegerField(default=4)),
                ("enabled", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField()),
                ("removed_at", models.DateTimeField(null=True)),
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
                    "organisation",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        related_query_name="+",
                        to="tenants.organisation",
                    ),
                ),
                (
                    "pgh_obj",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="events",
                        to="runs.channel",
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
            name="Notification",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("incident", "Incident"), ("decision", "Decision"), ("test", "Test")],
                        max_length=16,
                    ),
                ),
                ("subject", models.UUIDField()),
                ("transition", models.TextField(db_collation="C")),
                ("version", models.IntegerField(default=1)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("sent", "Sent"),
                            ("dropped", "No longer needed"),
                            ("given_up", "Given up"),
                        ],
                        default="waiting",
                        max_length=16,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("message", models.UUIDField(null=True)),
                ("attempts", models.SmallIntegerField(default=0)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("said", models.TextField(blank=True, db_collation="C", default="")),
                ("outcome", models.TextField(blank=True, db_collation="C", default="")),
                (
                    "channel",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notifications",
                        to="runs.channel",
                    ),
                ),
            ],
            options={
                "db_table": "notification",
            },
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(("tenant", None), ("organisation__isnull", False), _connector="OR"),
                name="channel_tenant_of",
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ["mail", "webhook", "pagerduty", "alertmanager", "apprise"]),
                    ("severity__in", ["info", "warning", "critical"]),
                ),
                name="channel_words_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(("decisions", False), ("kind", "webhook"), _connector="OR"),
                name="channel_decisions_signed",
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(("group_s__range", (0, 900)), ("repeat_h__range", (0, 168))),
                name="channel_times_bounded",
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("removed_at__isnull", False),
                    django.db.models.lookups.GreaterThan(
                        models.Func(
                            models.F("secret"), function="octet_length", output_field=models.IntegerField()
                        ),
                        0,
                    ),
                    _connector="OR",
                ),
                name="channel_has_address",
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(("name", ""), _negated=True), name="channel_named"
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("name"), 128
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("destination"), 300
                    ),
                ),
                name="channel_texts_short",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="channel",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_channelevent" ("created_at", "created_by_id", "decisions", "destination", "enabled", "endings", "group_s", "id", "incidents", "kind", "name", "organisation_id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "removed_at", "repeat_h", "severity", "tenant_id") VALUES (NEW."created_at", NEW."created_by_id", NEW."decisions", NEW."destination", NEW."enabled", NEW."endings", NEW."group_s", NEW."id", NEW."incidents", NEW."kind", NEW."name", NEW."organisation_id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."removed_at", NEW."repeat_h", NEW."severity", NEW."tenant_id"); RETURN NULL;',
                    hash="1438079272c3f52cfc3f9409e86b7d8d5fde9c91",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_efc8e",
                    table="channel",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="channel",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."created_by_id" IS DISTINCT FROM (NEW."created_by_id") OR OLD."decisions" IS DISTINCT FROM (NEW."decisions") OR OLD."destination" IS DISTINCT FROM (NEW."destination") OR OLD."enabled" IS DISTINCT FROM (NEW."enabled") OR OLD."endings" IS DISTINCT FROM (NEW."endings") OR OLD."group_s" IS DISTINCT FROM (NEW."group_s") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."incidents" IS DISTINCT FROM (NEW."incidents") OR OLD."kind" IS DISTINCT FROM (NEW."kind") OR OLD."name" IS DISTINCT FROM (NEW."name") OR OLD."organisation_id" IS DISTINCT FROM (NEW."organisation_id") OR OLD."removed_at" IS DISTINCT FROM (NEW."removed_at") OR OLD."repeat_h" IS DISTINCT FROM (NEW."repeat_h") OR OLD."severity" IS DISTINCT FROM (NEW."severity") OR OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id"))',
                    func='INSERT INTO "runs_channelevent" ("created_at", "created_by_id", "decisions", "destination", "enabled", "endings", "group_s", "id", "incidents", "kind", "name", "organisation_id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "removed_at", "repeat_h", "severity", "tenant_id") VALUES (NEW."created_at", NEW."created_by_id", NEW."decisions", NEW."destination", NEW."enabled", NEW."endings", NEW."group_s", NEW."id", NEW."incidents", NEW."kind", NEW."name", NEW."organisation_id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."removed_at", NEW."repeat_h", NEW."severity", NEW."tenant_id"); RETURN NULL;',
                    hash="46f3a7fd3bfcc64dfa81c24d3aad15e53413637f",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_42a12",
                    table="channel",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="channel",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "runs_channelevent" ("created_at", "created_by_id", "decisions", "destination", "enabled", "endings", "group_s", "id", "incidents", "kind", "name", "organisation_id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "removed_at", "repeat_h", "severity", "tenant_id") VALUES (OLD."created_at", OLD."created_by_id", OLD."decisions", OLD."destination", OLD."enabled", OLD."endings", OLD."group_s", OLD."id", OLD."incidents", OLD."kind", OLD."name", OLD."organisation_id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."removed_at", OLD."repeat_h", OLD."severity", OLD."tenant_id"); RETURN NULL;',
                    hash="209b447d52d157db2c8de75a802305ece1c44426",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_04f09",
                    table="channel",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="channel",
            trigger=pgtrigger.compiler.Trigger(
                name="secret_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."secret" IS DISTINCT FROM (NEW."secret"))',
                    func='INSERT INTO "runs_channelevent" ("created_at", "created_by_id", "decisions", "destination", "enabled", "endings", "group_s", "id", "incidents", "kind", "name", "organisation_id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "removed_at", "repeat_h", "severity", "tenant_id") VALUES (NEW."created_at", NEW."created_by_id", NEW."decisions", NEW."destination", NEW."enabled", NEW."endings", NEW."group_s", NEW."id", NEW."incidents", NEW."kind", NEW."name", NEW."organisation_id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'secret\', NEW."id", NEW."removed_at", NEW."repeat_h", NEW."severity", NEW."tenant_id"); RETURN NULL;',
                    hash="dae932821cda5473a9c3932002252f54164d992d",
                    operation="UPDATE",
                    pgid="pgtrigger_secret_update_159ea",
                    table="channel",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="channelevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="channel_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="channelevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="channel_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="channelevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="channel_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="channelevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="channel_trail_before",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="channelevent",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail % is never emptied.', TG_TABLE_NAME;",
                    hash="f9f7d505a2b4cabdbfdbed072e85764bd3dfe752",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_47e5c",
                    table="runs_channelevent",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="channelevent",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                    hash="e810b652e7e240296352f40fa870d22fd1512245",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_8bed3",
                    table="runs_channelevent",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(
                condition=models.Q(("state", "waiting")), fields=["due_at", "id"], name="notification_due"
            ),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(fields=["channel", "-id"], name="notification_log"),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=django.contrib.postgres.indexes.BrinIndex(fields=["created_at"], name="notification_age"),
        ),
        migrations.AddConstraint(
            model_name="notification",
            constraint=models.UniqueConstraint(
                fields=("channel", "kind", "subject", "transition", "version"), name="notification_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="notification",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ["incident", "decision", "test"]),
                    ("state__in", ["waiting", "sent", "dropped", "given_up"]),
                ),
                name="notification_words_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="notification",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at", None), ("state", "waiting")),
                    models.Q(
                        models.Q(("state", "waiting"), _negated=True),
                        ("claimed_until", None),
                        ("ended_at__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="notification_ends_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="notification",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("transition"), 32
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("said"), 500
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.functions.text.Length("outcome"), 500
                    ),
                ),
                name="notification_texts_short",
            ),
        ),
    ]
