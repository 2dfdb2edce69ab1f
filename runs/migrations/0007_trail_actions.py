from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0006_trail_indexes"),
        ("tenants", "0006_trail_actions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="runhorizonevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="runhorizon_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="stopreviewevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="stopreview_trail_action",
            ),
        ),
    ]
