"""Finds credentials in a text by one table of shapes, which the masks of the dashboard use too.

    find_secrets   what is certainly a credential, by a shape that nothing else has, never by its name
    redact         a command's text with whatever may be a credential replaced, by shape and by name

`redact` rather hides too much: a harmless `--sort-key name` loses its value in the preview of the command.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import methodcaller
from typing import NamedTuple

import msgspec

REDACTED = "[redacted]"


class SecretShape(msgspec.Struct, frozen=True):
    """How one kind of credential looks.

    Each match of `pattern` begins with `begins`, an expression without groups that RE2 knows too; the secret is the
    group `secret` of it, or all of it, where `is_valid` accepts that. It also matches what is cut short or of another
    release, and examples of documentation.

    `needs` is an expression for RE2 that every match contains, where text that is no secret often has `begins`.

    `certain` matches nothing but the credential. Every text that contains one contains one of its `pieces`, which all
    begin with the same letter: looking for these first costs a hundredth of the pattern.
    """

    name: str
    title: str
    begins: str
    pattern: str
    is_valid: Callable[[str], bool] | None = None
    certain: re.Pattern[str] | None = None
    pieces: tuple[str, ...] = ()
    needs: str = ""


def passes_luhn(number: str) -> bool:
    digits = [int(digit) for digit in reversed(number) if digit.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[1::2]]
    return len(set(digits)) > 1 and (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _is_basic(value: str) -> bool:
    """True for the base64 form of `user:password`."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False


def _has_digit(value: str) -> bool:
    return len(value) > 20 or any(character.isdigit() for character in value)


def _is_mixed(value: str) -> bool:
    return not value.isalpha() and not value.isdigit() and any(character.isdigit() for character in value)


def _is_no_word(value: str) -> bool:
    return not (value.isalpha() and value.islower())


def _is_no_number(value: str) -> bool:
    return not value.isdigit()


