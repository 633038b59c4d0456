"""The model of receipts has a name of its own; its table stays."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0009_other_baseline")]
    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameModel("Receipt", "RecordedReceipt"),
                migrations.AlterModelTable("RecordedReceipt", "dashboard_receipt"),
            ]
        )
    ]
