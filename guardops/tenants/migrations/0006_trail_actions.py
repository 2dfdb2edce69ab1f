from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0005_key_rotation"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="apikeyevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="apikey_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="apikeytenantevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="apikeytenant_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="invitationevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="invitation_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="membershipevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="membership_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="organisationevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="organisation_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="tenantevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="tenant_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="userevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="user_trail_action",
            ),
        ),
    ]
