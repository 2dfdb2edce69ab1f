from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("runs", "0007_trail_actions")]

    operations = []
