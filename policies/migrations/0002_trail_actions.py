from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("policies", "0001_policies_and_bundles"),
        ("tenants", "0006_trail_actions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            model_name="blockedsourceevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="blockedsource_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="jobpolicyevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="jobpolicy_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="signingsecretevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="signingsecret_trail_action",
            ),
        ),
        migrations.AddIndex(
            model_name="stopevent",
            index=models.Index(
                models.F("pgh_label"),
                models.OrderBy(models.F("pgh_created_at"), descending=True),
                models.OrderBy(models.F("pgh_id"), descending=True),
                name="stop_trail_action",
            ),
        ),
    ]
