"""The rules by which secrets are masked: names of keys, shapes of credentials, and expressions of a project."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

import msgspec


class KeyRule(msgspec.Struct, frozen=True):
    """Masks the value of a key whose name contains a match of `words`, an expression for lower case.

    `masks_any` is for keys that a project names itself: their values need not look like a secret.
    """

    name: str
    title: str
    words: str
    masks_numbers: bool = False
    masks_any: bool = False
    to_line_end: bool = False  # of a header, such as Cookie


class ShapeRule(msgspec.Struct, frozen=True):
    """Masks the group `secret` of `pattern`, or all of it; each match begins with one of `pieces` (an expression).

    `is_valid` decides about a match.
    """

    name: str
    title: str
    pieces: str
    pattern: str
    is_valid: Callable[[str], bool] | None = None


class PatternRule(msgspec.Struct, frozen=True):
    """Masks the matches of an expression of RE2 that a project wrote itself; one that is empty masks nothing.

    They lie within one line, and each character that is not ASCII counts as a question mark. Raises BadPattern where
    it is used first.
    """

    name: str
    title: str
    pattern: str


MaskingRule = KeyRule | ShapeRule | PatternRule


def passes_luhn(number: str) -> bool:
    digits = [int(digit) for digit in reversed(number) if digit.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[1::2]]
    return len(set(digits)) > 1 and (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _is_basic(value: str) -> bool:
    """True for the base64 form of `user:password`."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False


def _has_digit(value: str) -> bool:
    return len(value) > 20 or any(character.isdigit() for character in value)


RULES: tuple[MaskingRule, ...] = (
    KeyRule(
        "api-key",
        "the value of an API, access, private, signing or account key",
        "(?:api|access|secret|private|encryption|signing|account)[_-]?key",
    ),
    KeyRule("password", "the value of a password", "password|passwd|passphrase|pwd|pass", masks_numbers=True),
    KeyRule("secret", "the value of a secret", "secret|credentials|credential"),
    KeyRule("token", "the value of a token", "token"),
    KeyRule("authorization", "an authorization header", "authorization|auth"),
    KeyRule("cookie", "a cookie", "cookies|cookie", to_line_end=True),
    ShapeRule(
        "private-key",
        "a private key",
        "-----BEGIN",
        r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"(?P<secret>[^\"-]{16,8000}(?:-{1,4}[^\"-]{1,8000}){0,9})",
    ),
    ShapeRule(
        "aws-key",
        "an AWS access key",
        "A(?:KIA|SIA|ROA|IDA)[A-Z0-9]",
        r"A(?:KIA|SIA|ROA|IDA)[A-Z0-9]{12,20}(?![a-z0-9])",
    ),
    ShapeRule("github-token", "a GitHub token", "gh[opusr]_|github_pat_", r"(?:gh[opusr]|github_pat)_\w{16,255}"),
    ShapeRule("gitlab-token", "a GitLab token", "gl(?:pat|dt|rt)-", r"gl(?:pat|dt|rt)-[\w-]{16,255}"),
    ShapeRule("slack-token", "a Slack token", "xox[a-z]-|xapp-", r"(?:xox[a-z]|xapp)-[\w-]{10,255}"),
    ShapeRule(
        "slack-webhook",
        "a Slack webhook",
        r"hooks\.slack\.com/",
        r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/-]{16,255})",
    ),
    ShapeRule("openai-key", "an OpenAI or Anthropic key", "sk-", r"sk-[\w-]{16,255}", _has_digit),
    ShapeRule("google-key", "a Google key", "AIza", r"AIza[\w-]{30,60}"),
    ShapeRule("google-token", "a Google token", r"ya29\.|GOCSPX-", r"(?:ya29\.|GOCSPX-)[\w.-]{16,1000}"),
    ShapeRule(
        "stripe-key",
        "a Stripe key",
        "[sr]k_(?:live|test)_|whsec_",
        r"(?:[sr]k_(?:live|test)|whsec)_\w{16,255}",
    ),
    ShapeRule("sendgrid-key", "a SendGrid key", r"SG\.", r"SG\.[\w-]{16,64}\.[\w-]{16,64}"),
    ShapeRule("npm-token", "an npm token", "npm_", r"npm_[A-Za-z0-9]{30,40}"),
    ShapeRule("pypi-token", "a PyPI token", "pypi-AgE", r"pypi-AgE[\w-]{16,500}"),
    ShapeRule("huggingface-token", "a Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{30,40}"),
    ShapeRule("digitalocean-token", "a DigitalOcean token", "do[opr]_v1_", r"do[opr]_v1_[a-f0-9]{40,64}"),
    ShapeRule("twilio-key", "a Twilio key", "SK[0-9a-f]", r"SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    ShapeRule(
        "jwt",
        "a JSON web token",
        "eyJ",
        r"eyJ[\w-]{8,4000}\.[\w-]{4,8000}(?:\.[\w-]{0,2000})?",
    ),
    ShapeRule(
        "bearer",
        "a Bearer header",
        "[Bb](?:earer|EARER) ",
        r"\w{6} +(?P<secret>[A-Za-z0-9._~+/-]{8,4000}={0,2})",
        _has_digit,
    ),
    ShapeRule(
        "basic",
        "a Basic header",
        "[Bb](?:asic|ASIC) ",
        r"\w{5} +(?P<secret>[A-Za-z0-9+/]{6,400}={0,2})",
        _is_basic,
    ),
    ShapeRule(
        "address-password",
        "the password in an address",
        "://",
        r"://[^\s/:@'\"<>{}$\\]{0,64}:(?P<secret>[^\s/@'\"<>{}$\\*][^\s/@'\"<>\\]{0,127})@",
    ),
    ShapeRule(  # at most one separator between groups
        "card",
        "a card number that passes the Luhn check",
        "[3-6][0-9]{3}[ -]?[0-9]{4}[0-9 -][0-9]",
        r"(?:(?<![\w.-])|(?<=\\[nrtbf]))\d{4}([ -]?)(?:\d{4}\1\d{4}\1\d{1,4}|\d{6}\1\d{4,5})(?![\w-])",
        passes_luhn,
    ),
)
