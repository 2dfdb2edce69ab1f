import django.db.models.fields.json
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0005_live_runs"),
        ("tenants", "0005_key_rotation"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="runhorizonevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="runhorizon_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="runhorizonevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="runhorizon_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="runhorizonevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="runhorizon_trail_before",
            ),
        ),
        migrations.AddIndex(
            model_name="stopreviewevent",
            index=models.Index(
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="stopreview_trail",
            ),
        ),
        migrations.AddIndex(
            model_name="stopreviewevent",
            index=models.Index(
                django.db.models.fields.json.KeyTransform(
                    "name", django.db.models.fields.json.KeyTransform("actor", "pgh_context")
                ),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="stopreview_trail_actor",
            ),
        ),
        migrations.AddIndex(
            model_name="stopreviewevent",
            index=models.Index(
                models.F("pgh_obj"),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="stopreview_trail_before",
            ),
        ),
    ]
