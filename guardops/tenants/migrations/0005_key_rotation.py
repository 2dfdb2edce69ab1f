import django.db.models.deletion
import django.db.models.fields.json
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0004_saved_views"),
    ]

    operations = [
        pgtrigger.migrations.RemoveTrigger(
            model_name="apikey",
            name="insert_insert",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="apikey",
            name="update_update",
        ),
        pgtrigger.migrations.RemoveTrigger(
            model_name="apikey",
            name="delete_delete",
        ),
        migrations.AddField(
            model_name="apikey",
            name="predecessor",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="successors",
                to="tenants.apikey",
            ),
        ),
        migrations.AddField(
            model_name="apikeyevent",
            name="predecessor",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                related_query_name="+",
                to="tenants.apikey",
            ),
        ),
        migrations.AddIndex(
            model_name="apikeyevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="apikey_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="apikeyevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="apikey_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="apikeyevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="apikey_trail_before",
            ),
        ),
        migrations.AddIndex(
            model_name="apikeytenantevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="apikeytenant_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="apikeytenantevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="apikeytenant_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="apikeytenantevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="apikeytenant_trail_before",
            ),
        ),
        migrations.AddIndex(
            model_name="invitationevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="invitation_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="invitationevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="invitation_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="invitationevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="invitation_trail_before",
            ),
        ),
        migrations.AddIndex(
            model_name="membershipevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="membership_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="membershipevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="membership_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="membershipevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="membership_trail_before",
            ),
        ),
        migrations.AddIndex(
            model_name="organisationevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="organisation_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="organisationevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="organisation_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="organisationevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="organisation_trail_before",
            ),
        ),
        migrations.AddIndex(
            model_name="tenantevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="tenant_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="tenantevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="tenant_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="tenantevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="tenant_trail_before",
            ),
        ),
        migrations.AddIndex(
            model_name="userevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="user_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="userevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="user_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="userevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="user_trail_before",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="apikey",
            trigger=pgtrigger.compiler.Trigger(
                name="insert_insert",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenants_apikeyevent" ("created_at", "created_by_id", "expires_at", "id", "name", "organisation_id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "predecessor_id", "prefix", "revoked_at", "scopes") VALUES (NEW."created_at", NEW."created_by_id", NEW."expires_at", NEW."id", NEW."name", NEW."organisation_id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'insert\', NEW."id", NEW."predecessor_id", NEW."prefix", NEW."revoked_at", NEW."scopes"); RETURN NULL;',
                    hash="8616e9d5df7243b4ddc6b4dc72ae89f7e14a060d",
                    operation="INSERT",
                    pgid="pgtrigger_insert_insert_b7e2f",
                    table="tenants_apikey",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="apikey",
            trigger=pgtrigger.compiler.Trigger(
                name="update_update",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."created_by_id" IS DISTINCT FROM (NEW."created_by_id") OR OLD."expires_at" IS DISTINCT FROM (NEW."expires_at") OR OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."name" IS DISTINCT FROM (NEW."name") OR OLD."organisation_id" IS DISTINCT FROM (NEW."organisation_id") OR OLD."predecessor_id" IS DISTINCT FROM (NEW."predecessor_id") OR OLD."prefix" IS DISTINCT FROM (NEW."prefix") OR OLD."revoked_at" IS DISTINCT FROM (NEW."revoked_at") OR OLD."scopes" IS DISTINCT FROM (NEW."scopes"))',
                    func='INSERT INTO "tenants_apikeyevent" ("created_at", "created_by_id", "expires_at", "id", "name", "organisation_id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "predecessor_id", "prefix", "revoked_at", "scopes") VALUES (NEW."created_at", NEW."created_by_id", NEW."expires_at", NEW."id", NEW."name", NEW."organisation_id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'update\', NEW."id", NEW."predecessor_id", NEW."prefix", NEW."revoked_at", NEW."scopes"); RETURN NULL;',
                    hash="ced9bc8e8ef8fbea817539bdf351e3d35869e2a5",
                    operation="UPDATE",
                    pgid="pgtrigger_update_update_246bc",
                    table="tenants_apikey",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="apikey",
            trigger=pgtrigger.compiler.Trigger(
                name="delete_delete",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func='INSERT INTO "tenants_apikeyevent" ("created_at", "created_by_id", "expires_at", "id", "name", "organisation_id", "pgh_context", "pgh_context_id", "pgh_created_at", "pgh_label", "pgh_obj_id", "predecessor_id", "prefix", "revoked_at", "scopes") VALUES (OLD."created_at", OLD."created_by_id", OLD."expires_at", OLD."id", OLD."name", OLD."organisation_id", COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_metadata\', TRUE), \'\'), NULL)::JSONB, COALESCE(NULLIF(CURRENT_SETTING(\'pghistory.context_id\', TRUE), \'\'), NULL)::UUID, NOW(), \'delete\', OLD."id", OLD."predecessor_id", OLD."prefix", OLD."revoked_at", OLD."scopes"); RETURN NULL;',
                    hash="1c769a27706d16935a2c0dfef1071f0e6676755d",
                    operation="DELETE",
                    pgid="pgtrigger_delete_delete_ed5c2",
                    table="tenants_apikey",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.UniqueConstraint(
                condition=models.Q(("revoked_at", None)),
                fields=("predecessor",),
                name="api_key_one_successor",
            ),
        ),
    ]
