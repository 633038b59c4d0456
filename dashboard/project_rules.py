"""The masking rules of a project: the built-in ones that are switched on and its own.

    load_rules(project)          the rules as one RuleSet, compiled once in each process after a change
    load_all_rules()             those of every project, by which the log of a process is masked
    save_rule(project, draft)    raises RuleRefused; `rule_trials` tries a rule first

A pattern is never in a message, a log or the audit log: it may be the secret itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from dashboard.models import Project, ProjectRule
from dashboard.text.find_secrets import RuleSet, with_all_letters
from dashboard.text.mask_markup import mask_response
from dashboard.text.masking_rules import RULES, KeyRule, MaskingRule, PatternRule
from dashboard.text.masks import BUILT_IN, COMPILED, Masks, current_masks, masking
from envelopes.text.patterns import BadPattern, compile_pattern

MOST_RULES, MOST_KEYS = 50, 50
KEYS_CHARACTERS, PATTERN_CHARACTERS = 1_000, 500  # as the columns have them
LARGEST_PATTERN = 1_000  # instructions of the compiled expression
BUILT_IN_NAMES = frozenset(rule.name for rule in RULES)
NAME = re.compile(r"[a-z][a-z0-9-]{1,39}")
KEY_CHARACTERS = range(2, 61)
KEY_SIGNS = "_.-"


class RuleRefused(ValueError):
    """A sentence for the operator; `field` of the form is the cause."""

    def __init__(self, reason: str, field: str) -> None:
        super().__init__(reason)
        self.field = field


def load_rules(project: Project) -> RuleSet:
    """Without a query, as long as the stamp of the project is the one that this process knows."""
    if not project.masking_stamp:
        return BUILT_IN
    stamp, rules = COMPILED.get(project.pk, ("", BUILT_IN))
    if stamp != project.masking_stamp:
        rows = list(project.masking_rules.order_by("pk"))
        off = {row.name for row in rows if row.is_off}
        own = [as_rule(row) for row in rows if not row.is_off]
        rules = RuleSet([rule for rule in RULES if rule.name not in off], own)
        COMPILED[project.pk] = project.masking_stamp, rules
    return rules


def load_all_rules() -> None:
    for project in Project.objects.exclude(masking_stamp=""):
        load_rules(project)


# Pages that mask nothing: the documentation has no recorded text, the page of the rules masks its own examples and
# shows what somebody types, and a new token is shown once, to the person who created it.
OWN_PAGES = ("docs-index", "docs-page", "mask-list", "mask-change", "token-list")


class MaskingMiddleware:
    """Masks every response: pages, fragments, copies, JSON and downloads, whatever view they are from.

    A page that shows more than a window of a text needs to do nothing; windows are masked before they are cut.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with masking(Masks(seconds=settings.MASK_SECONDS) if settings.MASK else None) as masks:
            response = self.get_response(request)
            own = request.resolver_match is not None and request.resolver_match.url_name in OWN_PAGES
            if masks is not None and not own:
                mask_response(request, response, masks)
            return response

    def process_view(self, request: HttpRequest, view: Callable[..., Any], _args: Any, _options: Any) -> None:
        """Applies the rules of the project, which ProjectMiddleware has set."""
        masks, project = current_masks(), getattr(request, "project", None)
        if masks is not None and project is not None:
            masks.rules = load_rules(project)


def as_rule(row: ProjectRule) -> KeyRule | PatternRule:
    """Words of a key may be joined in any way: employee_id is also employee-id and employeeId."""
    if row.pattern:
        return PatternRule(row.name, row.pattern, row.pattern)
    words = "|".join("[_.-]?".join(re.split(r"[_.-]+", key)) for key in row.keys.split())
    return KeyRule(row.name, f"the value of {', '.join(row.keys.split())}", words, masks_numbers=True, masks_any=True)


@dataclass(frozen=True)
class ListedRule:
    """`row` is None for a built-in rule that is switched on."""

    name: str
    title: str
    row: ProjectRule | None
    is_own: bool

    @property
    def is_off(self) -> bool:
        return self.row is not None and self.row.is_off


def list_rules(project: Project) -> list[ListedRule]:
    """The project's own rules, then the built-in ones."""
    rows = {row.name: row for row in project.masking_rules.order_by("name")}
    own = [
        ListedRule(row.name, as_rule(row).title, row, is_own=True)
        for row in rows.values()
        if row.name not in BUILT_IN_NAMES
    ]
    return [*own, *(ListedRule(rule.name, rule.title, rows.get(rule.name), is_own=False) for rule in RULES)]


