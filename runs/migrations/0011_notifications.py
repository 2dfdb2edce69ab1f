from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("runs", "0010_incidents")]

    operations = []
