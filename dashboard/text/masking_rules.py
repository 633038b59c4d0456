"""The rules by which secrets are masked: names of keys, shapes of credentials, and expressions of a project."""

from __future__ import annotations

import msgspec

from envelopes.text.credential_shapes import SHAPES, SecretShape


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


class PatternRule(msgspec.Struct, frozen=True):
    """Masks the matches of an expression of RE2 that a project wrote itself; one that is empty masks nothing.

    They lie within one line; `\\w` stands for every character beyond ASCII too. Raises BadPattern at its first use.
    """

    name: str
    title: str
    pattern: str


MaskingRule = KeyRule | SecretShape | PatternRule


PASSWORDS = (
    "passwords?|passwd|passphrase|pswd|pwd|pass|pw|psk|passwort|kennwort|"
    "(?:user|db|smtp|mail|admin|root|login|ftp|ssh|proxy)pass(?:words?|wd|phrase)?"
)
RULES: tuple[MaskingRule, ...] = (
    KeyRule(
        "api-key",
        "the value of an API, access, private, signing, master or account key",
        "(?:api|app|access|secret|private|encryption|signing|account|subscription|master|auth|licen[cs]e)[_-]?keys?",
    ),
    KeyRule("password", "the value of a password", PASSWORDS, masks_numbers=True),
    KeyRule("secret", "the value of a secret", "secret|credentials|credential"),
    KeyRule("token", "the value of a token", "token"),
    KeyRule("authorization", "an authorization header", "authorization|auth"),
    KeyRule("cookie", "a cookie", "cookies|cookie", to_line_end=True),
    *SHAPES,
)