def find_rule(project: Project, name: str) -> MaskingRule | None:
    row = project.masking_rules.filter(name=name).first()
    if row is not None and row.name not in BUILT_IN_NAMES:
        return as_rule(row)
    return next((rule for rule in RULES if rule.name == name), None)


@dataclass(frozen=True)
class RuleDraft:
    """The fields of the form as they were typed; one of `keys` and `pattern` is empty."""

    name: str = ""
    keys: str = ""
    pattern: str = ""

    def build(self, project: Project) -> ProjectRule:
        """The rule, not saved yet. Raises RuleRefused."""
        name = self.name.strip()
        if not NAME.fullmatch(name):
            raise RuleRefused("A name has 2 to 40 lower-case letters, digits and dashes, a letter first.", "name")
        if name in BUILT_IN_NAMES:
            raise RuleRefused("A built-in rule has this name: choose another.", "name")
        if bool(self.keys.strip()) == bool(self.pattern):
            raise RuleRefused("Give either names of keys or a pattern.", "keys")
        keys = list(dict.fromkeys(self.keys.lower().replace(",", " ").split()))
        if not all(map(_is_key, keys)):
            reason = "The name of a key has 2 to 60 letters, digits, _ . and -, and begins and ends with no sign."
            raise RuleRefused(reason, "keys")
        if len(keys) > MOST_KEYS or len(" ".join(keys)) > KEYS_CHARACTERS:
            raise RuleRefused(f"A rule has at most {MOST_KEYS} names, of {KEYS_CHARACTERS:,} characters.", "keys")
        if self.pattern:
            _check_pattern(self.pattern)
        return ProjectRule(project=project, name=name, keys=" ".join(keys), pattern=self.pattern)


def _is_key(name: str) -> bool:
    """Letters of every script are letters; in some of them the vowels are marks."""
    letters = [letter for letter in name if letter not in KEY_SIGNS]
    is_word = all(letter.isalnum() or unicodedata.category(letter).startswith("M") for letter in letters)
    return is_word and len(name) in KEY_CHARACTERS and name.strip(KEY_SIGNS) == name


def _check_pattern(pattern: str) -> None:
    if len(pattern) > PATTERN_CHARACTERS:
        reason = f"The pattern has {len(pattern):,} characters; at most {PATTERN_CHARACTERS} are stored."
        raise RuleRefused(reason, "pattern")
    if not pattern.isprintable():
        reason = r"A pattern has visible characters only; write \x{200b} for the character U+200B."
        raise RuleRefused(reason, "pattern")
    try:
        expression = compile_pattern(with_all_letters(pattern), is_regex=True).expression
    except BadPattern as error:
        raise RuleRefused(f"The pattern cannot be used: {error}.", "pattern") from None
    if expression.programsize > LARGEST_PATTERN:
        reason = "The pattern is too large for every page: use smaller counts, or + and *."
        raise RuleRefused(reason, "pattern")
    if expression.search(b""):
        raise RuleRefused("The pattern matches the empty text: name at least one character that is there.", "pattern")


def save_rule(project: Project, draft: RuleDraft, user: User) -> ProjectRule:
    """Raises RuleRefused."""
    rule = draft.build(project)
    rule.created_by = user
    if project.masking_rules.count() >= MOST_RULES + len(RULES):
        raise RuleRefused(f"The project has {MOST_RULES} rules, which is the limit: delete one first.", "name")
    try:
        with transaction.atomic():
            rule.save()
            _renew_stamp(project)
    except IntegrityError:
        raise RuleRefused("The project has a rule of this name: choose another, or delete it first.", "name") from None
    return rule


@transaction.atomic
def switch_rule(project: Project, name: str, *, is_off: bool) -> None:
    """Switches a built-in or an own rule. A built-in one that is on has no row."""
    if name not in BUILT_IN_NAMES:
        project.masking_rules.filter(name=name).update(is_off=is_off)
    elif is_off:
        project.masking_rules.get_or_create(name=name, defaults={"is_off": True})
    else:
        project.masking_rules.filter(name=name).delete()
    _renew_stamp(project)


@transaction.atomic
def delete_rule(project: Project, name: str) -> bool:
    """False for a built-in rule, which can only be switched off."""
    deleted, _ = project.masking_rules.filter(name=name).exclude(name__in=BUILT_IN_NAMES).delete()
    _renew_stamp(project)
    return deleted > 0


def _renew_stamp(project: Project) -> None:
    project.masking_stamp = uuid4().hex
    project.save(update_fields=["masking_stamp"])
