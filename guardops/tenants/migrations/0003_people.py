import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.lookups
import pghistory.utils
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0002_one_organisation"),
    ]

    operations = [
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[("viewer", "Viewer"), ("reviewer", "Reviewer"), ("admin", "Admin")],
                        max_length=16,
                    ),
                ),
                ("invitee", models.CharField(max_length=254)),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="InvitationEvent",
            fields=[
                ("pgh_id", models.AutoField(primary_key=True, serialize=False)),
                ("pgh_created_at", models.DateTimeField(auto_now_add=True)),
                ("pgh_label", models.TextField(help_text="The event label.")),
                ("pgh_context", pghistory.utils.JSONField(null=True)),
                ("pgh_context_id", models.UUIDField(null=True)),
                ("id", models.BigIntegerField()),
                (
                    "role",
                    models.CharField(
                        choices=[("viewer", "Viewer"), ("reviewer", "Reviewer"), ("admin", "Admin")],
                        max_length=16,
                    ),
                ),
                ("invitee", models.CharField(max_length=254)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Throttle",
            fields=[
                ("digest", models.BinaryField(max_length=32, primary_key=True, serialize=False)),
                ("level", models.FloatField(default=0)),
                ("tried_at", models.DateTimeField()),
                ("open_at", models.DateTimeField()),
                ("succeeded_at", models.DateTimeField(null=True)),
                ("kept_until", models.DateTimeField()),
            ],
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="organisation",
            name="insert_insert",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="organisation",
            name="update_update",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="organisation",
            name="delete_delete",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="user",
            name="insert_insert",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="user",
            name="update_update",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="user",
            name="delete_delete",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="user",
            name="password_update",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="user",
            name="login_update",
        ),
        migrations.AddField(
            model_name="organisation",
            name="allowed_domains",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=253), blank=True, db_default=[], default=list, size=500
            ),
        ),
        migrations.AddField(
            model_name="organisation",
            name="retention_days",
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="organisation",
            name="version",
            field=models.PositiveIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name="organisationevent",
            name="allowed_domains",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=253), blank=True, db_default=[], default=list, size=500
            ),
        ),
        migrations.AddField(
            model_name="organisationevent",
            name="retention_days",
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="user",
            name="keyboard_shortcuts",
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddField(
            model_name="userevent",
            name="keyboard_shortcuts",
            field=models.BooleanField(db_default=True, default=True),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="organisation",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenants_organisationevent" ("allowed_domains", "created_at", "id", "name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "retention_days", "slug", "time_zone") VALUES (NEW."allowed_domains", NEW."created_at", NEW."id", NEW."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."retention_days", NEW."slug", NEW."time_zone"); RETURN NULL;',
                    hash="8c4316867456aa97e1bbf6120983132d27a9575c",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_af172",
                    table="tenants_organisation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="organisation",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."allowed_domains" IS DISTINCT FROM (NEW."allowed_domains") OR OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."name" IS DISTINCT FROM (NEW."name") OR OLD."retention_days" IS DISTINCT FROM (NEW."retention_days") OR OLD."slug" IS DISTINCT FROM (NEW."slug") OR OLD."time_zone" IS DISTINCT FROM (NEW."time_zone"))',
                    func='INSERT INTO "tenants_organisationevent" ("allowed_domains", "created_at", "id", "name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "retention_days", "slug", "time_zone") VALUES (NEW."allowed_domains", NEW."created_at", NEW."id", NEW."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."retention_days", NEW."slug", NEW."time_zone"); RETURN NULL;',
                    hash="8f03b352d2aadb6d166ad805c8e16a0749038c72",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_80496",
                    table="tenants_organisation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="organisation",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenants_organisationevent" ("allowed_domains", "created_at", "id", "name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "retention_days", "slug", "time_zone") VALUES (OLD."allowed_domains", OLD."created_at", OLD."id", OLD."name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."retention_days", OLD."slug", OLD."time_zone"); RETURN NULL;',
                    hash="cd8bbae8f516991d8f5245e64969b818be83b00e",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_2ac5e",
                    table="tenants_organisation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenants_userevent" ("date_joined", "email", "first_name", "id", "is_active", "is_operator", "is_staff", "is_superuser", "keyboard_shortcuts", "last_name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "username") VALUES (NEW."date_joined", NEW."email", NEW."first_name", NEW."id", NEW."is_active", NEW."is_operator", NEW."is_staff", NEW."is_superuser", NEW."keyboard_shortcuts", NEW."last_name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."username"); RETURN NULL;',
                    hash="b112257c6d11c914888c1c183d21658ef7ed4ac3",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_3e9a2",
                    table="tenants_user",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."date_joined" IS DISTINCT FROM (NEW."date_joined") OR OLD."email" IS DISTINCT FROM (NEW."email") OR OLD."first_name" IS DISTINCT FROM (NEW."first_name") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."is_active" IS DISTINCT FROM (NEW."is_active") OR OLD."is_operator" IS DISTINCT FROM (NEW."is_operator") OR OLD."is_staff" IS DISTINCT FROM (NEW."is_staff") OR OLD."is_superuser" IS DISTINCT FROM (NEW."is_superuser") OR OLD."keyboard_shortcuts" IS DISTINCT FROM (NEW."keyboard_shortcuts") OR OLD."last_name" IS DISTINCT FROM (NEW."last_name") OR OLD."username" IS DISTINCT FROM (NEW."username"))',
                    func='INSERT INTO "tenants_userevent" ("date_joined", "email", "first_name", "id", "is_active", "is_operator", "is_staff", "is_superuser", "keyboard_shortcuts", "last_name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "username") VALUES (NEW."date_joined", NEW."email", NEW."first_name", NEW."id", NEW."is_active", NEW."is_operator", NEW."is_staff", NEW."is_superuser", NEW."keyboard_shortcuts", NEW."last_name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."username"); RETURN NULL;',
                    hash="bcf1ccd80b7e9ea1bba9f7cdeae40e3dba1169ea",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_d43d7",
                    table="tenants_user",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenants_userevent" ("date_joined", "email", "first_name", "id", "is_active", "is_operator", "is_staff", "is_superuser", "keyboard_shortcuts", "last_name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "username") VALUES (OLD."date_joined", OLD."email", OLD."first_name", OLD."id", OLD."is_active", OLD."is_operator", OLD."is_staff", OLD."is_superuser", OLD."keyboard_shortcuts", OLD."last_name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."username"); RETURN NULL;',
                    hash="18b7e6352f6d81336973b2158621a91a6b5e1706",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_59578",
                    table="tenants_user",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="password_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."password" IS DISTINCT FROM (NEW."password"))',
                    func='INSERT INTO "tenants_userevent" ("date_joined", "email", "first_name", "id", "is_active", "is_operator", "is_staff", "is_superuser", "keyboard_shortcuts", "last_name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "username") VALUES (NEW."date_joined", NEW."email", NEW."first_name", NEW."id", NEW."is_active", NEW."is_operator", NEW."is_staff", NEW."is_superuser", NEW."keyboard_shortcuts", NEW."last_name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'password\', NEW."id", NEW."username"); RETURN NULL;',
                    hash="b842ba1326937cd713aea97be1792cad775561d7",
                    operation="UPDATE",
                    pgid="pgtrigger_password_update_cab35",
                    table="tenants_user",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="user",
            trigger=pgtrigger.compiler.Trigger(
                name="login_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."last_login" IS DISTINCT FROM (NEW."last_login"))',
                    func='INSERT INTO "tenants_userevent" ("date_joined", "email", "first_name", "id", "is_active", "is_operator", "is_staff", "is_superuser", "keyboard_shortcuts", "last_name", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "username") VALUES (NEW."date_joined", NEW."email", NEW."first_name", NEW."id", NEW."is_active", NEW."is_operator", NEW."is_staff", NEW."is_superuser", NEW."keyboard_shortcuts", NEW."last_name", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'login\', NEW."id", NEW."username"); RETURN NULL;',
                    hash="ecbbafa18ab8240f31a0eb2c0dff13b87978ec3c",
                    operation="UPDATE",
                    pgid="pgtrigger_login_update_dd5f1",
                    table="tenants_user",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="organisation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("retention_days", None),
                    models.Q(("retention_days__gte", 1), ("retention_days__lte", 3650)),
                    _connector="OR",
                ),
                name="organisation_retention_in_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="organisation",
            constraint=models.CheckConstraint(
                condition=models.Q(("allowed_domains__len__lte", 500)),
                name="organisation_allowed_domains_few",
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="accepted_by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="created_by",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="organisation",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="invitations",
                to="tenants.organisation",
            ),
        ),
        migrations.AddField(
            model_name="invitation",
            name="tenant",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="invitations",
                to="tenants.tenant",
            ),
        ),
        migrations.AddField(
            model_name="invitationevent",
            name="accepted_by",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                related_query_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="invitationevent",
            name="created_by",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                related_query_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="invitationevent",
            name="organisation",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                related_query_name="+",
                to="tenants.organisation",
            ),
        ),
        migrations.AddField(
            model_name="invitationevent",
            name="pgh_obj",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="events",
                to="tenants.invitation",
            ),
        ),
        migrations.AddField(
            model_name="invitationevent",
            name="tenant",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                related_query_name="+",
                to="tenants.tenant",
            ),
        ),
        migrations.AddIndex(
            model_name="throttle",
            index=models.Index(fields=["kept_until"], name="throttle_kept_until"),
        ),
        migrations.AddConstraint(
            model_name="throttle",
            constraint=models.CheckConstraint(
                condition=models.Q(("level__gte", 0), ("level__lte", 10000)), name="throttle_level_sane"
            ),
        ),
        migrations.AddIndex(
            model_name="invitation",
            index=models.Index(fields=["organisation", "-created_at"], name="invitation_newest"),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(("role__in", ["viewer", "reviewer", "admin"])),
                name="invitation_role_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=django.db.models.lookups.Exact(
                    models.Func(
                        models.F("digest"), function="octet_length", output_field=models.IntegerField()
                    ),
                    32,
                ),
                name="invitation_digest_whole",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(("expires_at__gt", models.F("created_at"))),
                name="invitation_expires_later",
            ),
        ),
        migrations.AddConstraint(
            model_name="invitation",
            constraint=models.CheckConstraint(
                condition=models.Q(("accepted_at", None), ("revoked_at", None), _connector="OR"),
                name="invitation_one_end",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="invitation",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenants_invitationevent" ("accepted_at", "accepted_by_id", "created_at", "created_by_id", "expires_at", "id", "invitee", "organisation_id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "revoked_at", "role", "tenant_id") VALUES (NEW."accepted_at", NEW."accepted_by_id", NEW."created_at", NEW."created_by_id", NEW."expires_at", NEW."id", NEW."invitee", NEW."organisation_id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."revoked_at", NEW."role", NEW."tenant_id"); RETURN NULL;',
                    hash="3c1d75767815a94d8a5bdf884b7341f3d2f332ef",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_4fe5c",
                    table="tenants_invitation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="invitation",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."accepted_at" IS DISTINCT FROM (NEW."accepted_at") OR OLD."accepted_by_id" IS DISTINCT FROM (NEW."accepted_by_id") OR OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."created_by_id" IS DISTINCT FROM (NEW."created_by_id") OR OLD."expires_at" IS DISTINCT FROM (NEW."expires_at") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."invitee" IS DISTINCT FROM (NEW."invitee") OR OLD."organisation_id" IS DISTINCT FROM (NEW."organisation_id") OR OLD."revoked_at" IS DISTINCT FROM (NEW."revoked_at") OR OLD."role" IS DISTINCT FROM (NEW."role") OR OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id"))',
                    func='INSERT INTO "tenants_invitationevent" ("accepted_at", "accepted_by_id", "created_at", "created_by_id", "expires_at", "id", "invitee", "organisation_id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "revoked_at", "role", "tenant_id") VALUES (NEW."accepted_at", NEW."accepted_by_id", NEW."created_at", NEW."created_by_id", NEW."expires_at", NEW."id", NEW."invitee", NEW."organisation_id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."revoked_at", NEW."role", NEW."tenant_id"); RETURN NULL;',
                    hash="d1ae14328fcf0b7bf14149fbc2267912b895187f",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_e0403",
                    table="tenants_invitation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="invitation",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenants_invitationevent" ("accepted_at", "accepted_by_id", "created_at", "created_by_id", "expires_at", "id", "invitee", "organisation_id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "revoked_at", "role", "tenant_id") VALUES (OLD."accepted_at", OLD."accepted_by_id", OLD."created_at", OLD."created_by_id", OLD."expires_at", OLD."id", OLD."invitee", OLD."organisation_id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."revoked_at", OLD."role", OLD."tenant_id"); RETURN NULL;',
                    hash="a00ae68024f9749ab591d7444a726dd442f9a7d2",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_ed10b",
                    table="tenants_invitation",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="invitationevent",
            trigger=pgtrigger.compiler.Trigger(
                name="no_truncate",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'The audit trail % is never emptied.', TG_TABLE_NAME;",
                    hash="33cb65f87561f114e99848130744d2b766103c1a",
                    level="STATEMENT",
                    operation="TRUNCATE",
                    pgid="pgtrigger_no_truncate_b55a7",
                    table="tenants_invitationevent",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="invitationevent",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                    hash="8d06cf9d3632f01106a8292b8988b32788f31bdf",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_02d1b",
                    table="tenants_invitationevent",
                    when="BEFORE",
                ),
            ),
        ),
        # As of memberships: an invitation's tenant is of its own organisation.
        migrations.RunSQL(
            "ALTER TABLE tenants_invitation ADD CONSTRAINT invitation_one_organisation"
            " FOREIGN KEY (tenant_id, organisation_id) REFERENCES tenants_tenant (id, organisation_id)",
            "ALTER TABLE tenants_invitation DROP CONSTRAINT invitation_one_organisation",
        ),
    ]
