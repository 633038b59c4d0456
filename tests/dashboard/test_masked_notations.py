"""A secret is masked in whatever notation it stands, and ordinary texts that look alike are not."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

import pytest
from django.test import Client

from dashboard.api.reading import cut_window
from dashboard.models import Project
from dashboard.text.find_secrets import RuleSet
from dashboard.text.masking_rules import KeyRule, PatternRule
from dashboard.text.masks import BLOCK, MOST_MASKS, MaskedStream, Masks, apply_masks, mask_around, masking
from envelopes.text.credentials import redact
from tests.dashboard import test_masking
from tests.dashboard.test_masking import GITHUB, JWT, addresses, digest

BASIC = base64.b64encode(b"deploy:Gr33nT3a!x").decode()
LINES = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAA\nAAABAAAAMwAAAAtzc2gtZWQyNTUxOQAAACB1c2VkVG9CZUFTZWNy"
LATER = "AAAAtzc2gtZWQyNTUxOQ"  # in the second line of the key


def pem(kind: str, before: str = "", lines: str = LINES) -> str:
    text = f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"
    return "\n".join(before + line for line in text.split("\n"))


# By notation: a text, and each part of it that nobody may read.
NOTATIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "colours and overstriking": (
        ("\x1b[32mpass\x1b[0mword\x1b[0m=\x1b[33mswordf\x1b[0m22-x", "swordf"),
        ("ghp_a1B2c3D4^[[1me5F6g7H8i9J0k1L2m3N4o5P6q7R8", "e5F6g7H8i9J0"),
        ("\x1b]8;;https://x.y/?token=abc123def456\x1b\\link\x1b]8;;\x1b\\", "abc123def456"),
    ),
    "escapes": (
        (r'{"password":"\u0071werty\u0032\u0032-x"}', "werty"),
        (r'{"\u0070assword":"hunter22-x"}', "hunter22-x"),
        (json.dumps("ghp_a1B2c3D4\u200be5F6g7H8i9J0k1L2m3N4o5P6q7R8"), "e5F6g7H8i9J0"),
        (json.dumps("password=hunter22-x".encode("utf-16-le").decode("latin-1")), "u0000n\\u0000t"),
        (json.dumps(json.dumps(json.dumps({"api_key": "k3y-val-u3"}))), "k3y-val-u3"),
        ("next=%2Flogin%3Fpassword%3Dhunter22-x%26u%3D1", "hunter22"),
        ("https://h/x?pass%77ord=hunter22-x", "hunter22-x"),
        ("https://h/?q=" + quote(quote(f"token={GITHUB}", safe=""), safe=""), GITHUB[4:20]),
        ("password=&quot;hunter22-x&quot;", "hunter22"),
        ("&#112;assword=hunter22-x &amp;quot;", "hunter22"),
        ("密码 password：hunter22-x", "hunter22"),
        ('1,"{""password"": ""hunter 22""}"', "hunter 22"),
    ),
    "headers": (
        (f"authorization: basic {BASIC}", BASIC),
        (f"Proxy-Authorization: BASIC {BASIC}", BASIC),
        ("authorization: bEaReR abc.def-123_xyz", "abc.def-123_xyz"),
        (
            "> Authorization: Bearer tok_abc123456\n> Cookie: sid=abc123def; t=x\n< Set-Cookie: s=zzz999yyy; Secure",
            "tok_abc123456",
            "abc123def",
            "zzz999yyy",
        ),
        ('Authorization: Digest username="u", response="6629fae49393a05397450978507c4ef1"', "6629fae49393a05"),
        ("AWS4-HMAC-SHA256 SignedHeaders=host, Signature=fe5f80f77d5fa3beca038a248ff027d0", "fe5f80f77d5fa3"),
        ('{"set-cookie": ["sid=abc123def; Path=/", "t=q8w7e6r5"]}', "abc123def", "q8w7e6r5"),
        ('[["Authorization", "Token abc-123-def"], ["X-Api-Key", "k-1-2-3-x"]]', "abc-123-def", "k-1-2-3-x"),
        ("x.com\tFALSE\t/\tTRUE\t0\tsid\tabc123def456", "abc123def456"),
        ("Cookie JSESSIONID=0123456789ABCDEF", "0123456789ABCDEF"),
    ),
    "command lines": (
        ("curl -u admin:s3cretPw9 https://x", "s3cretPw9"),
        ("curl --user 'admin:s3cretPw9' https://x", "s3cretPw9"),
        ("mysql -uroot -ps3cretPw9 db", "s3cretPw9"),
        ("sshpass -p s3cretPw9 ssh a@b", "s3cretPw9"),
        ("gpg --passphrase 'two words 9' -d x", "two words"),
        ('["--token","tok-list-78"]', "tok-list-78"),
        ("export TOKEN=$'abc-123-x'", "abc-123"),
        ("set -gx API_TOKEN abcdef0123", "abcdef0123"),
        ("machine x login y password correcthorse", "correcthorse"),
    ),
    "settings": (
        ("password: |\n  line-one-s3cret\n\n  line2 of it\nuser: x", "line-one-s3cret", "line2 of it"),
        ("db:\n  password: 'it''s s3cret 99'", "s3cret 99"),
        ("password: correcthorsebattery\nuser: x", "correcthorse"),
        ("[db]\npassword = letmeinplease\n", "letmeinplease"),
        ('password = """\ns3cretPw9 and more\n"""', "s3cretPw9"),
        ("db_password = <<EOF\ns3cretPw9\nEOF", "s3cretPw9"),
        ('  password             = "s3cretPw9"', "s3cretPw9"),
        ('~ secret_key = "old-0-val" -> "new-1-val"', "old-0-val", "new-1-val"),
        ("- name: DB_PASSWORD\n  value: correcthorse", "correcthorse"),
        ('{\n "name": "DB_PASSWORD",\n "value": "correcthorse"\n}', "correcthorse"),
        ('{"Env": ["PATH=/bin", "MYSQL_ROOT_PASSWORD=t0psecret!"]}', "t0psecret!"),
        ("Config(user='a', token=SecretStr('abc-99'))", "abc-99"),
        ("CREATE USER x IDENTIFIED BY 's3cretPw9'; ALTER USER y PASSWORD 'Pw9s3cret'", "s3cretPw9", "Pw9s3cret"),
        ("The password is `s3cret-Pw9`, the token is abc-123-d.", "s3cret-Pw9", "abc-123-d"),
        ("ansible_become_pass: hunter22x\nuserPass='correct9'", "hunter22x", "correct9"),
    ),
    "elements": (
        ('<password type="plain">s3cretPw9</password>', "s3cretPw9"),
        ("<wsse:Password>s3cretPw9</wsse:Password>", "s3cretPw9"),
        ("<key>password</key>\n<string>s3cretPw9</string>", "s3cretPw9"),
        ('<input type="password" id="p" value="s3cretPw9">', "s3cretPw9"),
        ('<add key="DbPassword" value="correct horse"/>', "correct horse"),
    ),
    "addresses": (
        ("postgres://u:p@ss9w0rd@db.x/app", "ss9w0rd"),
        ("mysql://root:p%40ss9w0rd@db/app", "ss9w0rd"),
        ("amqp://u:pa/ss9w0rd@h/v", "ss9w0rd"),
        ("redis://:s3cretPw9@cache:6379/0", "s3cretPw9"),
        ("https://3f786850e387550fdab836ed7e6dc881de23001b@github.com/x/y.git", "3f786850e387"),
        ("jdbc:oracle:thin:scott/t1gerPw9@//h:1521/x", "t1gerPw9"),
        ("https://a.blob.core.windows.net/c?sv=2020&sig=Zm9vYmFyYmF6cXV4MTIz%3D&se=2026", "Zm9vYmFyYmF6"),
        ("https://b.s3.amazonaws.com/k?X-Amz-Signature=fe5f80f77d5fa3beca038a248ff027d0&X-Amz-Expires=9", "fe5f80f7"),
        ("https://discord.com/api/webhooks/123456789012345678/abcdefABCDEF0123456789_-xyzxyzxyzxyz", "abcdefABCDEF"),
    ),
    "private keys": (
        (pem("RSA ", "+"), LATER),
        (pem("EC ", "-"), LATER),
        (pem("OPENSSH ", "    12\t"), LATER),
        (pem("", "  "), LATER),
        (pem("RSA ", "", f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00AA\n\n{LINES}"), LATER),
        (pem("").replace("\n", "\r\n"), LATER),
        ('"' + pem("").replace("\n", '\\n" +\n    "') + '"', LATER),
        (json.dumps({"private_key": pem("")}), LATER),
        ("Private-Lines: 1\nAAAAIHVzZWRUb0JlQVNlY3JldEtleUlu\nPrivate-MAC: 1234", "AAAAIHVzZWRUb0Jl"),
        (f"client-key-data: {base64.b64encode(pem('EC ').encode()).decode()}", "QUFBQU1"),
    ),
    "services": (
        ("hvs.CAESIAbCdEfGhIjKlMnOpQrStUvWxYz0123456789", "CAESIAbCdEf"),
        ("shpat_0123456789abcdef0123456789abcdef", "0123456789abcdef"),
        ("gsk_abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789", "abcdefghijkl"),
        ("bot 123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "AAHdqTcvCH1v"),
        ("glpat-AbCdEfGhIj.01.0a1b2c3d4", "AbCdEfGhIj"),
        ("root:$6$rounds=5000$saltsalt$abcdefghijklmnop0123456789./:19000:0:99999", "abcdefghijklmnop"),
        (f"https://h/cb#id_token={JWT}&state=1", "eyJzdWIiOiIx"),
    ),
}
FORMS = [row for rows in NOTATIONS.values() for row in rows]
HASH = hashlib.sha256(b"x").hexdigest()
PIXELS = base64.b64encode(bytes(range(256)) * 4).decode()
ORDINARY = (
    f"commit {HASH[:40]}\nMerge: {HASH[:7]} {HASH[8:15]}",
    f"index {HASH[:11]}..{HASH[20:31]} 100644\n--- a/auth/token.py\n+++ b/auth/token.py",
    f"{HASH}  dist/counterfoil.tar.gz",
    str(UUID(HASH[:32])),
    f'"integrity": "sha512-{PIXELS[:86]}==",\n"resolved": "https://registry.npmjs.org/@babel/core/-/core-7.0.0.tgz"',
    f'[[package]]\nname = "tokenizers"\nsource = "registry+https://github.com/x/y"\nchecksum = "{HASH}"',
    f"left-pad@1.3.0:\n  version: 1.3.0\n  hash: {HASH[:32]}",
    f"data:image/png;base64,{PIXELS}",
    f"sha256:{HASH} docker.io/library/python:3.11@sha256:{HASH}",
    "def login(user: str, password: str, token: Token) -> Session:\n    return Session(token=token, auth=auth)",
    "password: string;\n  token: AuthToken | null;\n  secret?: string",
    "const token = await getToken(request);\nconst { password } = form;",
    "password = models.CharField(max_length=128)\ntoken_count = 512",
    "docker run -u 1000:1000 -u $(id -u):$(id -g) -p 8080:80 image",
    "http://localhost:3000/@vite/client http://[::1]:8080/@x https://h:8443/a@b",
    "git@github.com:owner/repo.git ssh://git@github.com/owner/repo",
    "100%20done, 50%25 of a &amp; b, ^[[0m and C:\\users\\x1",
    "max_tokens=4096 total_tokens: 128 'input_tokens': 77",
    "Basic usage of a token ring: the auth module is in auth.py",
    '["password", "token"] and ("username", "password")',
    "<Password label={t('x')} /> <TokenList items={items}>3 items</TokenList>",
    "The token is 32 bytes long; the password is required; the key is sorted.",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIE\n-----END CERTIFICATE-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExamplePublicKeyOfNobodyInTheWorld me@host",
    "awk '{print $1}' file; echo $6 $5$4; test $1$2",
    "-- password 'required'\nselect password from users where password is not null",
    "order 1234567890123456, build 20261124023045, phone +49 30 1234567",
    "keyboard: qwerty\nmonkey=banana2\nsort-key: name2\nprimary_key=id2",
)


@pytest.mark.parametrize("notation", NOTATIONS)
def test_no_secret_can_be_read_whatever_its_notation(notation: str) -> None:
    """By itself, in a line of other text, and as a string of JSON, which stays one wherever it was cut."""
    rules = RuleSet()
    for text, *secrets in NOTATIONS[notation]:
        for form in (text, f"first\n{text}\nlast", json.dumps({"output": f"a\n{text}\nb", "next": ["x", 1]})):
            spans = rules.find(form)
            masked = apply_masks(form, spans, digest)
            hidden = [part for secret in secrets for part in (secret, json.dumps(secret)[1:-1])]
            assert [part for part in hidden if part in masked] == [], form
            assert rules.may_mask(form) or not spans, form
            assert len(masked) == len(form)
            assert masked.count("\n") == form.count("\n")
        for end in range(0, len(text), 1 + len(text) // 60):
            document = json.dumps({"title": text[:end], "next": [{"token": "x-1-y-2"}, "x"]})
            cut = json.loads(apply_masks(document, rules.find(document), digest))
            assert cut["next"][1] == "x"


def test_ordinary_texts_are_not_masked() -> None:
    rules = RuleSet()
    assert {text: rules.find(text) for text in ORDINARY if rules.find(text)} == {}
    assert {text: redact(text) for text in ORDINARY[:9] if redact(text) != text} == {}


KEY = pem("RSA ", lines="\n".join(LINES.replace("\n", "") for _ in range(40)))


def test_a_window_that_begins_or_ends_inside_a_secret_shows_nothing_of_it() -> None:
    text = "a line\n" * 3_000 + KEY + "\nanother line" * 3_000
    first = text.index("PRIVATE KEY-----\n") + 17
    with masking(Masks()):
        for start in (first + 5, first + 1_500, first + 3_000):
            for shown in (
                mask_around(text, start, start + 200)[start : start + 200],
                cut_window(text, start, 200).text,
            ):
                assert re.fullmatch(r"[*0-9a-f\s]+", shown), shown
        assert re.fullmatch(r"[0-9a-f]*\*+", cut_window("password=hunter22-abcdef", 13, 50).text)
        assert "word" not in cut_window("a word\nand others", 0, 50, "api_key").text
        assert cut_window("a word\nand others", 2, 4, "summary").text == "word"


def test_a_window_counts_no_secret_that_stands_behind_it() -> None:
    text = "password=hunter22-abcdef\n" + "a line\n" * 40 + "password=hunter22-behind\n"
    with masking(Masks()) as masks:
        assert masks
        assert "hunter22" not in mask_around(text, 0, 100)[:100]
        assert masks.places.total() == 1


KNOWN_BY_ITS_END = "f9db5b56cc0cbc1b0994b81965e6fc10ef77NRAL"


@pytest.mark.parametrize(
    "rules",
    [
        RuleSet(),
        RuleSet(own=[KeyRule("ticket", "Ticket", "ticket", masks_any=True), PatternRule("word", "Word", "rab+it")]),
    ],
)
def test_a_window_has_the_masks_of_the_whole_text(rules: RuleSet) -> None:
    notations = [text for group in NOTATIONS.values() for text, *_ in group]
    text = "\n".join([*notations, KEY, "ticket: 4711-abcd and a rabbit", KNOWN_BY_ITS_END, KEY, *notations[::-1]])
    whole, inside = Masks(rules).mask(text), text.index(KNOWN_BY_ITS_END)
    with masking(Masks(rules)):
        for start in (*range(0, len(text), 397), *range(inside, inside + len(KNOWN_BY_ITS_END))):
            for size in (1, 60, 700):
                shown = mask_around(text, start, start + size)[start : start + size]
                assert shown == whole[start : start + size], (start, size)


@pytest.mark.parametrize("before", [8, 60, 1_000, 2_400])
def test_a_download_shows_nothing_of_a_secret_on_both_sides_of_a_block(before: int) -> None:
    data = b"plain " * ((BLOCK - before) // 6) + KEY.encode() + b" plain" * 100
    stream = MaskedStream(io.BytesIO(data), Masks())
    whole = stream.read()
    assert len(whole) == len(data)
    assert LATER.encode() in data
    assert LATER.encode() not in whole
    assert whole.count(b"plain") == data.count(b"plain")
    stream.seek(BLOCK + 100)
    assert stream.read(500) == whole[BLOCK + 100 : BLOCK + 600]


def test_what_is_beyond_the_most_masks_of_a_page_is_hidden_and_not_shown() -> None:
    text = "password=h1x-y2\n" * (MOST_MASKS + 20)
    masks = Masks(seconds=60)
    masked = masks.mask(text)
    assert "h1x" not in masked
    assert masked.count("password") == MOST_MASKS + 1  # those behind it are hidden with their names
    assert masks.hidden > 0


@pytest.mark.extended
def test_no_page_shows_a_secret_in_one_of_the_notations(
    project: Project, tmp_path: Path, alice: object, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store of `test_masking` with these texts in the place of its own: in arguments, messages, titles, files."""
    monkeypatch.setattr(test_masking, "ALL", "\n".join(text for text, *_ in FORMS))
    monkeypatch.setattr(test_masking, "READABLE", [secret for _, *secrets in FORMS for secret in secrets])
    run = test_masking.build_store(project, tmp_path)
    shown = {}
    for _, address in addresses(run):
        response = client.get(address)
        body = b"".join(response.streaming_content) if response.streaming else response.content
        assert response.status_code < 500
        if leaks := test_masking.readable(body.decode("utf-8", "replace")):
            shown[address] = leaks
    assert not shown