# Between two lines of source: quotes with signs and line ends, both escaped or neither. A listing has numbers there.
_NUMBER = r"\d\u2192\xe2\x86\x92"
_JOINED = (
    rf"(?:\"[ \t\r\n+.&_\\{_NUMBER}]{{1,60}}\""
    rf"|\\{{1,7}}\"(?:[ \t+.&_{_NUMBER}]|\\{{1,7}}(?:[nrt]|u2192)){{1,60}}(?:\\\\){{0,3}}\\\")"
)
# How the tokens of services begin that need no row of their own.
SERVICES = (
    r"hv[sbr]\.|dapi|shp(?:at|ca|pa|ss)_|lin_(?:api|oauth)_|ntn_|gsk_|xai-|r8_|AGE-SECRET-KEY-1|sq0[a-z]{3}-|AT[AC]TT3|"
    r"pscale_(?:pw|tkn|oauth)_|sbp_|dp\.(?:st|pt|ct|sa)\.|dckr_pat_|NRAK-|PMAK-|gl(?:sa|c)_|rubygems_|pplx-|lsv2_(?:pt|sk)_|"
    r"tskey-|bkua_|CCIP(?:AT|RJ)_|nfp_|figd_|fo1_|cft_"
)
SHAPES = (
    SecretShape(
        "private-key",
        "a private key",
        "-----BEGIN|Private-Lines: ",
        r"(?:-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----(?!['`)])|Private-Lines: \d{1,3})"
        rf"(?=(?:[^\"]|{_JOINED}){{0,200}}?[A-Za-z0-9+/=]{{16}})"
        rf"(?P<secret>(?:[^\"P\\-]|\\+(?![\\\"])|-(?!----)|P(?!rivate-MAC)|{_JOINED}){{16,8000}})",
        certain=re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{16}"),
        pieces=("PRIVATE KEY-----",),
    ),
    SecretShape(
        "encoded-private-key",
        "a private key in base64",
        "LS0tLS1CRUdJTiB[QSFPE]",
        r"LS0tLS1CRUdJTiB(?:QUkl|SU0E|FQyBQ|EU0Eg|PUEVO|FTkNS)(?P<secret>(?:[A-Za-z0-9+/=]|(?:\\[nr]|\s){1,30}(?=[A-Za-z0-9+/=]{20})){16,8000})",
    ),
    SecretShape(
        "aws-key",
        "an AWS access key",
        "A(?:KIA|SIA|ROA|IDA)[A-Z0-9]",
        r"A(?:KIA|SIA|ROA|IDA)[A-Z0-9]{12,20}(?![a-z0-9])",
        certain=re.compile(r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
        pieces=("AKIA", "ASIA"),
    ),
    SecretShape(
        "github-token",
        "a GitHub token",
        "gh[opusr]_|github_pat_",
        r"(?:gh[opusr]|github_pat)_\w{16,255}",
        certain=re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"),
        pieces=("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    SecretShape(
        "gitlab-token",
        "a GitLab token",
        "gl(?:pat|dt|rt|ptt|cbt|oas|soat|ft|imt|agent)-",
        r"gl(?:pat|dt|rt|ptt|cbt|oas|soat|ft|imt|agent)-[\w.-]{16,255}",
        certain=re.compile(r"\bglpat-[A-Za-z0-9_-]{20}\b"),
        pieces=("glpat-",),
    ),
    SecretShape(
        "slack-token",
        "a Slack token",
        "xox[a-z]-|xapp-",
        r"(?:xox[a-z]|xapp)-[\w-]{10,255}",
        certain=re.compile(r"\bxox[abprs]-[0-9]{8,}-[A-Za-z0-9-]{16,}"),
        pieces=("xox",),
    ),
    SecretShape(
        "slack-webhook",
        "a Slack webhook",
        r"hooks\.slack\.com/",
        r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/-]{16,255})",
    ),
    SecretShape(
        "anthropic-key",
        "an Anthropic key",
        "sk-ant-",
        r"sk-ant-[\w-]{12,255}",
        certain=re.compile(r"\bsk-ant-[a-z0-9]+-[A-Za-z0-9_-]{40,}"),
        pieces=("sk-ant-",),
    ),
    SecretShape(
        "openai-key",
        "an OpenAI key",
        "sk-",
        r"sk-[\w-]{16,255}",
        _has_digit,
        re.compile(r"\bsk-(?:proj-[A-Za-z0-9_-]{40,}|[A-Za-z0-9]{48}\b)"),
        ("sk-",),
        needs=r"sk-[^\x00-,./:-@\[-^`{-\x7f]{16}",
    ),
    SecretShape(
        "google-key",
        "a Google key",
        "AIza",
        r"AIza[\w-]{30,60}",
        certain=re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b"),
        pieces=("AIza",),
    ),
    SecretShape("google-token", "a Google token", r"ya29\.|GOCSPX-", r"(?:ya29\.|GOCSPX-)[\w.-]{16,1000}"),
    SecretShape(
        "stripe-key",
        "a Stripe key",
        "[sr]k_(?:live|test)_|whsec_",
        r"(?:[sr]k_(?:live|test)|whsec)_\w{16,255}",
        certain=re.compile(r"\b[sr]k_live_[A-Za-z0-9]{24,}\b"),
        pieces=("k_live_",),
    ),
    SecretShape("sendgrid-key", "a SendGrid key", r"SG\.", r"SG\.[\w-]{16,64}\.[\w-]{16,64}"),
    SecretShape("npm-token", "an npm token", "npm_", r"npm_[A-Za-z0-9]{30,40}"),
    SecretShape("pypi-token", "a PyPI token", "pypi-AgE", r"pypi-AgE[\w-]{16,500}"),
    SecretShape("huggingface-token", "a Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{30,40}"),
    SecretShape("digitalocean-token", "a DigitalOcean token", "do[opr]_v1_", r"do[opr]_v1_[a-f0-9]{40,64}"),
    SecretShape(
        "service-token",
        "a token of another service, by its first letters",
        SERVICES,
        rf"(?:{SERVICES})[\w.=-]{{20,400}}",
        _is_mixed,
        needs=rf"(?:{SERVICES})[A-Za-z0-9_.=-]{{20}}",
    ),
    SecretShape("telegram-token", "a token of a Telegram bot", ":AA", r"(?<=\d):(?P<secret>AA[\w-]{32,36})(?![\w-])"),
    SecretShape(
        "webhook",
        "the secret in the address of a webhook",
        r"discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/webhookb2/",
        r"(?:discord(?:app)?\.com/api/webhooks/\d{10,25}/|webhook\.office\.com/webhookb2/)(?P<secret>[^\s\"'<>\\]{30,400})",
    ),
    SecretShape(
        "password-hash",
        "the hash of a password",
        r"\$(?:2[abxy]\$[0-9]|[156y]\$|apr1\$|argon2)",
        r"\$(?:2[abxy]\$\d\d|[156y]|apr1|argon2(?:id|i|d))\$(?P<secret>[\w./$,=+-]{20,300})",
    ),
    SecretShape(
        "signature",
        "the signature of an address or of a request",
        "[Ss]ig(?:nature)?=|response=",
        r"(?:[Ss]ig(?:nature)?=|response=\\{0,7}\")(?P<secret>[A-Za-z0-9+/_-]{16,1000}={0,2})",
        _is_mixed,
        needs=r"(?:[Ss]ig(?:nature)?=|response=\\*\")[A-Za-z0-9+/_-]{16}",
    ),
    SecretShape(
        "session-cookie",
        "the id of a session, or a cookie as a browser or curl stores it",
        r"JSESSIONID=|PHPSESSID=|ASP\.NET_SessionId=|connect\.sid=|sessionid=|(?:TRUE|FALSE)(?:\t|\\{1,7}t)[0-9]",
        r"(?:(?:JSESSIONID|PHPSESSID|ASP\.NET_SessionId|connect\.sid|sessionid)=|"
        r"(?:TRUE|FALSE)(?:\t|\\{1,7}t)\d{1,20}(?:\t|\\{1,7}t)[\w.%-]{1,200}(?:\t|\\{1,7}t))(?P<secret>[^\s\"'<>\\,;]{10,4000})",
        _is_mixed,
    ),
    SecretShape(
        "option-password",
        "a password on a command line",
        "-u ?[A-Za-z\"']|--(?:proxy-)?user[ =]|sshpass |(?:mysql|mysqldump|mysqladmin|mariadb) ",
        r"(?:(?:(?<![\w-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
        r"(?:-u ?|--(?:proxy-)?user[ =])[\"']?[A-Za-z][^\s:'\"/\\$@]{0,79}:|"
        r"sshpass +-p ?[\"']?|"
        r"(?:mysql|mysqldump|mysqladmin|mariadb) (?:[^\n;|]{0,80}? )?-p[\"']?)"
        r"(?P<secret>[^\s'\"\\$<>*{}/-][^\s'\"\\]{2,127})",
        _is_no_number,
        needs=r"(?:-u ?|--user[ =]|--proxy-user[ =])[^ :/@$]+:[^ /-]{3}|sshpass +-p|(?:mysql|maria)[^\n]* -p[^ \n]",
    ),
    SecretShape(
        "sql-password",
        "a password in a statement of SQL",
        "(?i:password|identified by) '",
        r"(?i:password|identified by) '(?P<secret>[^\s'\\]{3,200})'",
        _is_no_word,
    ),
    SecretShape("twilio-key", "a Twilio key", "SK[0-9a-f]", r"SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    # Documentation is full of web tokens, so none is certain.
    SecretShape("jwt", "a JSON web token", "eyJ", r"eyJ[\w-]{8,4000}+\.[\w-]{4,8000}+(?:\.[\w-]{0,2000}+)?"),
    SecretShape(
        "bearer",
        "a Bearer header",
        "[Bb](?:earer|EARER) ",
        r"[Bb](?:earer|EARER) +(?P<secret>[A-Za-z0-9._~+/-]{8,4000}={0,2})",
        _has_digit,
    ),
    SecretShape(
        "basic",
        "a Basic header",
        "[Bb](?:asic|ASIC) ",
        r"[Bb](?:asic|ASIC) +(?P<secret>[A-Za-z0-9+/]{6,400}={0,2})",
        _is_basic,
    ),
    SecretShape(
        "address-password",
        "the password or token in an address",
        "://|:thin:",
        # A token alone, or a name and a password, which is no port; a password may contain @ and /.
        r"(?:://(?:(?=[A-Za-z_-]{0,255}\d[\w-]{20,255}@)|[^ \t\n\r\f\v/:@'\"<>{}$\\]{0,64}:(?!\d{1,5}/))|"
        r":thin:\w{1,64}/)"
        r"(?P<secret>[^ \t\n\r\f\v/:@'\"<>{}$\\*][^ \t\n\r\f\v'\"<>\\]{0,127})@",
        needs=r"://[^\s/:@]*:[^\s@]+@|://[A-Za-z0-9_-]+@|:thin:",
    ),
    SecretShape(  # at most one separator between groups
        "card",
        "a card number that passes the Luhn check",
        "[3-6][0-9]{3}[ -]?[0-9]{4}[0-9 -][0-9]",
        r"(?:(?<![\w.-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"
        r"\d{4}([ -]?)(?:\d{4}\1\d{4}\1\d{1,4}|\d{6}\1\d{4,5})(?![\w-])",
        passes_luhn,
        needs=r"(?:^|[^0-9A-Za-z_.-]|\\[nrtbf]|\\u[0-9a-fA-F]{4})[3-6][0-9]{3}[ -]?[0-9]{4}[0-9 \x80-\xff-]{5}",
    ),
)
# Every repetition is bounded or stops at a character that the next attempt would need, so that a command of a
# megabyte takes linear time.
_NAME = r"(?:key(?!word|board)|token(?!iz)|secret|password|passwd|passphrase|pwd|credentials?|auth(?!or)|cookie)"
_VALUE = r"(?:\\\"[^\"]*\"|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s'\"&;|)]+)"
_BY_NAME = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"(?P<before>[a-z][a-z0-9+.-]{0,20}://)[^\s/'\"]*(?P<after>@)",
        r"(?P<before>\bauthorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest)\s+)?)[^\s'\"]+(?P<after>)",
        rf"(?P<before>{_NAME}\w{{0,30}}\\?[\"']?\s{{0,4}}[:=]\s{{0,4}}){_VALUE}(?P<after>)",
        rf"(?P<before>(?<![\w-])--?[a-z0-9_-]{{0,40}}{_NAME}[a-z0-9_-]{{0,20}}\s+)(?!-){_VALUE}(?P<after>)",
        r"(?P<before>(?<![\w-])(?:-u\s*|--user[=\s])[\"']?[^\s:'\"/]{1,80}:)[^\s'\"]+(?P<after>)",
        rf"(?P<before>\bsshpass\s+-p\s*|\b(?:mysql|mysqldump|mariadb)\b[^\n;|]{{0,80}}?\s-p){_VALUE}(?P<after>)",
    )
)
_BEGINS = re.compile("|".join(shape.begins for shape in SHAPES))
# Within a word nothing begins, but behind the escape of a line end.
_BY_SHAPE = [(shape, re.compile(rf"(?:(?<!\w)|(?<=\\[nrtbf])|(?!\w))(?:{shape.pattern})")) for shape in SHAPES]
_PASSWORD = re.compile(r"://[^\s/:@'\"<>$%{}*]{1,64}:[^\s/:@'\"<>$%{}*]{3,64}@[\w.-]+")
_LONGEST_SCHEME = 21
_SCHEME = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}\Z")
# What documentation writes in place of a password.
_PLACEHOLDER = re.compile(r"EXAMPLE|example|x{4,}|X{4,}|\*{3}|:(?:pass(?:word)?|secret|pwd|token|user|PASSWORD)@")


