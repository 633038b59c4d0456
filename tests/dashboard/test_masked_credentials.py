"""Tokens of services are masked by their form, also where a line end or base64 hides them, and columns by their head.

The tokens are filled in by the test, so that no scanner takes this file for a leak: `{h32}` is 32 hexadecimal digits.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from collections.abc import Iterator

import pytest

from dashboard.text.find_secrets import RuleSet
from dashboard.text.masks import apply_masks
from envelopes.text.credentials import redact
from tests.dashboard.test_masking import digest

LETTERS = {
    "h": "0123456789abcdef",
    "d": "0123456789",
    "l": "abcdefghijklmnopqrstuvwxyz0123456789",
    "u": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "a": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
}
LETTERS["w"], LETTERS["b"] = LETTERS["a"] + "_-", LETTERS["a"] + "+/"
UUID = "{h8}-{h4}-{h4}-{h4}-{h12}"
TOKENS = {
    "Discord": ("MTIzNDU2Nzg5MDEyMzQ1Njc4.G{w5}.{w38}", "OTg3NjU0MzIxMDk4NzY1NDMy.Y{w5}.{w27}", "mfa.{w84}"),
    "Azure": (
        "{a3}8Q~{a34}",
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={b86}==;EndpointSuffix=core.windows.net",
        "sv=2022-11-02&ss=b&sp=rl&se=2026-01-01T00:00:00Z&sig={a30}9%2B{a12}%3D",
        '"value": "{b76}+ASt{b6}=="',
        "{b76}ACDb{b6}==",
        "{b33}+AEh{b6}=",
        "{b42}+ACR{b6}",
        "{w44}AzFu{w6}==",
        "{a42}AzSe{a6}",
        "{a76}AZDO{a4}",
        "{a52}JQQJ99{a22}",
    ),
    "Mailgun": ("key-{h32}", "{h32}-{h8}-{h8}"),
    "Mailchimp": ("{h32}-us12",),
    "Facebook": ("EAAC{a120}", "EAAMx{a150}", "123456789012345|{w27}", "IGQVJ{a130}"),
    "GitHub": ("ghp_{a36}", "github_pat_{a22}_{a59}"),
    "GitLab": ("glpat-{w20}", "glffct-{w20}", "GR1348941{w20}", "_gitlab_session={h32}"),
    "Slack": ("xoxb-123456789012-1234567890123-{a24}", "https://hooks.slack.com/triggers/T0123/123456/{h32}"),
    "Stripe": ("sk_prod_{a24}", "rk_live_{a24}", "whsec_{a32}"),
    "Twilio": ("SK{h32}",),
    "SendGrid": ("SG.{w22}.{w43}",),
    "npm": ("npm_{a36}", "//registry.npmjs.org/:_authToken=" + UUID),
    "PyPI": ("pypi-AgEIcHlwaS5vcmc{w150}",),
    "Docker": ("dckr_pat_{w27}", "dckr_oat_{w32}", "SWMTKN-1-{l50}-{l25}"),
    "DigitalOcean": ("dop_v1_{h64}",),
    "Heroku": ("HRKU-AA{w58}", "HEROKU_API_KEY=" + UUID),
    "Shopify": ("shpat_{h32}",),
    "Square": ("EAAAE{w59}", "sq0atp-{w22}", "sq0csp-{w43}"),
    "Telegram": ("123456789:AA{w33}",),
    "Cloudflare": ("v1.0-{h24}-{h146}", "cfut_{a40}{h8}"),
    "Datadog": ("DD_API_KEY={h32}", "DD_APP_KEY={h40}", "DD-API-KEY: {h32}"),
    "Databricks": ("dapi{h32}-2",),
    "HashiCorp": ("hvs.{w95}", "hvb.{w140}", "{a14}.atlasv1.{w67}"),
    "Hugging Face": ("hf_{a34}", "api_org_{a34}"),
    "OpenAI": ("sk-proj-{w74}T3BlbkFJ{w74}", "sk-{a20}T3BlbkFJ{a20}"),
    "Anthropic": ("sk-ant-api03-{w93}AA", "sk-ant-admin01-{w93}AA"),
    "Google": ("AIza{w35}", "GOCSPX-{w28}", "1//0g{w60}", "4/0A{w60}"),
    "AWS": (
        "AKIA{u16}",
        "ABIA{u16}",
        "aws configure set aws_secret_access_key {b40}",
        "IQoJb3JpZ2luX2VjE{b300}",
        "ABSK{b120}==",
        "amzn.mws." + UUID,
        "Access key ID,Secret access key\nAKIA{u16},{b39}9",
    ),
    "Atlassian": ("ATATT3xFfGF0{w170}", "ATBB{a32}"),
    "Linear, Notion": ("lin_api_{a40}", "ntn_{d11}{a35}", "secret_{a43}"),
    "Sentry": ("sntrys_eyJpYXQiO{a60}_{a43}", "sntryu_{h64}"),
    "New Relic": ("NRAK-{u26}7", "NRII-{w32}", "NRJS-{h19}", "{h36}NRAL"),
    "Grafana": ("glsa_{a32}_{h8}", "glc_eyJ{a100}", "eyJrIjoi{a80}=="),
    "Supabase, Vercel": ("sbp_{h40}", "sb_secret_{w31}", "vercel_blob_rw_{a16}_{a30}", "vcp_{a56}", "vercel_{a24}"),
    "other clouds": ("LTAI{a20}", "AKID{a32}", "AKLT{a43}", "AQVN{w36}", "t1.{w200}.{w86}"),
    "other stores": ("AKCp{a69}", "cmVmdGtuOjA{a53}", "mdb_sa_sk_{w40}", "napi_{l64}", "pscale_tkn_{w43}"),
    "other builders": ("CCIPAT_{a22}_{h40}", "bkua_{h40}", "pul-{h40}", "squ_{h40}", "sgp_{h40}", "tskey-auth-{a32}"),
    "other messengers": ("xkeysib-{h64}-{a16}", "re_{a8}_{a24}", "hooks.zapier.com/hooks/catch/123/{a16}/"),
    "other models": ("gsk_{a52}", "nvapi-{w64}", "tvly-{a32}", "pcsk_{a70}", "e2b_{h40}", "fc-{h32}", "sk-or-v1-{h64}"),
    "other services": (
        "ops_eyJ{b260}",
        "A3-{u6}-{u6}-{u5}-{u5}-{u5}-{u5}",
        "pat{a14}.{h64}",
        "dt0c01.{u24}.{u64}",
        "CLOJARS_{h60}",
        "access-sandbox-" + UUID,
        "sl.u.{w140}",
        "rzp_live_{a13}7",
        "access_token$production${l16}${h32}",
        "mfa.{w84}",
        "00D{a12}!AQ{a90}",
        "1000.{h32}.{h32}",
        "sha256~{w43}",
        "xprv9{a106}",
        "secret-token:{a40}",
        "django-insecure-{a50}",
        "Authorization: SSWS 00{w40}",
        "Authorization: Bot {a24}.{a6}.{a27}",
        '{{"kty": "OKP", "d": "{w43}"}}',
    ),
}  # fmt: skip
ROWS = [(service, form) for service, forms in TOKENS.items() for form in forms]


def fill(form: str) -> tuple[str, list[str]]:
    """The form with letters that are always the same, and the pieces that nobody may read."""
    pieces: list[str] = []

    def letters(place: re.Match[str]) -> str:
        count, alphabet = int(place[2]), LETTERS[place[1]]
        seed = hashlib.sha512(f"{form}{place.start()}".encode()).digest() * 8
        pieces.append("".join(alphabet[byte % len(alphabet)] for byte in seed[:count]))
        return pieces[-1]

    text = re.sub(r"\{([a-z])(\d+)\}", letters, form).replace("{{", "{").replace("}}", "}")
    return text, [piece for piece in pieces if len(piece) >= 16] or [max(pieces, key=len)]


def masked(text: str) -> str:
    rules = RuleSet()
    spans = rules.find(text)
    assert rules.may_mask(text) or not spans
    return apply_masks(text, spans, digest)


@pytest.mark.parametrize("service", TOKENS)
def test_tokens_of_a_service_are_masked_by_themselves_in_text_and_in_json(service: str) -> None:
    for form in TOKENS[service]:
        text, pieces = fill(form)
        for shown in (text, f"first\n{text}\nlast", f"x = '{text}'", json.dumps({"output": f"a\n{text}\nb"})):
            found = masked(shown)
            assert [piece for piece in pieces if piece in found] == [], form
            assert len(found) == len(shown)
            assert ("first" in found) is ("first" in shown)
            assert ("last" in found) is ("last" in shown)


def test_previews_of_commands_know_the_same_tokens() -> None:
    for _, form in ROWS:
        text, pieces = fill(form)
        rules = {span.rule for span in RuleSet().find(text)}
        by_name = rules & {"api-key", "token", "authorization", "password", "secret"}
        if not by_name and "\n" not in text:
            preview = redact(f"run {text} now")
            assert [piece for piece in pieces if piece in preview] == [], form
            assert preview.endswith(" now")


CUT = ("ghp_{a36}", "glpat-{w20}", "npm_{a36}", "hf_{a34}", "AIza{w35}", "AKIA{u16}", "dop_v1_{h64}", "SG.{w22}.{w43}",
       "sk-ant-api03-{w93}AA", "eyJ{a33}.eyJ{a60}.{w43}", "eyJ{a33}.eyJ{a300}.{w342}")  # fmt: skip


@pytest.mark.parametrize("form", CUT)
def test_a_token_of_a_known_length_is_masked_where_a_line_end_cuts_it(form: str) -> None:
    text, _ = fill(form)
    for end in range(form.index("{") + 1, len(text)):
        for line_end in ("\n", "\r\n"):
            output = f"the key {text[:end]}{line_end}{text[end:]} and what follows"
            for shown in (output, json.dumps({"output": output})):
                found = masked(shown)
                left, right = text[form.index("{") : end], text[end:]
                assert len(left) < 3 or left not in found, shown
                assert len(right) < 3 or right not in found, shown
                assert "the key" in found
                assert "and what follows" in found


MARKS = (
    "…",
    "...",
    " ... [12 characters truncated] ...",
    "\n\n... [12 lines cut]",
    "…12 tokens truncated…",
    "\n[… cut …]",
)
LEFT = (
    "ghp_a1B2c3",
    "github_pat_11ABC",
    "glpat-a1B2",
    "npm_a1B2c3",
    "hf_a1B2c3",
    "AIzaSy1x",
    "AKIA2E3R",
    "sk-ant-api03",
    "xoxb-1234",
)


@pytest.mark.parametrize("mark", MARKS)
def test_what_is_left_of_a_token_before_the_mark_of_a_cut_is_masked(mark: str) -> None:
    for left in LEFT:
        output = f"the key {left}{mark} and more"
        for shown in (output, json.dumps({"stdout": output}), json.dumps({"stdout": output}, ensure_ascii=False)):
            assert left not in masked(shown)
            assert "and more" in masked(shown)
    assert masked(f"npm_config{mark} hf_hub{mark} ghp_xxxx{mark}") == f"npm_config{mark} hf_hub{mark} ghp_xxxx{mark}"


def test_a_token_of_another_length_takes_nothing_of_the_next_line() -> None:
    token, _ = fill("npm_{a33}")
    for following in ("pwd=hunter22-x", "hf_" + token[4:], "abc: c", "abc.b"):
        found = masked(f"{token}\n{following}")
        assert found.split("\n")[1][:3] in (following[:3], "*00"), found
        assert "hunter22-x" not in found
        assert token[8:30] not in found


ENCODED = (
    "password=hunter22-x\n",
    "DB_HOST=db.internal\nDB_PASSWORD=hunter22-x\nDB_USER=app\n",
    '{"user": "bob", "password": "hunter22-x"}',
    "LANG=C\nAPI_KEY=k3y-val-u3-abc\n" + "PATH=/usr/bin:/bin:/usr/local/bin\n" * 4,
    "api_key: k3y-val-u3\n",
    "token = 'tok-12-34-56'",
)


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
@pytest.mark.parametrize("text", ENCODED)
def test_a_password_with_its_name_is_masked_in_base64(text: str, before: str) -> None:
    """From the name on, whatever position it has in its group of letters, also in lines of 76."""
    data = (before + text).encode()
    form = base64.b64encode(data).decode()
    lines = "\n".join(form[at : at + 76] for at in range(0, len(form), 76))
    for shown in (form, f"env: {form}\nand more", json.dumps({"stdout": form + "\nend"}), lines, json.dumps(lines)):
        rest = "".join(re.findall(r"[A-Za-z0-9+/]+", masked(shown).replace("\\n", "")))
        decoded = [base64.b64decode(rest[at : at + len(rest[at:]) // 4 * 4]) for at in range(4)]
        assert [plain for plain in decoded for secret in (b"hunter22", b"val-u3", b"tok-12") if secret in plain] == []


COLUMNS = (
    ("id,name,password,mail\n1,bob,hunter22x,b@x.de\n2,eve,correct99,e@x\n", "hunter22x", "correct99"),
    ("| user | password |\n|---|---|\n| bob | hunter22x |\n| eve | correct99 |\n\n1234567 | x", "hunter22x"),
    (" id | username |  api_token  \n----+----------+-------------\n  1 | bob      | tok-1a2\n(1 row)\n", "tok-1a2"),
    ("user\ttoken\tother\nbob\tabc123def\tghp_" + "a1B2" * 9 + "\n", "abc123def", "ghp_a1B2"),
    ("password;user\nhunter22x;bob", "hunter22x"),
    ('"name","db_password"\r\n"bob","hunter22x"\r\n', "hunter22x"),
    ("secret,password\nhunter22x,correct99\n", "hunter22x", "correct99"),
)  # fmt: skip


@pytest.mark.parametrize("row", COLUMNS)
def test_a_column_is_masked_whose_head_is_the_name_of_a_secret(row: tuple[str, ...]) -> None:
    text, *secrets = row
    for shown in (text, f"SELECT:\n\n{text}\ndone", json.dumps({"stdout": text, "next": ["x", 1]})):
        found = masked(shown)
        assert [secret for secret in secrets if secret in found] == []
        assert found.count("bob") == shown.count("bob")
        assert found.count("1234567") == shown.count("1234567")
        if shown.startswith("{"):
            assert json.loads(found)["next"] == ["x", 1]


WORDS = "abandon ability able about above absent absorb abstract absurd abuse access accident"
HEX = hashlib.sha256(b"x").hexdigest()


def test_the_words_of_a_wallet_are_masked() -> None:
    for text in (f"mnemonic: {WORDS}", f'"seed phrase": "{WORDS} {WORDS}"', f"The recovery phrase is `{WORDS}`."):
        assert "absent absorb" not in masked(text)
        assert "absent absorb" not in masked(json.dumps({"stdout": text}))


ORDINARY = (
    f"cache-key-{HEX[:32]} and sort-key-{HEX[:32]}",
    f"en-us1 {HEX[:32]}-us-east-1 {HEX[:32]}-user",
    f"{HEX[:8]}-{HEX[8:12]}-4{HEX[13:16]}-a{HEX[17:20]}-{HEX[20:32]}-{HEX[:8]}",
    "data:font/woff;base64," + base64.b64encode(b"\x10\x00\x00\x00" * 60).decode(),
    f"integrity sha512-{base64.b64encode(hashlib.sha512(b'x').digest()).decode()}",
    base64.b64encode(b"def login(user, password, token):\n    return check(password=password)\n" * 4).decode(),
    base64.b64encode(b"The password must have eight letters, and the token: none." * 3).decode(),
    "patternMatching.test re_compile_all_1_of_these secret_santa_2026 vercel_project_2026 api-v1-users-2026-11-24",
    '{"d": "M10 10 L20 20 Z", "k": "v", "d": "abcdefghijklmnop"}',
    "A mnemonic is made of twelve words, which you write down somewhere and never show to anybody else at all.",
    "mnemonic: add, sub, mul; seed phrase: see below",
    "user, password, token\nbob, required, optional\neve, letmein, none",
    "def login(user, password,\n          code=1234567, other=x):\n    pass",
    "| name | token | tokens |\n|---|---|---|\n| gpt | word | 128 |",
    "type,name,count\nsecret,my-app-1,22\npassword,min-length-8,1",
    "MTIz is base64 of 123, MTIzNDU2Nzg5MDEyMzQ1Njc4 of more. EAAA, AKID and LTAI are beginnings.",
    "npm_config_registry npm_lifecycle_event npm_package_version_2 hf_transfer hf_hub_download",
    f"commit {HEX[:40]}\n1/1234567890: {HEX[:12]}",
)  # fmt: skip


def ordinary_forms() -> Iterator[str]:
    for text in ORDINARY:
        yield text
        yield json.dumps({"stdout": f"a\n{text}\nb"})


def test_ordinary_texts_that_resemble_tokens_and_tables_are_not_masked() -> None:
    rules = RuleSet()
    assert {text: rules.find(text) for text in ordinary_forms() if rules.find(text)} == {}


@pytest.mark.parametrize(
    ("document", "secret"),
    [
        ({"text": "card [4111111111111111, 2]"}, "4111111111111111"),
        ({"text": "bob,4111111111111111,eve"}, "4111111111111111"),
        ({"text": '{"card": 4111111111111111}', "more": [1, 4111111111111111]}, "4111111111111111"),
        ({"cards": [4111111111111111, 2], "password": 12345678}, "1111111111"),
        ({"text": "a\npm_" + "a1B2" * 8}, "a1B2a1B2"),
        ({"text": "\u00e9a1" + "b" * 73 + "AZDOabcd"}, "b" * 60),
    ],
)
def test_a_document_of_json_stays_one(document: object, secret: str) -> None:
    """A number in a list becomes a text, one in a text stays in it; a mask leaves the escapes before it whole."""
    for text in (json.dumps(document), json.dumps([document, document])):
        shown = masked(text)
        assert secret not in shown
        assert json.loads(shown)


HEADS = (
    "password",
    "API_KEY",
    "db_pass",
    "auth",
    "x",
    "name",
    "user id",
    "refreshToken",
    "tokens",
    "Cookie",
    "my.token",
)
CELLS = ("hunter22x", "b", "12345678", "", "a b1cdefg", "é1234567", "4111111111111111")
BREAKS = ("\n", "\r\n", "\\n", "\\r\\n", "\\\\n")


def random_text(chance: random.Random) -> str:
    """A table, or a token that something cuts, or both, as they are or in a document of JSON."""
    separator, quotes = chance.choice((",", "|", "\t", ";", " | ", "\\t")), chance.choice(("", '"', "'", "`", '\\"'))
    width, line_end = chance.randrange(1, 5), chance.choice(BREAKS)
    rows = [[chance.choice(HEADS) for _ in range(width)]]
    rows += [[chance.choice(CELLS) for _ in range(width + (chance.random() < 0.1))] for _ in range(chance.randrange(4))]
    text = line_end.join(separator.join(f"{quotes}{cell}{quotes}" for cell in row) for row in rows)
    text = (
        chance.choice(("", "x: ", '{"o": "', "é\n", f"a{line_end}", "| ")) + text + chance.choice(("", '"}', "\nend"))
    )
    if chance.random() < 0.4:
        token, _ = fill(chance.choice(ROWS)[1])
        end = chance.randrange(len(token) + 1)
        text = chance.choice(("x=", "\\n", "é", text)) + token[:end] + chance.choice(("", line_end, "…")) + token[end:]
    return json.dumps({"a": text}) if chance.random() < 0.5 else text


def test_the_first_look_agrees_with_the_search_and_json_stays_json_in_random_texts() -> None:
    chance, found = random.Random(7), 0
    for _ in range(5_000):
        text = random_text(chance)
        shown = masked(text)  # asserts that the first look passes over nothing
        assert len(shown) == len(text)
        found += shown != text
        try:
            json.loads(text)
        except ValueError:
            continue
        assert json.loads(shown), text
    assert found > 1_000
