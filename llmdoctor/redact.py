"""What must not leave the machine: secrets in texts, prompts and answers in snippets, ids when they are hashed.

`KINDS` is the one list of secrets: `mask` hides every kind of it, `ingest/secrets.py` counts those that are certain.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

SHOWN = 120
"""Characters of a snippet."""

MOST_WORDS = 7
LONGEST_NAME = 200
"""Words and characters of a name: what has more is somebody's words."""

TEXT = "[text]"
"""Stands for a text where a name should be."""

# No letter or digit before it, unless that ends an escape of JSON: \nsk-..., \u003dsk-...
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=\\u00[0-9a-fA-F]{2}))"
# "name": value, name=value, ["name", "value"], (b'name', b'value'), "name":["value"]; quotes may be escaped.
_SEPARATOR = r"(?:\\?[\"'])?\s*(?:[:=]|,(?=\s*b?\\?[\"']))\s*(?:\[\s*(?=\\?[\"']))?b?"
_VALUE = r"(?:\\\"(?!\[)[^\"\\]{4,}|\"(?!\[)(?:[^\"\\]|\\.){4,}|'(?!\[)(?:[^'\\]|\\.){4,}|(?!\[)[^\s\"',;&)}\]\\]{4,})"
_NAME = (
    r"(?<!user_)api[-_ ]?key|(?:access|auth|refresh|session|id)[-_]?token|access[-_]?key|client[-_]?secret|secret"
    r"|passw(?:or)?d|passphrase|pwd|credentials?"
)
_PLACEHOLDER = re.compile(
    r"(?i)\W*(?:null|none|true|false|hidden|secret|undefined|pass(?:word)?|your[-_ ].*|<.*>|\{.*\}"
    r"|.*(?:redacted|masked|\*\*|\.\.\.|…|x{6}|environ|\$\{|\{\{|getenv).*)?\W*"
)
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".local", ".internal")


def _random(text: str) -> bool:
    """Long enough and mixed enough to have been drawn, not written by a person: `learn-pipeline-v2` is not."""
    part = max(re.split(r"[-./ ]", text), key=len)
    mixed = any(one.isdigit() for one in part) and any(one.isalpha() for one in part)
    return len(part) >= 16 or (len(part) >= 10 and (mixed or not (part.islower() or part.isupper())))


def _always(_lead: str, _rest: str) -> bool:
    return True


def _key(_lead: str, rest: str) -> bool:
    return _random(re.split(r"[-_]", rest, maxsplit=1)[-1])


def _given(_lead: str, rest: str) -> bool:
    """The value of `name = value` is a secret itself: no placeholder, no path, no word, no expression of a program."""
    value = rest.strip("\\\"' ")
    mixed = any(one.isdigit() for one in value) and any(one.isalpha() for one in value)
    plain = len(value) < 8 or value[0] in "/.$<" or re.search(r"[(\[{]", value) or _PLACEHOLDER.fullmatch(value)
    return mixed and not plain


def _token(_lead: str, rest: str) -> bool:
    value = rest.rsplit(maxsplit=1)[-1]
    drawn = len(value) >= 16 and _random(value) and any(one.isdigit() for one in value)
    return drawn and not _PLACEHOLDER.fullmatch(value)


def _in_url(lead: str, rest: str) -> bool:
    paging = re.search(r"(?i)page|next|cursor|max|count", lead)
    return not paging and len(rest) >= 12 and _random(rest) and any(one.isdigit() for one in rest)


def _login(_lead: str, rest: str) -> bool:
    _, colon, password = rest.rstrip("@").partition(":")
    return bool(colon and password) and not _PLACEHOLDER.fullmatch(password)


def _cookie(_lead: str, rest: str) -> bool:
    return len(rest) >= 12 and not _PLACEHOLDER.fullmatch(rest)


def _address(_lead: str, rest: str) -> bool:
    return not rest.lower().endswith(_PICTURES) and not rest.startswith("git@")


@dataclass(frozen=True)
class Kind:
    """One kind of secret. `shown` takes the place of a match, what its first group holds stays.

    Every match is masked; it is counted where `sure(first group, rest)`: a word too much that is hidden does no harm, a
    false alarm does. `hints` are texts in lower case, one of which stands in every match to be counted: at its start,
    or at most `back` characters behind it (then `near` must match at it). A kind without hints is masked only."""

    name: str
    pattern: re.Pattern[str]
    shown: str
    hints: tuple[bytes, ...] = ()
    sure: Callable[[str, str], bool] = _always
    back: int = 0
    near: str = ""


