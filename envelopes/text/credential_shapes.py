"""How credentials look: the one table of shapes by which previews, lint, masks and the log find them."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from envelopes.text.credential_forms import (
    ALNUM,
    CUT,
    CUT_OFF,
    ENCODED_NAMES,
    FORM_BEGINS,
    FORMS,
    HEX,
    JOINED,
    QUAD,
    SERVICES,
    WEB_TOKEN,
    WORD,
    has_digit,
    has_named_value,
    is_basic,
    is_mixed,
    is_no_number,
    is_no_word,
    letters,
    passes_luhn,
)


class SecretShape(msgspec.Struct, frozen=True):
    """How one kind of credential looks.

    Each match of `pattern` begins with `begins`, an expression without groups that RE2 knows too; the secret is the
    group `secret` of it, or all of it, where `is_valid` accepts that. It also matches what is cut short or of another
    release, and examples of documentation.

    `needs` is an expression for RE2 that every match contains, where text that is no secret often has `begins`.

    `inside`: `begins` stands in the middle of the credential. What is before it is the one group that matches, in a
    lookbehind; the secret begins there and ends with the match.

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
    inside: bool = False

    def span(self, match: re.Match[str]) -> tuple[int, int]:
        """The place of the secret in a match of `pattern`; empty where `is_valid` refuses it."""
        group = match.lastgroup or 0
        if self.is_valid and not self.is_valid(match[group]):
            return match.start(), match.start()
        start, end = match.start(group), match.end() if self.inside else match.end(group)
        # It may begin in an escape, with the n of a line end or the digits of a letter, which JSON needs.
        escape = _ESCAPE_BEFORE.search(match.string, max(0, start - 5), start)
        if escape:
            start = escape.start() + (6 if match.string.startswith("u", escape.start() + 1) else 2)
        return min(start, end), end


_ESCAPE_BEFORE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")