class ShapeGate(NamedTuple):
    """`has_piece` tests whether one of these shapes may be in a text; `shapes` are titles and certain patterns."""

    has_piece: Callable[[str], object]
    shapes: tuple[tuple[str, re.Pattern[str]], ...]


def _gate(shapes: Sequence[SecretShape]) -> ShapeGate:
    """A gate for shapes whose pieces begin with the same letter: one pass over the text looks for all of them."""
    pieces = sorted({piece for shape in shapes for piece in shape.pieces})
    needed = [piece for piece in pieces if not any(other != piece and other in piece for other in pieces)]
    either = re.compile("|".join(map(re.escape, needed))).search
    has_piece = methodcaller("__contains__", needed[0]) if len(needed) == 1 else either
    return ShapeGate(has_piece, tuple((shape.title, shape.certain) for shape in shapes if shape.certain))


_BY_LETTER = sorted((shape for shape in SHAPES if shape.certain), key=lambda shape: shape.pieces[0][0])
_GATES = tuple(_gate(list(shapes)) for _, shapes in groupby(_BY_LETTER, lambda shape: shape.pieces[0][0]))


class Secret(msgspec.Struct, frozen=True):
    """Characters [start, end) of a text. `kind` is for messages, which never contain the characters themselves."""

    kind: str
    start: int
    end: int