def _kind(name: str, pattern: str, shown: str, hints: str = "", sure: Callable[[str, str], bool] = _always) -> Kind:
    return Kind(name, re.compile(pattern), shown, tuple(hint.encode() for hint in hints.split()), sure)


KINDS: tuple[Kind, ...] = (
    Kind(
        "private key",
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL),
        "[private key]",
        (b"-----begin ",),
    ),
    _kind("Anthropic key", _START + r"sk-ant-[A-Za-z0-9_-]{8,}", "[key]", "sk-", _key),
    _kind("OpenAI-style key", _START + r"sk-[A-Za-z0-9_-]{8,}", "[key]", "sk-", _key),
    _kind("Google key", _START + r"AIza[A-Za-z0-9_-]{30,}", "[key]", "aiza"),
    _kind(
        "AWS access key",
        _START + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        "[aws key]",
        "akia asia",
    ),
    _kind(
        "GitHub token",
        _START + r"(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{8,}",
        "[key]",
        "gh github_pat_",
        _key,
    ),
    _kind(
        "Slack token",
        _START + r"(?:xox[abeprs]-|xapp-|hooks\.slack\.com/services/)[A-Za-z0-9/-]{8,}",
        "[key]",
        "xox hooks.slack.com",
        _key,
    ),
    _kind("Hugging Face token", _START + r"hf_[A-Za-z0-9]{8,}", "[key]", "hf_", _key),
    _kind(
        "provider key",
        _START + r"(?:gsk_|xai-|pplx-|nvapi-|glpat-|r8_|[prs]k_(?:live|test)_|pk-|rk-)[A-Za-z0-9_-]{8,}",
        "[key]",
        "gsk_ xai- nvapi-",
        _key,
    ),
    _kind("JWT", _START + r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?", "[jwt]", "eyj"),
    _kind(
        "authorization header",
        rf"(?i){_START}(bearer|basic)(?:\s|%20|\+)+(?=\S*[0-9]|\S{{20}})[A-Za-z0-9._~+/=-]{{8,}}",
        r"\1 [secret]",
        "bearer",
        _token,
    ),
    _kind(
        "authorization header",
        rf"(?i)((?:proxy-|x-)?authorization{_SEPARATOR})(?!\\?[\"']?(?:bearer|basic) \[){_VALUE}",
        r"\1[secret]",
        "authorization",
        _given,
    ),
    _kind(
        "cookie",
        rf"(?i)((?:(?<![a-z])|(?<=\\[nrt]))(?:set-)?cookie{_SEPARATOR})(?!\\?[\"']?\[)\\?[\"']?[^\s\"'=;:,\[\]{{}}]+=[^\"'\r\n]*",
        r"\1[cookie]",
        "cookie",
        _cookie,
    ),
    _kind("password in a URL", r"(:(?:\\?/){2})[^\s/\"'<>\\]+@", r"\1[credentials]@", "://", _login),
    Kind(
        "key in a URL",
        re.compile(
            r"(?i)([?&;](?:[a-z0-9_.-]{0,40}(?:key|token|secret|signature|password|passwd|credential|auth)"
            r"[a-z0-9_.-]{0,40}|sig|code|pwd)=)(?!\[)[^&#\s\"'\\]+"
        ),
        r"\1[secret]",
        (b"key=", b"token=", b"sig="),
        _in_url,
        back=48,
    ),
    _kind(
        "key or password",
        rf"(?i)((?:{_NAME}){_SEPARATOR}){_VALUE}",
        r"\1[secret]",
        "api secret access_ auth_token passw",
        _given,
    ),
    Kind(
        "e-mail address",
        re.compile(r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z][A-Za-z0-9-]+"),
        "[e-mail]",
        (b"@",),
        _address,
        back=64,
        near=r"@[A-Za-z0-9-]+\.",
    ),
    # A UUID and a 32-digit trace id are no secrets: only longer runs are taken for one. Most are hashes: not counted.
    _kind("long hex", r"\b[0-9a-fA-F]{40,}\b", "[hex]"),
    _kind(
        "long base64",
        r"(?<![A-Za-z0-9+/=_-])(?!(?:chatcmpl|cmpl|msg|resp|call|toolu|req|run)[-_])(?=[A-Za-z0-9+/_-]*[0-9])"
        r"(?=[A-Za-z0-9+/_-]*[A-Z])(?=[A-Za-z0-9+/_-]*[a-z])[A-Za-z0-9+/_-]{40,}={0,2}",
        "[base64]",
    ),
)

