from django.db import migrations

# Foreign keys of two columns: a membership's or key's tenant is of its own organisation.
FOREIGN_KEYS = [
    ("tenants_membership", "membership_one_organisation", "tenant_id", "tenants_tenant"),
    ("tenants_apikeytenant", "api_key_tenant_one_organisation", "tenant_id", "tenants_tenant"),
    ("tenants_apikeytenant", "api_key_one_organisation", "api_key_id", "tenants_apikey"),
]


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_tenants_and_people")]

    operations = [
        migrations.RunSQL(
            f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({column}, organisation_id)"
            f" REFERENCES {target} (id, organisation_id)",
            f"ALTER TABLE {table} DROP CONSTRAINT {name}",
        )
        for table, name, column, target in FOREIGN_KEYS
    ]
