"""Adds what the radar of sources reads, an index by source and the days' runs as a whole; and signs of life.

Days that were folded before are counted from the runs that are still kept, up to fold's mark and under its
lock, so that nothing is counted twice.
"""

from typing import Any

from django.db import migrations, models

LOCK_SPACE = 0x666F6C64  # fold's
_RUNS_OF_DAYS = """\
INSERT INTO source_day (tenant_id, day, kind, name, stopped, completed, calls, cost, organisations)
SELECT t.tenant_id, r.day, '', '', sum(r.stopped), sum(r.completed), sum(r.calls), sum(r.cost),
    CASE WHEN t.tenant_id = 0 THEN coalesce(array_agg(DISTINCT o.organisation_id ORDER BY o.organisation_id)
        FILTER (WHERE r.stopped > 0 AND o.organisation_id IS NOT NULL), '{}') END
FROM (
    SELECT tenant_id, (at AT TIME ZONE 'UTC')::date AS day, count(*) FILTER (WHERE halt_reason <> '') AS stopped,
        count(*) FILTER (WHERE outcome = 'completed') AS completed, sum(tool_calls) AS calls, sum(cost) AS cost
    FROM run WHERE ingest_mark < (SELECT last FROM fold_state) GROUP BY 1, 2
) AS r LEFT JOIN tenants_tenant AS o ON o.id = r.tenant_id
CROSS JOIN LATERAL (VALUES (r.tenant_id), (0)) AS t(tenant_id)
GROUP BY 1, 2 ORDER BY 1, 2"""


def count_days(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [LOCK_SPACE])
        cursor.execute(_RUNS_OF_DAYS)


def forget_days(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("DELETE FROM source_day WHERE kind = '' AND name = ''")


class Migration(migrations.Migration):
    dependencies = [("runs", "0011_notifications")]

    operations = [
        migrations.RunPython(count_days, forget_days),
        migrations.CreateModel(
            name="Pulse",
            fields=[
                ("name", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("well_at", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True, db_collation="C", default="")),
            ],
            options={"db_table": "pulse"},
        ),
        migrations.AddIndex(
            model_name="sourceday",
            index=models.Index(fields=["kind", "name", "day"], name="source_day_source"),
        ),
    ]
