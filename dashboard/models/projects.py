"""Projects, their members, saved views and one-time sign-in links."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, models, transaction
from django.utils import timezone

LINK_LIFETIME = timedelta(hours=24)


class Project(models.Model):
    """Everything stored belongs to a project, and hashes and ids are looked up within it."""

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    masking_stamp = models.CharField(max_length=32, default="")  # another one after each change of a ProjectRule

    def __str__(self) -> str:
        return self.slug

    @contextmanager
    def write_lock(self) -> Iterator[None]:
        """A transaction beside which no other writer of the project runs.

        Ids are derived, so two writers may create the same run or call at once. SQLite's write lock covers all
        projects.
        """
        with transaction.atomic():
            if connection.features.has_select_for_update:
                Project.objects.select_for_update(no_key=True).get(pk=self.pk)
            yield


class ProjectRule(models.Model):
    """A masking rule of the project's own, by names of keys or by a pattern, or a built-in one that is switched off."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="masking_rules")
    name = models.CharField(max_length=40)
    keys = models.CharField(max_length=1_000, default="")  # separated by spaces
    pattern = models.CharField(max_length=500, default="")  # of RE2
    is_off = models.BooleanField(default=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_masking_rule")]

    def __str__(self) -> str:
        return f"{self.name}{' (off)' if self.is_off else ''}"


class Membership(models.Model):
    class Role(models.TextChoices):
        VIEWER = "viewer"
        OPERATOR = "operator"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    project = models.ForeignKey(Project, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.OPERATOR)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "project"], name="one_membership")]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.project_id} as {self.role}"

    @property
    def may_write(self) -> bool:
        return self.role == self.Role.OPERATOR


class SignInLink(models.Model):
    """A link that works once. Only the hash of its token is stored."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="sign_in_links")
    token_sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"link of {self.user_id}, {'used' if self.used_at else 'open'}"

    @staticmethod
    def new_token() -> str:
        return secrets.token_urlsafe(32)

    @staticmethod
    def digest(token: str) -> str:
        return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()

    @property
    def is_open(self) -> bool:
        return self.used_at is None and timezone.now() < self.expires_at


class AccessToken(models.Model):
    """The sign-in of a program, for one project and one purpose. Only the hash of its secret is stored.

    `name` and `key` identify it in lists and in the audit log; the key is a part of the token and no secret.
    """

    class Scope(models.TextChoices):
        INGEST = "ingest"
        READ = "read"
        MCP = "mcp"

    project = models.ForeignKey(Project, models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=60)
    scope = models.CharField(max_length=6, choices=Scope.choices)
    key = models.CharField(max_length=16, unique=True)
    secret_sha256 = models.CharField(max_length=64)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True)  # to the minute
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "name"], condition=models.Q(revoked_at=None), name="one_token_in_use"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.scope}, {self.key})"


class SignInFailure(models.Model):
    """A wrong password. The rows of the last minutes decide who has to wait, for all processes of the server."""

    account_sha256 = models.CharField(max_length=64)  # of the name, because people type passwords into its field
    client = models.CharField(max_length=64)
    at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        indexes = [
            models.Index(fields=["account_sha256", "at"], name="failures_of_account"),
            models.Index(fields=["client", "at"], name="failures_of_client"),
        ]

    def __str__(self) -> str:
        return f"failure of {self.account_sha256[:8]} from {self.client}"


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    def of_project(self, project: Project) -> AuditQuerySet:
        """The entries of the project and the sign-ins of its members, the newest first."""
        members = project.memberships.values("user__username")
        return self.filter(models.Q(project=project) | models.Q(project=None, person__in=members)).order_by(
            "-at", "-pk"
        )

    def update(self, **_fields: object) -> int:
        raise AppendOnly

    def delete(self) -> tuple[int, dict[str, int]]:
        raise AppendOnly


class AppendOnly(TypeError):
    """Entries of the audit log are neither changed nor deleted."""


class AuditEntry(models.Model):
    """Who did what, and when. A name and no reference: an entry outlives the account and what it is about."""

    class Action(models.TextChoices):
        SIGN_IN = "sign-in"
        REVEAL = "reveal"
        EXPORT = "export"
        DELETION = "deletion"
        SETTING = "setting"
        ANNOTATION = "annotation"  # notes, tags, assignments and review marks
        CONFIRMATION = "confirmation"  # of a plan that writes: approved or rejected
        CANCELLATION = "cancellation"  # of a plan that runs

    project = models.ForeignKey(Project, models.CASCADE, null=True, related_name="audit_entries")
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    person = models.CharField(max_length=150)
    client = models.CharField(max_length=64)
    action = models.CharField(max_length=16, choices=Action.choices)
    subject = models.CharField(max_length=300)

    objects = AuditQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.person}: {self.action} of {self.subject}"

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding:
            raise AppendOnly
        super().save(*args, **options)

    def delete(self, *_args: Any, **_options: Any) -> tuple[int, dict[str, int]]:
        raise AppendOnly


class SavedView(models.Model):
    """A filter and sort order of the Runs or the Calls page, saved under a name for the whole project."""

    class Over(models.TextChoices):
        RUNS = "runs"
        CALLS = "calls"

    over = models.CharField(max_length=5, choices=Over.choices, default=Over.RUNS)
    project = models.ForeignKey(Project, models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=60)
    query = models.TextField()
    sort = models.CharField(max_length=16)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "over", "name"], name="one_saved_view")]

    def __str__(self) -> str:
        return self.name