SHAPES = (
    SecretShape(
        "private-key",
        "a private key",
        "-----BEGIN|Private-Lines: ",
        r"(?:-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----(?!['`)])|Private-Lines: \d{1,3})"
        rf"(?=(?:[^\"]|{JOINED}){{0,200}}?[A-Za-z0-9+/=]{{16}})"
        rf"(?P<secret>(?:[^\"P\\-]|\\+(?![\\\"])|-(?!----)|P(?!rivate-MAC)|{JOINED}){{16,8000}})",
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
        "A(?:KIA|SIA|ROA|IDA|BIA|CCA)[A-Z0-9]",
        # With the secret key behind it, as in a table.
        rf"A(?:KIA|SIA|ROA|IDA|BIA|CCA)(?:(?:{letters('[A-Z0-9]', 16)}|[A-Z0-9]{{12,20}})(?![a-z0-9])|{CUT_OFF})"
        r"(?:[ \t,;:|\"']{1,20}(?=[A-Za-z+/]*\d)[A-Za-z0-9+/]{40}(?![A-Za-z0-9+/]))?",
        certain=re.compile(r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
        pieces=("AKIA", "ASIA"),
    ),
    SecretShape(
        "github-token",
        "a GitHub token",
        "gh[opusr]_|github_pat_",
        rf"gh[opusr]_{letters(ALNUM, 36)}|(?:gh[opusr]|github_pat)_(?:\w{{16,255}}|{CUT_OFF})",
        certain=re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"),
        pieces=("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    SecretShape(
        "gitlab-token",
        "a GitLab token",
        "gl(?:pat|dt|rt|ptt|cbt|oas|soat|ft|imt|agent|ffct)-|GR1348941",
        rf"gl(?:pat|dt|rt|ft|ffct)-{letters(WORD, 20)}|GR1348941[\w-]{{20}}|"
        rf"gl(?:pat|dt|rt|ptt|cbt|oas|soat|ft|imt|agent|ffct)-(?:[\w.-]{{16,255}}|{CUT_OFF})",
        certain=re.compile(r"\bglpat-[A-Za-z0-9_-]{20}\b"),
        pieces=("glpat-",),
    ),
    SecretShape(
        "slack-token",
        "a Slack token",
        "xox[a-z]-|xapp-",
        rf"(?:xox[a-z]|xapp)-(?:[\w-]{{10,255}}|{CUT_OFF})",
        certain=re.compile(r"\bxox[abprs]-[0-9]{8,}-[A-Za-z0-9-]{16,}"),
        pieces=("xox",),
    ),
    SecretShape(
        "slack-webhook",
        "a Slack webhook",
        r"hooks\.slack\.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/-]{16,255})",
    ),
    SecretShape(
        "anthropic-key",
        "an Anthropic key",
        "sk-ant-",
        rf"sk-ant-[a-z]{{3,5}}\d\d-{letters(WORD, 95)}|sk-ant-(?:[\w-]{{12,255}}|{CUT_OFF})",
        certain=re.compile(r"\bsk-ant-[a-z0-9]+-[A-Za-z0-9_-]{40,}"),
        pieces=("sk-ant-",),
    ),
    SecretShape(
        "openai-key",
        "an OpenAI key",
        "sk-",
        r"sk-[\w-]{16,255}",
        has_digit,
        re.compile(r"\bsk-(?:proj-[A-Za-z0-9_-]{40,}|[A-Za-z0-9]{48}\b)"),
        ("sk-",),
        needs=r"sk-[^\x00-,./:-@\[-^`{-\x7f]{16}",
    ),
    SecretShape(
        "google-key",
        "a Google key",
        "AIza",
        rf"AIza(?:{letters(WORD, 35)}|[\w-]{{30,60}}|{CUT_OFF})",
        certain=re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b"),
        pieces=("AIza",),
    ),
    SecretShape(
        "google-token",
        "a Google token",
        r"ya29\.|GOCSPX-|1//0[A-Za-z0-9]|4/0A",
        r"(?:ya29\.|GOCSPX-)[\w.-]{16,1000}|(?:1//0|4/0A)[\w-]{40,300}",
    ),
    SecretShape(
        "stripe-key",
        "a Stripe key",
        "[sr]k_(?:live|test|prod)_|whsec_",
        rf"(?:[sr]k_(?:live|test|prod)|whsec)_(?:\w{{16,255}}|{CUT_OFF})",
        certain=re.compile(r"\b[sr]k_live_[A-Za-z0-9]{24,}\b"),
        pieces=("k_live_",),
    ),
    SecretShape(
        "sendgrid-key",
        "a SendGrid key",
        r"SG\.",
        rf"SG\.(?:(?:{WORD}(?:{CUT})?){{22}}\.(?:{CUT})?{letters(WORD, 43)}|[\w-]{{16,64}}\.[\w-]{{16,64}})",
    ),
    SecretShape("npm-token", "an npm token", "npm_", rf"npm_(?:{letters(ALNUM, 36)}|{ALNUM}{{30,40}}|{CUT_OFF})"),
    SecretShape("pypi-token", "a PyPI token", "pypi-AgE", r"pypi-AgE[\w-]{16,500}"),
    SecretShape(
        "huggingface-token",
        "a Hugging Face token",
        "hf_|api_org_",
        rf"(?:hf|api_org)_(?:{letters(ALNUM, 34)}|{ALNUM}{{30,40}}|{CUT_OFF})",
    ),
    SecretShape(
        "digitalocean-token",
        "a DigitalOcean token",
        "do[opr]_v1_",
        rf"do[opr]_v1_(?:{letters(HEX, 64)}|{HEX}{{40,64}})",
    ),
    SecretShape(
        "service-token",
        "a token of another service, by its first letters",
        SERVICES,
        rf"(?:{SERVICES})[\w.=-]{{20,400}}",
        is_mixed,
        needs=rf"(?:{SERVICES})[A-Za-z0-9_.=-]{{20}}",
    ),
    SecretShape(
        "service-key",
        "a key of another service, by its whole form",
        FORM_BEGINS,
        rf"(?<!-)(?:{'|'.join(FORMS)})(?![A-Za-z0-9(])",
        is_mixed,
    ),
    SecretShape(
        "encoded-token",
        "a token in base64",
        "ops_eyJ|fm2_|fm1[ar]_|ABSK|bedrock-api-key-|IQoJb3JpZ2luX2VjE|eyJrIjoi",
        r"(?:ops_eyJ|fm2_|fm1[ar]_|ABSK|bedrock-api-key-|IQoJb3JpZ2luX2VjE|eyJrIjoi)(?:[A-Za-z0-9+/_-]|%2[BF]){60,4000}={0,2}",
    ),
    SecretShape(
        "facebook-token",
        "a token of Facebook or Square",
        r"EAA[A-Z][A-Za-z0-9]|IG[A-Z]V[A-Za-z0-9]|[0-9]{15,16}\|",
        r"(?<![+/-])(?:EAA[A-Z]|IG[A-Z]V)[\w-]{55,400}(?![+/=])|\d{15,16}\|(?P<secret>[\w-]{27,40})(?![\w|-])",
        is_mixed,
        needs=r"EAA[A-Z][A-Za-z0-9_-]{55}|IG[A-Z]V[A-Za-z0-9_-]{55}|[0-9]{15}\|[A-Za-z0-9_-]{27}",
    ),
    SecretShape(
        "discord-token",
        "a token of a Discord bot",
        f"(?:{QUAD}){{2}}",
        rf"(?:{QUAD}){{5,6}}[\w-]{{0,3}}\.[\w-]{{5,7}}\.[\w-]{{25,45}}",
        needs=rf"(?:{QUAD}){{5}}[A-Za-z0-9_-]{{0,3}}\.",
    ),
    SecretShape(
        "azure-key",
        "a key or client secret of Azure",
        r"[0-9]Q~|\+(?:ASt|ABa|AMC|ASb|AEh|ARm|ACR)|APIM|ACDb|AIoT|AZDO|AzFu|AzSe|JQQJ9[0-9DH]",
        r"(?<=(?P<client>[\w~.]{3}))\dQ~[\w~.-]{31,34}(?![\w~.-])"
        r"|(?<=(?P<account>[A-Za-z0-9+/]{76}))(?:APIM|ACDb|\+(?:ABa|AMC|ASt))[A-Za-z0-9+/]{5,7}=="
        r"|(?<=(?P<bus>[A-Za-z0-9+/]{33}))(?:AIoT|\+(?:ASb|AEh|ARm))[A-Za-z0-9+/]{6}="
        r"|(?<=(?P<registry>[A-Za-z0-9+/]{42}))\+ACR[A-Za-z0-9+/]{6}(?!\w)"
        r"|(?<=(?P<function>[\w-]{44}))AzFu[\w-]{5,7}=="
        r"|(?<=(?P<search>[A-Za-z0-9]{42}))AzSe[A-Za-z0-9]{6}(?!\w)"
        r"|(?<=(?P<devops>[A-Za-z0-9]{76}))AZDO[A-Za-z0-9]{4}(?!\w)"
        r"|(?<=(?P<other>[A-Za-z0-9]{52}))JQQJ9[\dDH][A-Za-z0-9]{20,30}={0,2}",
        inside=True,
    ),
    SecretShape(
        "suffixed-key",
        "a key of Mailgun, Mailchimp, New Relic, MaxMind or Terraform, by its last letters",
        r"-[0-9a-f]{8}-[0-9a-f]{8}|-us[0-9]|NRAL|_mmk|\.atlasv1\.",
        r"(?<=(?P<hex>[0-9a-f]{32}))(?:-[0-9a-f]{8}-[0-9a-f]{8}|-us\d{1,2})(?![\w-])"
        r"|(?<=(?P<licence>[0-9a-f]{36}))NRAL(?!\w)"
        r"|(?<=(?P<maps>[A-Za-z0-9]{6}_[A-Za-z0-9]{29}))_mmk(?!\w)"
        r"|(?<=(?P<user>[A-Za-z0-9]{14}))\.atlasv1\.[\w=-]{40,80}",
        inside=True,
    ),
    SecretShape(
        "encoded-password",
        "a password or token with its name, in base64",
        ENCODED_NAMES,
        # An atomic group: before 3.11.5, Python matches a possessive repetition of a group wrongly, or fails on it.
        rf"(?P<secret>(?>(?:[A-Za-z0-9+/]{{1,999}}+(?:(?<=[A-Za-z0-9+/]{{60}}){CUT})?){{1,4}})={{0,2}})",
        has_named_value,
        inside=True,
    ),
    SecretShape("telegram-token", "a token of a Telegram bot", ":AA", r"(?<=\d):(?P<secret>AA[\w-]{32,36})(?![\w-])"),
    SecretShape(
        "webhook",
        "the secret in the address of a webhook",
        r"discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/webhookb2/|open\.(?:feishu\.cn|larksuite\.com)/open-apis/|"
        r"hooks\.zapier\.com/hooks/catch/|maker\.ifttt\.com/",
        r"(?:discord(?:app)?\.com/api/webhooks/\d{10,25}/|webhook\.office\.com/webhookb2/|"
        r"open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/)(?P<secret>[^\s\"'<>\\]{30,400})|"
        r"hooks\.zapier\.com/hooks/catch/\d{3,12}/(?P<hook>\w{5,20})|"
        r"maker\.ifttt\.com/(?:trigger/[\w-]{1,60}/)?(?:json/)?(?:with/key|use)/(?P<key>[\w-]{10,80})",
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
        is_mixed,
        needs=r"(?:[Ss]ig(?:nature)?=|response=\\*\")[A-Za-z0-9+/_-]{16}",
    ),
    SecretShape(
        "session-cookie",
        "the id of a session, or a cookie as a browser or curl stores it",
        r"JSESSIONID=|PHPSESSID=|ASP\.NET_SessionId=|connect\.sid=|sessionid=|_gitlab_session=|(?:TRUE|FALSE)(?:\t|\\{1,7}t)[0-9]",
        r"(?:(?:JSESSIONID|PHPSESSID|ASP\.NET_SessionId|connect\.sid|sessionid|_gitlab_session)=|"
        r"(?:TRUE|FALSE)(?:\t|\\{1,7}t)\d{1,20}(?:\t|\\{1,7}t)[\w.%-]{1,200}(?:\t|\\{1,7}t))(?P<secret>[^\s\"'<>\\,;]{10,4000})",
        is_mixed,
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
        is_no_number,
        needs=r"(?:-u ?|--user[ =]|--proxy-user[ =])[^ :/@$]+:[^ /-]{3}|sshpass +-p|(?:mysql|maria)[^\n]* -p[^ \n]",
    ),
    SecretShape(
        "sql-password",
        "a password in a statement of SQL",
        "(?i:password|identified by) '",
        r"(?i:password|identified by) '(?P<secret>[^\s'\\]{3,200})'",
        is_no_word,
    ),
    SecretShape("twilio-key", "a Twilio key", "SK[0-9a-f]", r"SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    SecretShape(
        "private-web-key",
        "the private part of a JSON web key",
        r"\\{0,7}\"(?:d|k|dp|dq|qi)\\{0,7}\" ?: ?\\{0,7}\"[A-Za-z0-9_-]{16}",
        r"\\{0,7}\"\w{1,2}\\{0,7}\" ?: ?\\{0,7}\"(?P<secret>[\w-]{27,1400})\\{0,7}\"",
        is_mixed,
    ),
    SecretShape(
        "seed-phrase",
        "the words of a wallet",
        r"(?i:mnemonic|(?:seed|recovery|secret)[ _-]?phrase|seed[ _-]words)",
        r"[\w -]{8,16}?(?:\\{0,7}[\"'])?[ \t]{0,4}(?:[:=]|is)[ \t]{0,4}(?:\\{0,7}[\"'`])?"
        r"(?P<secret>[a-z]{3,8}(?: [a-z]{3,8}){11}(?:(?: [a-z]{3,8}){3}){0,4})(?![ ]?\w)",
    ),
    # Documentation is full of web tokens, so none is certain.
    SecretShape(
        "jwt",
        "a JSON web token",
        "eyJ",
        rf"{WEB_TOKEN}|eyJ[\w-]{{8,4000}}+\.[\w-]{{4,8000}}+(?:\.[\w-]{{0,2000}}+)?",
    ),
    SecretShape(
        "bearer",
        "a Bearer header",
        "[Bb](?:earer|EARER) ",
        r"[Bb](?:earer|EARER) +(?P<secret>[A-Za-z0-9._~+/-]{8,4000}={0,2})",
        has_digit,
    ),
    SecretShape(
        "basic",
        "a Basic header",
        "[Bb](?:asic|ASIC) ",
        r"[Bb](?:asic|ASIC) +(?P<secret>[A-Za-z0-9+/]{6,400}={0,2})",
        is_basic,
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
