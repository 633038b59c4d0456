"""The tables of a store, and an index over the text of runs.

The index is for a search that looks at no run that cannot match. SQLite: a table of the texts with a full-text index
of their trigrams, maintained by triggers, so that every way to write a run updates it. PostgreSQL: a trigram index
over the two columns. Where the database has no trigrams (SQLite before 3.34, PostgreSQL without pg_trgm), the search
reads the runs one by one.

A later migration that has SQLite write `dashboard_run` anew drops the triggers with the old table and must run
`index_text` again; tests/dashboard/filters/test_trigram.py fails otherwise.

The words of payloads have an index of their own (`dashboard.models.search`).
"""

from __future__ import annotations

from typing import Any
import dashboard.models.fields
import django.db.models.deletion
import django.db.models.functions.comparison
import uuid
from django.conf import settings
from django.db import DatabaseError, migrations, models, transaction

ADD = """
INSERT INTO dashboard_runtext (run_id, project_id, text)
VALUES (new.id, new.project_id, new.title || char(10) || new.external_id);
INSERT INTO dashboard_runtext_grams (rowid, text) SELECT id, text FROM dashboard_runtext WHERE run_id = new.id;
"""
TAKE_OUT = """
INSERT INTO dashboard_runtext_grams (dashboard_runtext_grams, rowid, text)
SELECT 'delete', id, text FROM dashboard_runtext WHERE run_id = old.id;
DELETE FROM dashboard_runtext WHERE run_id = old.id;
"""
SQLITE = (
    "CREATE TABLE IF NOT EXISTS dashboard_runtext (id integer PRIMARY KEY, run_id blob NOT NULL UNIQUE,"
    " project_id bigint NOT NULL, text text NOT NULL)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS dashboard_runtext_grams"
    " USING fts5(text, content='dashboard_runtext', content_rowid='id', tokenize='trigram')",
    f"CREATE TRIGGER IF NOT EXISTS run_text_added AFTER INSERT ON dashboard_run BEGIN {ADD} END",
    f"CREATE TRIGGER IF NOT EXISTS run_text_gone AFTER DELETE ON dashboard_run BEGIN {TAKE_OUT} END",
    "CREATE TRIGGER IF NOT EXISTS run_text_changed AFTER UPDATE OF title, external_id, project_id ON dashboard_run"
    " WHEN old.title <> new.title OR old.external_id <> new.external_id OR old.project_id <> new.project_id"
    f" BEGIN {TAKE_OUT} {ADD} END",
    "DELETE FROM dashboard_runtext",
    "INSERT INTO dashboard_runtext (run_id, project_id, text)"
    " SELECT id, project_id, title || char(10) || external_id FROM dashboard_run",
    "INSERT INTO dashboard_runtext_grams (dashboard_runtext_grams) VALUES ('rebuild')",
)
POSTGRESQL = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX dashboard_run_title_grams ON dashboard_run USING gin (upper(title::text) gin_trgm_ops)",
    "CREATE INDEX dashboard_run_external_id_grams ON dashboard_run USING gin (upper(external_id::text) gin_trgm_ops)",
)
STATEMENTS = {"sqlite": SQLITE, "postgresql": POSTGRESQL}
TAKEN_BACK = {
    "sqlite": (
        "DROP TRIGGER IF EXISTS run_text_added",
        "DROP TRIGGER IF EXISTS run_text_gone",
        "DROP TRIGGER IF EXISTS run_text_changed",
        "DROP TABLE IF EXISTS dashboard_runtext_grams",
        "DROP TABLE IF EXISTS dashboard_runtext",
    ),
    "postgresql": (
        "DROP INDEX IF EXISTS dashboard_run_title_grams",
        "DROP INDEX IF EXISTS dashboard_run_external_id_grams",
    ),
}


def index_text(_apps: Any, editor: Any) -> None:
    try:
        with transaction.atomic(using=editor.connection.alias):
            _execute(editor, STATEMENTS)
    except DatabaseError:
        return  # no trigrams here, or nobody may install them


def forget_text(_apps: Any, editor: Any) -> None:
    _execute(editor, TAKEN_BACK)


def _execute(editor: Any, statements: dict[str, tuple[str, ...]]) -> None:
    with editor.connection.cursor() as cursor:
        for statement in statements[editor.connection.vendor]:
            cursor.execute(statement)


SEARCH = {
    "sqlite": (
        "CREATE VIRTUAL TABLE dashboard_searchtext USING fts5("
        """receipt, canonical, args, message, both, content='', tokenize="ascii tokenchars '_'")""",
    ),
    "postgresql": (
        "CREATE TABLE dashboard_searchtext (id bigserial PRIMARY KEY, words tsvector NOT NULL)",
        "CREATE INDEX dashboard_searchtext_words ON dashboard_searchtext USING gin (words)",
    ),
}