_TOKENS = re.compile(
    r"""(?P<key>(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')(?=\s*:))|(?P<text>"(?:[^"\\]|\\.)*(?:"|\\?$)|'(?:[^'\\]|\\.)*(?:'|\\?$))"""
    r"""|(?P<mark>[{}\[\],:])|(?P<blank>\s+)|(?P<bare>[^\s{}\[\],:"']+)""",
    re.DOTALL,
)
_PLAIN_KEY = re.compile(r"[^\W\d][\w@.$()/-]{0,39}")
# Numbers with a unit, instants, and the words of "nothing": what a field that should be a number or a time may hold.
_PLAIN_VALUE = re.compile(
    r"[-+]?[\d.,]{1,20}(?:[eE][-+]?\d+)? ?(?:[µnm]?s|sec|min|h|%|[kM]?B)?|\d[\dTZ:/ .,+-]{5,34}"
    r"|\d\d/\w{3}/\d{4}:[\d:]{8}(?: [-+]\d{4})?"
    r"|(?i:null|none|nan|-?inf(?:inity)?|n/a|true|false|yes|no|-|undefined|unknown)?"
)


def mask(text: str) -> str:
    """The text with everything that looks like a secret or an e-mail address replaced by what it was: keys, bearer
    tokens and JWTs, AWS keys, credentials and secrets in URLs, cookies, private keys, long hex or base64."""
    for kind in KINDS:
        text = kind.pattern.sub(kind.shown, text)
    return text


def unquoted(text: str) -> str:
    """A sentence about data (an error of a database or a parser) without what it quotes, secrets masked as well. A
    quoted text may hold quotes itself: from the first one on only the type that was wanted is kept."""
    before, quote, rest = re.split(r"(['\"])", text, maxsplit=1) if re.search(r"['\"]", text) else (text, "", "")
    wanted = re.search(r" (?:to|type) [A-Z][A-Z0-9_]*(?:\[\])?(?: when casting from source column \w+)?$", rest)
    return mask(f"{before}'…'{wanted[0] if wanted else ''}" if quote else text)


def name(text: str) -> str:
    """A name from the data (a model, a route, a customer) as it may be shown: secrets masked, and TEXT where it is no
    name but a sentence, for an application may log anything in any field."""
    shown = mask(text)
    return TEXT if len(shown.split()) > MOST_WORDS or len(shown) > LONGEST_NAME else shown


def snippet(line: bytes | str) -> str:
    """One line of a log, fit to be shown, at most 120 characters: its keys and punctuation, and of its values only
    numbers, instants and the words of "nothing". Any other text may be somebody's words and is left out as "…"; of a
    line without any object nothing is shown."""
    text = line[:65536].decode("utf-8", "replace") if isinstance(line, bytes) else line[:65536]
    before, brace, rest = text.partition("{")
    if not brace:
        return f"({len(line)} {'bytes' if isinstance(line, bytes) else 'characters'} without an object)"
    shown, length = ["… "] if before.strip() else [], 0
    after_key, colon = False, False
    for token in _TOKENS.finditer(brace + rest):
        words, kind = token[0], token.lastgroup
        if kind == "key":
            words = words if _PLAIN_KEY.fullmatch(words[1:-1]) else '"…"'
            after_key, colon = True, False
        elif kind == "mark":
            after_key, colon = after_key and words == ":", after_key and words == ":"
        elif kind == "blank":
            words = " "
        else:
            bare = words.strip("\"'")
            words = words if colon and _PLAIN_VALUE.fullmatch(bare) else '"…"' if kind == "text" else "…"
            after_key = colon = False
        if words != "…" or shown[-1:] != ["…"]:
            shown.append(words)
        length += len(words)
        if length > SHOWN:
            break
    text = "".join(one if one.isprintable() else "·" for one in mask("".join(shown)))
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def hash_id(text: str) -> str:
    """A short stable stand-in for an id, a tenant or a host: equal texts stay equal, the text cannot be read back from
    the report. Not a defence against somebody who guesses the id and hashes it too."""
    return "h-" + hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6, person=b"llmdoctor").hexdigest()