def find_secrets(text: str) -> Iterator[Secret]:
    """The secrets in the order of the text; those that overlap are one."""
    end = 0
    for start, stop, kind in sorted((*_shaped(text), *_in_addresses(text))):
        if start >= end and not _PLACEHOLDER.search(text[start:stop]):
            yield Secret(kind, start, stop)
            end = stop


def redact(text: str) -> str:
    """`text` with the values of `KEY=…`, `--token …`, headers, URL credentials and known tokens replaced."""
    for pattern in _BY_NAME:
        text = pattern.sub(rf"\g<before>{REDACTED}\g<after>", text)
    for shape, pattern in _BY_SHAPE if _BEGINS.search(text) else ():
        text = pattern.sub(partial(_redact_match, shape), text)
    return text


def _redact_match(shape: SecretShape, match: re.Match[str]) -> str:
    group = "secret" if "secret" in match.re.groupindex else 0
    if shape.is_valid and not shape.is_valid(match[group]):
        return match[0]
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return f"{match[0][:start]}{REDACTED}{match[0][end:]}"


def _shaped(text: str) -> Iterator[tuple[int, int, str]]:
    for has_piece, shapes in _GATES:
        for kind, certain in shapes if has_piece(text) else ():
            yield from ((match.start(), match.end(), kind) for match in certain.finditer(text))


def _in_addresses(text: str) -> Iterator[tuple[int, int, str]]:
    """`scheme://user:password@host`, found by its `://`, because a scheme may begin at any letter."""
    if "://" not in text:
        return
    for match in _PASSWORD.finditer(text):
        scheme = _SCHEME.search(text, max(0, match.start() - _LONGEST_SCHEME), match.start())
        if scheme:
            yield scheme.start(), match.end(), "a password in an address"