def add_search(_apps: Any, editor: Any) -> None:
    _execute(editor, SEARCH)


def remove_search(_apps: Any, editor: Any) -> None:
    _execute(editor, dict.fromkeys(SEARCH, ("DROP TABLE dashboard_searchtext",)))


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Call',
            fields=[
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('namespace', models.CharField(max_length=64)),
                ('external_id', models.CharField(max_length=300)),
                ('tool', models.CharField(max_length=200)),
                ('family', models.CharField(max_length=32)),
                ('step', models.CharField(default='', max_length=200)),
                ('attempt', models.IntegerField(default=1)),
                ('iteration', models.IntegerField(null=True)),
                ('risk', models.CharField(default='', max_length=12)),
                ('reason', models.CharField(default='', max_length=40)),
                ('origin', models.CharField(default='message', max_length=8)),
                ('child_run', dashboard.models.fields.CompactUUIDField(null=True)),
                ('line', models.BigIntegerField(default=0)),
                ('status', models.CharField(choices=[('success', 'Success'), ('error', 'Error'), ('unknown', 'Unknown')], default='unknown', max_length=8)),
                ('summary', models.CharField(default='', max_length=200)),
                ('asked', models.CharField(default='', max_length=500)),
                ('first_line', models.CharField(default='', max_length=500)),
                ('error_kind', models.CharField(default='', max_length=100)),
                ('retryable', models.BooleanField(null=True)),
                ('exit_status', models.IntegerField(null=True)),
                ('outcome', models.CharField(choices=[('succeeded', 'Succeeded'), ('failed', 'Failed'), ('refused', 'Refused'), ('cancelled', 'Cancelled'), ('timed_out', 'Timed Out'), ('skipped', 'Skipped'), ('interrupted', 'Interrupted'), ('unanswered', 'Unanswered')], default='unanswered', max_length=12)),
                ('source_error', models.BooleanField(null=True)),
                ('is_disagreeing', models.BooleanField(default=False)),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('duration_ms', models.BigIntegerField(null=True)),
                ('tool_ms', models.BigIntegerField(null=True)),
                ('is_waiting', models.BooleanField(default=False)),
                ('args_bytes', models.BigIntegerField(default=0)),
                ('result_bytes', models.BigIntegerField(default=0)),
                ('result_fidelity', models.CharField(default='absent', max_length=20)),
                ('receipt_fidelity', models.CharField(default='absent', max_length=20)),
                ('receipt_characters', models.BigIntegerField(default=0)),
                ('receipt_lines', models.BigIntegerField(default=0)),
                ('receipt_count', models.IntegerField(default=0)),
                ('tokens', models.BigIntegerField(default=0)),
                ('token_certainty', models.CharField(default='estimate', max_length=8)),
                ('output_lines', models.BigIntegerField(default=0)),
                ('seen_lines', models.BigIntegerField(default=0)),
                ('unseen_lines', models.BigIntegerField(default=0)),
                ('is_cut', models.BooleanField(default=False)),
                ('author', models.CharField(choices=[('hook', 'written by a hook'), ('unclear', 'a hook returned an output')], default='', max_length=8)),
                ('revision', models.BigIntegerField(default=0)),
                ('evidence_version', models.IntegerField(default=0)),
                ('derivation', models.CharField(default='', max_length=40)),
                ('search_id', models.BigIntegerField(null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['external_id'], name='calls_by_external_id')],
            },
        ),
        migrations.CreateModel(
            name='Project',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField(max_length=64, unique=True)),
                ('name', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('masking_stamp', models.CharField(default='', max_length=32)),
            ],
        ),
        migrations.CreateModel(
            name='FollowedPath',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('path', models.CharField(max_length=1024)),
                ('format', models.CharField(default='', max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('imported_at', models.DateTimeField(null=True)),
                ('problem', models.CharField(default='', max_length=500)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='followed_paths', to='dashboard.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'path'), name='one_followed_path')],
            },
        ),
        migrations.CreateModel(
            name='Comparison',
            fields=[
                ('id', dashboard.models.fields.CompactUUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200)),
                ('query', models.CharField(default='', max_length=2000)),
                ('family', models.CharField(default='', max_length=32)),
                ('sample', models.IntegerField(null=True)),
                ('seed', models.BigIntegerField(default=0)),
                ('budget', models.IntegerField(null=True)),
                ('is_chosen', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('finished', 'Finished'), ('cancelled', 'Cancelled'), ('failed', 'Failed')], default='queued', max_length=9)),
                ('problem', models.CharField(default='', max_length=500)),
                ('call_count', models.IntegerField(default=0)),
                ('started_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('summary', models.BinaryField(null=True)),
                ('pinned_at', models.DateTimeField(null=True)),
                ('checked_at', models.DateTimeField(null=True)),
                ('last_check', models.JSONField(default=dict)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comparisons', to='dashboard.project')),
            ],
            options={
                'indexes': [models.Index(fields=['project', '-created_at'], name='dashboard_c_project_0a6693_idx'), models.Index(fields=['state', 'created_at'], name='dashboard_c_state_b1fc9c_idx')],
            },
        ),
        migrations.CreateModel(
            name='Observation',
            fields=[
                ('start', models.BigIntegerField(null=True)),
                ('size', models.BigIntegerField()),
                ('own_data', dashboard.models.fields.ZstdField(null=True)),
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('surface', models.CharField(choices=[('args', 'Args'), ('result', 'Result'), ('receipt', 'Receipt'), ('timing', 'Timing'), ('call', 'Call'), ('delivery', 'Delivery')], max_length=8)),
                ('line', models.BigIntegerField()),
                ('sha256', dashboard.models.fields.HashField()),
                ('fidelity', models.CharField(max_length=20)),
                ('observed_at', models.DateTimeField(null=True)),
                ('selected', models.BooleanField(default=True)),
                ('call', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='observations', to='dashboard.call')),
            ],
            options={
                'indexes': [models.Index(fields=['call', 'surface'], name='dashboard_o_call_id_46920c_idx')],
            },
        ),
        migrations.AddField(
            model_name='call',
            name='project',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='calls', to='dashboard.project'),
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('person', models.CharField(max_length=150)),
                ('client', models.CharField(max_length=64)),
                ('action', models.CharField(choices=[('sign-in', 'Sign In'), ('reveal', 'Reveal'), ('export', 'Export'), ('deletion', 'Deletion'), ('setting', 'Setting'), ('annotation', 'Annotation'), ('confirmation', 'Confirmation'), ('cancellation', 'Cancellation')], max_length=16)),
                ('subject', models.CharField(max_length=300)),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='audit_entries', to='dashboard.project')),
            ],
        ),
        migrations.CreateModel(
            name='Artifact',
            fields=[
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('ordinal', models.IntegerField(default=0)),
                ('role', models.CharField(max_length=64)),
                ('path', models.CharField(max_length=1024)),
                ('state', models.CharField(choices=[('present', 'Present'), ('missing', 'Missing'), ('removed', 'Removed')], default='present', max_length=8)),
                ('pointer', models.CharField(default='', max_length=500)),
                ('sha256', models.CharField(default='', max_length=64)),
                ('size', models.BigIntegerField(default=0)),
                ('lines', models.BigIntegerField(default=0)),
                ('removed_at', models.DateTimeField(null=True)),
                ('media_type', models.CharField(default='text/plain', max_length=100)),
                ('call', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='artifacts', to='dashboard.call')),
                ('observation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='artifacts', to='dashboard.observation')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='artifacts', to='dashboard.project')),
            ],
            options={
                'indexes': [models.Index(fields=['call', 'ordinal'], name='dashboard_a_call_id_8c9b20_idx'), models.Index(fields=['project', 'sha256'], name='dashboard_a_project_db7b37_idx')],
            },
        ),
        migrations.CreateModel(
            name='AccessToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('scope', models.CharField(choices=[('ingest', 'Ingest'), ('read', 'Read'), ('mcp', 'Mcp')], max_length=6)),
                ('key', models.CharField(max_length=16, unique=True)),
                ('secret_sha256', models.CharField(max_length=64)),
                ('created_by', models.CharField(max_length=150)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('used_at', models.DateTimeField(null=True)),
                ('revoked_at', models.DateTimeField(null=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='dashboard.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('revoked_at', None)), fields=('project', 'name'), name='one_token_in_use')],
            },
        ),
        migrations.CreateModel(
            name='ProjectRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40)),
                ('keys', models.CharField(default='', max_length=1000)),
                ('pattern', models.CharField(default='', max_length=500)),
                ('is_off', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='masking_rules', to='dashboard.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='one_masking_rule')],
            },
        ),
        migrations.CreateModel(
            name='RecallReport',
            fields=[
                ('id', dashboard.models.fields.CompactUUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('query', models.CharField(default='', max_length=2000)),
                ('family', models.CharField(default='', max_length=32)),
                ('variants', models.JSONField(default=list)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('finished', 'Finished'), ('cancelled', 'Cancelled'), ('failed', 'Failed')], default='queued', max_length=9)),
                ('problem', models.CharField(default='', max_length=500)),
                ('total', models.IntegerField(default=0)),
                ('done', models.IntegerField(default=0)),
                ('finished_at', models.DateTimeField(null=True)),
                ('attempts', models.IntegerField(default=0)),
                ('summary', models.BinaryField(null=True)),
                ('results', models.BinaryField(null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='recall_reports', to='dashboard.project')),
            ],
            options={
                'indexes': [models.Index(fields=['project', '-created_at'], name='dashboard_r_project_aa127d_idx')],
            },
        ),
        migrations.CreateModel(
            name='RecordedReceipt',
            fields=[
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('seq', models.IntegerField()),
                ('fidelity', models.CharField(max_length=20)),
                ('at', models.DateTimeField(null=True)),
                ('line', models.BigIntegerField()),
                ('characters', models.BigIntegerField(default=0)),
                ('lines', models.BigIntegerField(default=0)),
                ('tokens', models.BigIntegerField(default=0)),
                ('output_lines', models.BigIntegerField(default=0)),
                ('seen_lines', models.BigIntegerField(default=0)),
                ('is_cut', models.BooleanField(default=False)),
                ('author', models.CharField(choices=[('hook', 'written by a hook'), ('unclear', 'a hook returned an output')], default='', max_length=8)),
                ('superseded_at', models.DateTimeField(null=True)),
                ('superseded_line', models.BigIntegerField(null=True)),
                ('superseded_reason', models.CharField(default='', max_length=200)),
                ('call', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='receipts', to='dashboard.call')),
                ('observation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='receipts', to='dashboard.observation')),
            ],
            options={
                'db_table': 'dashboard_receipt',
            },
        ),
        migrations.CreateModel(
            name='ReceiptFingerprint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('variant', models.CharField(max_length=128)),
                ('version', models.IntegerField()),
                ('policy', models.CharField(max_length=16)),
                ('canonical_sha256', models.CharField(max_length=64)),
                ('text_sha256', models.CharField(max_length=64)),
                ('projected_by', models.CharField(default='', max_length=120)),
                ('drift', models.CharField(default='', max_length=16)),
                ('checked_at', models.DateTimeField(null=True)),
                ('receipt', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='fingerprint', to='dashboard.recordedreceipt')),
            ],
        ),
        migrations.CreateModel(
            name='RetiredTemplate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('family', models.CharField(max_length=32)),
                ('name', models.CharField(max_length=40)),
                ('retired_at', models.DateTimeField(auto_now_add=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='retired_templates', to='dashboard.project')),
                ('retired_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'family', 'name'), name='one_retired_template')],
            },
        ),
        migrations.CreateModel(
            name='Review',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('ordinal', models.IntegerField()),
                ('calls', models.BinaryField()),
                ('size', models.IntegerField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('comparison', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reviews', to='dashboard.comparison')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('comparison', 'ordinal'), name='one_review')],
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('namespace', models.CharField(max_length=64)),
                ('external_id', models.CharField(max_length=300)),
                ('parent_call', dashboard.models.fields.CompactUUIDField(null=True)),
                ('title', models.CharField(default='', max_length=300)),
                ('agent', models.CharField(default='', max_length=100)),
                ('model', models.CharField(default='', max_length=100)),
                ('version', models.CharField(default='', max_length=50)),
                ('cwd', models.CharField(default='', max_length=500)),
                ('branch', models.CharField(default='', max_length=300)),
                ('source_format', models.CharField(max_length=64)),
                ('started_at', models.DateTimeField(null=True)),
                ('last_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('asks_until', models.DateTimeField(null=True)),
                ('plan', models.BinaryField(null=True)),
                ('is_reported', models.BooleanField(default=False)),
                ('has_rivals', models.BooleanField(default=False)),
                ('document', dashboard.models.fields.ZstdField(null=True)),
                ('sort_at', models.DateTimeField()),
                ('duration_ms', models.BigIntegerField(default=0)),
                ('call_count', models.IntegerField(default=0)),
                ('own_call_count', models.IntegerField(default=0)),
                ('progress_call_count', models.IntegerField(default=0)),
                ('failed_count', models.IntegerField(default=0)),
                ('refused_count', models.IntegerField(default=0)),
                ('cut_count', models.IntegerField(default=0)),
                ('unanswered_count', models.IntegerField(default=0)),
                ('remark_count', models.IntegerField(default=0)),
                ('drop_count', models.IntegerField(default=0)),
                ('token_count', models.BigIntegerField(default=0)),
                ('token_certainty', models.CharField(default='estimate', max_length=8)),
                ('receipt_characters', models.BigIntegerField(default=0)),
                ('strip', models.CharField(default='', max_length=120)),
                ('revision', models.BigIntegerField(default=0)),
                ('parent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='children', to='dashboard.run')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='dashboard.project')),
            ],
            options={
                'indexes': [models.Index(fields=['project', '-sort_at', '-id'], name='dashboard_r_project_4aa957_idx'), models.Index(fields=['project', '-call_count', '-id'], name='dashboard_r_project_ba9be3_idx'), models.Index(fields=['project', '-failed_count', '-id'], name='dashboard_r_project_35cf47_idx'), models.Index(fields=['project', '-cut_count', '-id'], name='dashboard_r_project_862fe5_idx'), models.Index(fields=['project', '-token_count', '-id'], name='dashboard_r_project_09faf8_idx'), models.Index(fields=['project', '-duration_ms', '-id'], name='dashboard_r_project_4bc0d1_idx'), models.Index(fields=['external_id'], name='runs_by_external_id')],
            },
        ),
        migrations.CreateModel(
            name='ReviewMark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('call', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.call')),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.project')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.run')),
            ],
            options={
                'abstract': False,
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('call__isnull', False), ('run__isnull', True)), models.Q(('call__isnull', True), ('run__isnull', False)), _connector='OR'), name='reviewmark_of_one'), models.UniqueConstraint(fields=('run',), name='one_review_mark_of_run'), models.UniqueConstraint(fields=('call',), name='one_review_mark_of_call')],
            },
        ),
        migrations.AddField(
            model_name='recordedreceipt',
            name='run',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='receipts', to='dashboard.run'),
        ),
        migrations.CreateModel(
            name='Note',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('text', models.TextField()),
                ('changed_at', models.DateTimeField(null=True)),
                ('half', models.CharField(default='', max_length=9)),
                ('sha256', models.CharField(default='', max_length=64)),
                ('start', models.BigIntegerField(default=0)),
                ('end', models.BigIntegerField(default=0)),
                ('quote', models.TextField(default='')),
                ('call', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.call')),
                ('changed_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.project')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.run')),
            ],
            options={
                'abstract': False,
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('call__isnull', False), ('run__isnull', True)), models.Q(('call__isnull', True), ('run__isnull', False)), _connector='OR'), name='note_of_one')],
            },
        ),
        migrations.AddField(
            model_name='call',
            name='run',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='own_calls', to='dashboard.run'),
        ),
        migrations.CreateModel(
            name='Assignment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('to', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('call', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.call')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.project')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.run')),
            ],
            options={
                'abstract': False,
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('call__isnull', False), ('run__isnull', True)), models.Q(('call__isnull', True), ('run__isnull', False)), _connector='OR'), name='assignment_of_one'), models.UniqueConstraint(fields=('run',), name='one_assignment_of_run'), models.UniqueConstraint(fields=('call',), name='one_assignment_of_call')],
            },
        ),
        migrations.CreateModel(
            name='RunFacet',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=16)),
                ('value', models.CharField(max_length=200)),
                ('sort_at', models.DateTimeField()),
                ('count', models.IntegerField(default=0)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='dashboard.project')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='facets', to='dashboard.run')),
            ],
            options={
                'indexes': [models.Index(fields=['project', 'kind', 'value', '-sort_at', '-run'], name='dashboard_r_project_20e108_idx')],
                'constraints': [models.UniqueConstraint(fields=('run', 'kind', 'value'), name='one_facet')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('over', models.CharField(choices=[('runs', 'Runs'), ('calls', 'Calls')], default='runs', max_length=5)),
                ('name', models.CharField(max_length=60)),
                ('query', models.TextField()),
                ('sort', models.CharField(max_length=16)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_views', to='dashboard.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'over', 'name'), name='one_saved_view')],
            },
        ),
        migrations.CreateModel(
            name='SignInFailure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('account_sha256', models.CharField(max_length=64)),
                ('client', models.CharField(max_length=64)),
                ('at', models.DateTimeField(auto_now_add=True, db_index=True)),
            ],
            options={
                'indexes': [models.Index(fields=['account_sha256', 'at'], name='failures_of_account'), models.Index(fields=['client', 'at'], name='failures_of_client')],
            },
        ),
        migrations.CreateModel(
            name='SignInLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token_sha256', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sign_in_links', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Source',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('path', models.CharField(max_length=1024)),
                ('format', models.CharField(max_length=64)),
                ('reader', models.IntegerField(default=1)),
                ('read_as', models.TextField(default='')),
                ('namespace', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('inode', models.BigIntegerField(default=0)),
                ('head_sha256', models.CharField(default='', max_length=64)),
                ('offset', models.BigIntegerField(default=0)),
                ('prefix_sha256', models.CharField(default='', max_length=64)),
                ('ends_open', models.BooleanField(default=False)),
                ('left_bytes', models.BigIntegerField(default=0)),
                ('state', dashboard.models.fields.ZstdField(default=b'{}')),
                ('is_partial', models.BooleanField(default=False)),
                ('accepted', models.BigIntegerField(default=0)),
                ('rejected', models.BigIntegerField(default=0)),
                ('blank', models.BigIntegerField(default=0)),
                ('seen', models.BinaryField(default=b'{}')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sources', to='dashboard.project')),
                ('runs', models.ManyToManyField(related_name='sources', to='dashboard.run')),
            ],
            options={
                'indexes': [models.Index(fields=['project', 'path'], name='dashboard_s_project_e3eb5a_idx'), models.Index(fields=['project', 'head_sha256'], name='dashboard_s_project_12a816_idx')],
            },
        ),
        migrations.CreateModel(
            name='RunCall',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('ordinal', models.BigIntegerField()),
                ('claim', models.SmallIntegerField(choices=[(0, 'Own'), (1, 'Progress'), (2, 'Other'), (3, 'Copied'), (4, 'Answer')], default=0)),
                ('inherited', models.BooleanField(default=False)),
                ('call', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='dashboard.call')),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='members', to='dashboard.run')),
                ('source', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='dashboard.source')),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'ordinal', 'call'], name='dashboard_r_run_id_769de1_idx'), models.Index(condition=models.Q(('inherited', True)), fields=['run'], name='inherited_calls')],
                'constraints': [models.UniqueConstraint(fields=('run', 'call'), name='one_run_call')],
            },
        ),
        migrations.CreateModel(
            name='RequestUsage',
            fields=[
                ('start', models.BigIntegerField(null=True)),
                ('size', models.BigIntegerField()),
                ('own_data', dashboard.models.fields.ZstdField(null=True)),
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('request', models.CharField(max_length=200)),
                ('line', models.BigIntegerField()),
                ('at', models.DateTimeField(null=True)),
                ('origin', models.CharField(default='message', max_length=8)),
                ('input_tokens', models.BigIntegerField()),
                ('cache_read_tokens', models.BigIntegerField()),
                ('cache_creation_tokens', models.BigIntegerField()),
                ('output_tokens', models.BigIntegerField()),
                ('edits', dashboard.models.fields.ZstdField(null=True)),
                ('cleared_tokens', models.BigIntegerField(null=True)),
                ('repeated_tokens', models.BigIntegerField(default=0)),
                ('dropped_tokens', models.BigIntegerField(default=0)),
                ('dropped_after', models.BigIntegerField(default=0)),
                ('dropped_before', models.BigIntegerField(default=0)),
                ('removed_tokens', models.BigIntegerField(default=0)),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='requests', to='dashboard.run')),
                ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='dashboard.source')),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'line'], name='dashboard_r_run_id_dc44ca_idx')],
            },
        ),
        migrations.CreateModel(
            name='Remark',
            fields=[
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('call', dashboard.models.fields.CompactUUIDField(db_index=True, null=True)),
                ('line', models.BigIntegerField()),
                ('kind', models.CharField(choices=[('timestamp', 'Timestamp'), ('value', 'Value'), ('duration', 'Duration'), ('length', 'Length'), ('line', 'Line'), ('tool', 'Tool'), ('pair', 'Pair'), ('number', 'Number'), ('key', 'Key'), ('arguments', 'Arguments'), ('status', 'Status'), ('clock', 'Clock'), ('result', 'Result'), ('name', 'Name')], max_length=12)),
                ('path', models.CharField(max_length=500)),
                ('was', models.CharField(max_length=200)),
                ('became', models.CharField(max_length=200)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='remarks', to='dashboard.run')),
                ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='dashboard.source')),
            ],
        ),
        migrations.AddField(
            model_name='recordedreceipt',
            name='source',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='dashboard.source'),
        ),
        migrations.CreateModel(
            name='ReceiptSupersession',
            fields=[
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('call', dashboard.models.fields.CompactUUIDField(db_index=True)),
                ('line', models.BigIntegerField()),
                ('at', models.DateTimeField(null=True)),
                ('reason', models.CharField(default='', max_length=200)),
                ('replacement', models.CharField(default='', max_length=64)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='supersessions', to='dashboard.run')),
                ('source', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='dashboard.source')),
            ],
        ),
        migrations.CreateModel(
            name='Problem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('file', models.CharField(max_length=1024)),
                ('line', models.BigIntegerField()),
                ('path', models.CharField(max_length=500)),
                ('reason', models.CharField(max_length=1000)),
                ('raw', models.BinaryField()),
                ('raw_size', models.BigIntegerField()),
                ('loss', models.CharField(choices=[('line', 'Line'), ('part', 'Part'), ('nothing', 'Nothing')], default='line', max_length=8)),
                ('is_incomplete', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='problems', to='dashboard.project')),
                ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='problems', to='dashboard.source')),
            ],
            options={
                'indexes': [models.Index(fields=['project', '-id'], name='dashboard_p_project_759285_idx')],
            },
        ),
        migrations.AddField(
            model_name='observation',
            name='source',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='dashboard.source'),
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('start', models.BigIntegerField(null=True)),
                ('size', models.BigIntegerField()),
                ('own_data', dashboard.models.fields.ZstdField(null=True)),
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('role', models.CharField(max_length=32)),
                ('kind', models.CharField(default='', max_length=64)),
                ('step', models.CharField(default='', max_length=200)),
                ('at', models.DateTimeField(null=True)),
                ('line', models.BigIntegerField()),
                ('tokens', models.BigIntegerField(default=0)),
                ('delivery', models.CharField(choices=[('sent', 'Sent'), ('queued', 'Queued'), ('reworded', 'Reworded'), ('withheld', 'Withheld'), ('unclear', 'Unclear')], default='sent', max_length=8)),
                ('search_id', models.BigIntegerField(null=True)),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='dashboard.run')),
                ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='dashboard.source')),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'line'], name='dashboard_m_run_id_069eb9_idx'), models.Index(condition=models.Q(('search_id', None)), fields=['run'], name='unsearchable_messages'), models.Index(fields=['search_id'], name='messages_by_entry')],
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('start', models.BigIntegerField(null=True)),
                ('size', models.BigIntegerField()),
                ('own_data', dashboard.models.fields.ZstdField(null=True)),
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('call', dashboard.models.fields.CompactUUIDField(null=True)),
                ('kind', models.CharField(max_length=100)),
                ('level', models.CharField(default='info', max_length=8)),
                ('message', models.CharField(default='', max_length=500)),
                ('at', models.DateTimeField(null=True)),
                ('line', models.BigIntegerField()),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='dashboard.run')),
                ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='dashboard.source')),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'line'], name='dashboard_e_run_id_beee66_idx'), models.Index(fields=['call'], name='dashboard_e_call_c242b9_idx')],
            },
        ),
        migrations.AddField(
            model_name='call',
            name='source',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='dashboard.source'),
        ),
        migrations.CreateModel(
            name='ReceivedRecord',
            fields=[
                ('id', dashboard.models.fields.CompactUUIDField(editable=False, primary_key=True, serialize=False)),
                ('at', models.BigIntegerField()),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='dashboard.run')),
            ],
        ),
        migrations.CreateModel(
            name='SentContent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sha256', models.CharField(max_length=64)),
                ('size', models.BigIntegerField()),
                ('lines', models.BigIntegerField()),
                ('sent_at', models.DateTimeField(auto_now=True, db_index=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='dashboard.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'sha256'), name='one_content_of_project')],
            },
        ),
        migrations.CreateModel(
            name='FrameBlock',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('data', dashboard.models.fields.ZstdField()),
            ],
        ),
        migrations.CreateModel(
            name='SourceFrame',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('offset', models.BigIntegerField()),
                ('size', models.IntegerField()),
                ('first_line', models.BigIntegerField()),
                ('own_data', dashboard.models.fields.ZstdField(null=True)),
                ('block_start', models.IntegerField(null=True)),
                ('is_joinable', models.BooleanField(default=False)),
                ('block', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='frames', to='dashboard.frameblock')),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='frames', to='dashboard.source')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('source', 'offset'), name='one_frame_at_offset')],
                'indexes': [models.Index(condition=models.Q(('is_joinable', True)), fields=['source'], name='joinable_frames'), models.Index(condition=models.Q(('block__isnull', False)), fields=['block'], name='frames_of_block')],
            },
        ),
        migrations.CreateModel(
            name='Tag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('name', models.CharField(max_length=40)),
                ('call', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.call')),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.project')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='dashboard.run')),
            ],
            options={
                'abstract': False,
                'indexes': [models.Index(fields=['project', 'name'], name='tags_by_name')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('call__isnull', False), ('run__isnull', True)), models.Q(('call__isnull', True), ('run__isnull', False)), _connector='OR'), name='tag_of_one'), models.UniqueConstraint(fields=('run', 'name'), name='one_tag_of_run'), models.UniqueConstraint(fields=('call', 'name'), name='one_tag_of_call')],
            },
        ),
        migrations.CreateModel(
            name='TemplateVariant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('family', models.CharField(max_length=32)),
                ('name', models.CharField(max_length=40)),
                ('version', models.IntegerField()),
                ('title', models.CharField(max_length=100)),
                ('source', models.TextField()),
                ('characters', models.IntegerField()),
                ('head_share', models.IntegerField()),
                ('cut_at', models.CharField(max_length=10)),
                ('note', models.CharField(default='', max_length=200)),
                ('sha256', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='template_variants', to='dashboard.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'family', 'name', 'version'), name='one_template_version')],
            },
        ),
        migrations.CreateModel(
            name='Verdict',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('call', dashboard.models.fields.CompactUUIDField()),
                ('choice', models.CharField(choices=[('baseline', 'Baseline'), ('variant', 'Variant'), ('tie', 'Tie'), ('both_bad', 'Both Bad')], max_length=8)),
                ('first', models.CharField(max_length=8)),
                ('note', models.CharField(default='', max_length=2000)),
                ('baseline_sha256', models.CharField(max_length=64)),
                ('variant_sha256', models.CharField(max_length=64)),
                ('at', models.DateTimeField()),
                ('review', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='verdicts', to='dashboard.review')),
                ('reviewer', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='verdicts', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['review', 'reviewer', 'at'], name='dashboard_v_review__c44e08_idx')],
                'constraints': [models.UniqueConstraint(fields=('review', 'call', 'reviewer'), name='one_verdict')],
            },
        ),
        migrations.CreateModel(
            name='CanonicalProjection',
            fields=[
                ('call', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='projection', serialize=False, to='dashboard.call')),
                ('mapping', models.CharField(max_length=100)),
                ('policy', models.CharField(max_length=16)),
                ('packed', models.BinaryField()),
                ('cuts', models.BinaryField(default=b'[]')),
                ('size', models.BigIntegerField()),
                ('observation', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='dashboard.observation')),
            ],
        ),
        migrations.CreateModel(
            name='ComparisonBaseline',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('ordinal', models.IntegerField()),
                ('summary', models.BinaryField(null=True)),
                ('comparison', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='baselines', to='dashboard.comparison')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('comparison', 'ordinal'), name='one_baseline')],
            },
        ),
        migrations.CreateModel(
            name='ComparisonBatch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.IntegerField()),
                ('calls', models.BinaryField()),
                ('size', models.IntegerField()),
                ('attempts', models.IntegerField(default=0)),
                ('results', models.BinaryField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('comparison', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='batches', to='dashboard.comparison')),
            ],
            options={
                'indexes': [models.Index(fields=['comparison', 'finished_at', 'number'], name='dashboard_c_compari_ee7528_idx')],
                'constraints': [models.UniqueConstraint(fields=('comparison', 'number'), name='one_batch')],
            },
        ),
        migrations.CreateModel(
            name='ComparisonColumn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('ordinal', models.IntegerField()),
                ('name', models.CharField(max_length=64)),
                ('family', models.CharField(default='', max_length=32)),
                ('variant', models.CharField(max_length=128)),
                ('version', models.IntegerField()),
                ('hash', models.CharField(max_length=16)),
                ('policy', models.CharField(max_length=16)),
                ('comparison', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='columns', to='dashboard.comparison')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('comparison', 'ordinal', 'family'), name='one_column')],
            },
        ),
        migrations.CreateModel(
            name='PlanExecution',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('plan_hash', models.CharField(max_length=80)),
                ('policy_hash', models.CharField(max_length=80)),
                ('risk', models.CharField(max_length=12)),
                ('preview', models.TextField(default='')),
                ('requested_at', models.DateTimeField(null=True)),
                ('is_on_terminal', models.BooleanField(default=False)),
                ('expires_at', models.DateTimeField(null=True)),
                ('decision', models.CharField(choices=[('approved', 'Approved'), ('rejected', 'Rejected'), ('expired', 'Expired')], default='', max_length=8)),
                ('actor', models.CharField(default='', max_length=150)),
                ('decided_at', models.DateTimeField(null=True)),
                ('reason', models.CharField(default='', max_length=500)),
                ('cancelled_by', models.CharField(default='', max_length=150)),
                ('cancelled_at', models.DateTimeField(null=True)),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='execution', to='dashboard.run')),
            ],
        ),
        migrations.CreateModel(
            name='PastedEnvelope',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sha256', models.CharField(max_length=64)),
                ('data', models.BinaryField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pasted_envelopes', to='dashboard.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'sha256'), name='one_pasted_envelope')],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('viewer', 'Viewer'), ('operator', 'Operator')], default='operator', max_length=16)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='dashboard.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'project'), name='one_membership')],
            },
        ),
        migrations.AddIndex(
            model_name='recordedreceipt',
            index=models.Index(fields=['call', 'run', 'seq'], name='dashboard_r_call_id_a2e8cd_idx'),
        ),
        migrations.AddIndex(
            model_name='recordedreceipt',
            index=models.Index(fields=['run', 'line'], name='dashboard_r_run_id_4dce8f_idx'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(fields=['run', 'line'], name='dashboard_c_run_id_e28bf5_idx'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('derivation', '')), fields=['project'], name='underived_calls'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(condition=models.Q(('search_id', None)), fields=['project'], name='unsearchable_calls'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(fields=['search_id', 'project', 'started_at', 'id'], name='calls_by_entry'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(fields=['project', '-started_at', '-id', 'tool', 'family', 'outcome', 'status', 'exit_status', 'source_error', 'risk', 'reason', 'author', 'attempt', 'is_cut', 'is_waiting', 'is_disagreeing', 'duration_ms', 'tool_ms', 'tokens', 'output_lines', 'seen_lines', 'unseen_lines', 'search_id'], name='calls_by_time'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(models.F('project'), models.OrderBy(models.Case(models.When(is_waiting=True, then=None), default=django.db.models.functions.comparison.Coalesce('tool_ms', 'duration_ms')), descending=True), models.OrderBy(models.F('id'), descending=True), name='calls_by_own_time'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(fields=['project', '-tokens', '-id'], name='calls_by_tokens'),
        ),
        migrations.AddIndex(
            model_name='call',
            index=models.Index(fields=['project', '-unseen_lines', '-id'], name='calls_by_unseen_lines'),
        ),
        migrations.RunPython(add_search, remove_search),
        migrations.RunPython(index_text, forget_text),
    ]
