"""The parts of `credential_shapes`: checks of a match, and pieces of expressions."""

from __future__ import annotations

import base64
import re


def passes_luhn(number: str) -> bool:
    digits = [int(digit) for digit in reversed(number) if digit.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[1::2]]
    return len(set(digits)) > 1 and (sum(digits[::2]) + sum(doubled)) % 10 == 0


def is_basic(value: str) -> bool:
    """True for the base64 form of `user:password`."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False


def has_digit(value: str) -> bool:
    return len(value) > 20 or any(character.isdigit() for character in value)


def is_mixed(value: str) -> bool:
    return not value.isalpha() and not value.isdigit() and any(character.isdigit() for character in value)


def is_no_word(value: str) -> bool:
    return not (value.isalpha() and value.islower())


def is_no_number(value: str) -> bool:
    return not value.isdigit()


# A password or the like behind its name, in a text that was base64: the names as they are in it at each of the three
# positions in a group of letters, without the letters that their neighbours change.
_ENCODED_WORDS = (
    "password",
    "Password",
    "PASSWORD",
    "passwd",
    "secret",
    "SECRET",
    "token",
    "TOKEN",
    "api_key",
    "API_KEY",
    "apiKey",
)
ENCODED_NAMES = "|".join(
    base64.b64encode(b"0" * shift + word.encode() + b"00")[-(-8 * shift // 6) : (shift + len(word)) * 8 // 6].decode()
    for word in _ENCODED_WORDS
    for shift in range(3)
)
_NAMED_VALUE = re.compile(  # the first letter of the name may not be whole
    r"(?i:assword|asswd|ecret|oken|pi_?key)\"?\s{0,4}[:=]\s{0,4}[\"']?(?=[^\s\"',;]{0,60}\d)[^\s\"',;()\[\]{}$<>]{6}"
)


def has_named_value(encoded: str) -> bool:
    """True for the base64 form of `password=…`, from the name on: its first letter may be of any group."""
    letters = re.sub(r"[^A-Za-z0-9+/]", "", encoded.replace("\\n", "").replace("\\r", ""))[:400]
    texts = ("A" * before + letters for before in (0, 2, 3))
    return any(
        _NAMED_VALUE.search(base64.b64decode(text[: len(text) // 4 * 4]).decode("latin-1"), 0, 40) for text in texts
    )


# A line end, also an escaped one, that cuts a token where a terminal or a listing has no more room.
CUT = r"(?:\r?\n|(?:\\{1,7}r)?\\{1,7}n)"


def letters(letter: str, count: int) -> str:
    """So many letters and no more, which line ends may cut. The name of a value in the next line is none of them."""
    return rf"(?:{letter}(?:{CUT}(?={letter}))?){{{count}}}(?![\w=:./@-])"


# What is left of a token before the mark of a cut, of a program or of a page: `…`, `...`, or one of these in brackets.
CUT_OFF = (
    rf"(?=[A-Za-z_-]{{0,60}}\d)[\w-]{{4,100}}"
    rf"(?=(?:{CUT}){{0,3}} ?[\[(<]?(?:\.\.\.|\u2026|\xe2\x80\xa6|\\{{1,7}}u2026))"
)
WORD, ALNUM, HEX = r"[\w-]", "[A-Za-z0-9]", "[0-9a-f]"
_UUID = f"{HEX}{{8}}(?:-{HEX}{{4}}){{3}}-{HEX}{{12}}"
_PART = rf"(?>(?:{WORD}++(?>(?:{CUT}(?={WORD}))?)){{1,100}})(?:{CUT})?\.(?:{CUT})?"
_SIGNATURE = "|".join(letters(WORD, count) for count in (683, 512, 342, 176, 128, 86, 64, 43))
WEB_TOKEN = rf"eyJ{_PART}e(?:{CUT})?y(?:{CUT})?J(?:{CUT})?{_PART}(?:{_SIGNATURE})"  # cut by line ends
# Between two lines of source: quotes with signs and line ends, both escaped or neither. A listing has numbers there.
_NUMBER = r"\d\u2192\xe2\x86\x92"
JOINED = (
    rf"(?:\"[ \t\r\n+.&_\\{_NUMBER}]{{1,60}}\""
    rf"|\\{{1,7}}\"(?:[ \t+.&_{_NUMBER}]|\\{{1,7}}(?:[nrt]|u2192)){{1,60}}(?:\\\\){{0,3}}\\\")"
)
# How the tokens of services begin that need no row of their own.
SERVICES = (
    r"hv[sbr]\.|dapi|shp(?:at|ca|pa|ss)_|lin_(?:api|oauth)_|ntn_|gsk_|xai-|r8_|AGE-SECRET-KEY-1|sq0[a-z]{3}-|AT[AC]TT3|"
    r"pscale_(?:pw|tkn|oauth)_|sbp_|dp\.(?:st|pt|ct|sa)\.|dckr_pat_|NRAK-|PMAK-|gl(?:sa|c)_|rubygems_|pplx-|lsv2_(?:pt|sk)_|"
    r"tskey-|bkua_|CCIP(?:AT|RJ)_|nfp_|figd_|fo1_|cft_|sntry[su]_|NR(?:II|RA)-|sb_secret_|vercel_blob_rw_|vc[aikpr]_|"
    r"dckr_oat_|SWMTKN-1-|HRKU-|ATBB|dt0[cs][0-9]{2}\.|(?:shippo|duffel)_(?:live|test)_|fio-u-|tfp_|rdme_|sgp_|CFPAT-|"
    r"ph[rsx]_|pcsk_|nvapi-|tvly-|tgp_v1_|wandb_v1_|mdb_sa_sk_|cf[ua]t_|snyk_[us]at\.|xkeysib-|xsmtpsib-|"
    r"secret-token:|CLOJARS_|FLWSECK(?:_TEST)?-|tk-us-"
)
# Tokens whose first letters are too few to be a sign, by all of their form.
FORMS = (
    rf"(?:key-|fc-){HEX}{{32}}",
    rf"(?:e2b_|pul-|sq[apu]_){HEX}{{40}}",
    rf"(?:live|test)_{HEX}{{35}}",
    rf"(?:sdk|api|pat-(?:na|eu|ap)[0-9]|access-(?:sandbox|development|production)|amzn\.mws)[.-]{_UUID}",
    rf"(?:ico-|AKID){ALNUM}{{32}}",
    r"p8e-[a-z0-9]{32}",
    r"API-[A-Z0-9]{26}",
    rf"re_{ALNUM}{{8}}_{ALNUM}{{24}}",
    rf"rzp_(?:live|test)_{ALNUM}{{14}}",
    rf"pnu_{ALNUM}{{36}}",
    r"napi_[a-z0-9]{64}",
    rf"secret_{ALNUM}{{43}}",
    rf"fw_{ALNUM}{{22,24}}",
    rf"vercel_{ALNUM}{{24}}",
    rf"NRJS-{HEX}{{19}}",
    rf"4b1d{ALNUM}{{38}}",
    rf"EZ[AT]K{ALNUM}{{54}}",
    rf"(?:AKLT|AKCp|cmVmd){ALNUM}{{32,73}}",
    rf"LTAI{ALNUM}{{16,24}}",
    r"dG9rOj[A-Za-z0-9+/]{54}=",
    r"A3-[A-Z0-9]{6}-[A-Z0-9]{6}-?[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3}",
    rf"pat{ALNUM}{{14}}\.{HEX}{{64}}",
    rf"[ps]at\.[A-Za-z0-9_-]{{22}}\.{HEX}{{24}}\.{ALNUM}{{20}}",
    rf"1000\.{HEX}{{32}}\.{HEX}{{32}}",
    rf"[12]/[0-9]{{10,17}}(?:/[0-9]{{10,17}})?:{HEX}{{32}}",
    rf"v1\.0-{HEX}{{24}}-{HEX}{{146}}",
    rf"access_token\$(?:production|sandbox)\$[a-z0-9]{{16}}\${HEX}{{32}}",
    rf"[xyz]prv{ALNUM}{{107}}",
    rf"00D{ALNUM}{{12,15}}![A-Za-z0-9._]{{80,120}}",
    r"sl\.(?:u\.)?[A-Za-z0-9_-]{120,200}",
    r"mfa\.[A-Za-z0-9_-]{84}",
    r"sha256~[A-Za-z0-9_-]{43}",
    r"t1\.[A-Za-z0-9_-]{60,400}\.[A-Za-z0-9_-]{86}",
    r"AQVN[A-Za-z0-9_-]{35,38}",
    r"django-insecure-[^ \t\n\r\"'\\]{30,80}",
)
# What RE2 looks for: the form up to its first long part, because counts make its tables large.
FORM_BEGINS = "|".join(re.sub(r"\{(?:[2-9]\d|\d{3}).*", "{16}", form) for form in FORMS)
QUAD = "[MNO][DTjz][AEIMQUYcgk][w-z0-5]"  # three digits in base64
