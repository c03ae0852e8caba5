"""What must not leave the machine: secrets in texts, prompts and answers in snippets, ids when they are hashed."""

import hashlib
import re

SHOWN = 120
"""Characters of a snippet."""

_SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL),
        "[private key]",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 [secret]"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"), "[jwt]"),
    (re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|gho|ghs|github_pat|glpat|xox[abprs])[-_][A-Za-z0-9_-]{8,}"), "[key]"),
    (re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"), "[aws key]"),
    (re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"), "[key]"),
    (re.compile(r"(?i)([a-z][a-z0-9+.-]*://)[^\s/@\"']+@"), r"\1[credentials]@"),
    (
        re.compile(
            r"(?i)([?&;](?:[a-z0-9_.-]*(?:key|token|secret|signature|password|passwd|credential|auth)[a-z0-9_.-]*|sig|code"
            r"|pwd)=)[^&#\s\"']+"
        ),
        r"\1[secret]",
    ),
    (
        re.compile(
            r"(?i)((?:api[-_]?key|access[-_]?token|auth[-_]?token|x-api-key|authorization|secret|password|passwd|pwd)"
            r"\\?[\"']?\s*[:=]\s*\\?[\"']?)(?!\[)[^\s\"',;}\\]{4,}"
        ),
        r"\1[secret]",
    ),
    (re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"), "[e-mail]"),
    # A UUID and a 32-digit trace id are no secrets: only longer runs are taken for one.
    (re.compile(r"\b[0-9a-fA-F]{40,}\b"), "[hex]"),
    (
        re.compile(
            r"(?<![A-Za-z0-9+/=_-])(?!(?:chatcmpl|cmpl|msg|resp|call|toolu|req|run)[-_])(?=[A-Za-z0-9+/_-]*[0-9])(?=[A-Za-z0-9+/_-]*[A-Z])(?=[A-Za-z0-9+/_-]*[a-z])"
            r"[A-Za-z0-9+/_-]{40,}={0,2}"
        ),
        "[base64]",
    ),
)

_TEXT_KEYS = "prompts?|messages?|content|contents|inputs?|text|responses?|answers?|completions?|output|query|question"
_TEXT_KEYS += "|instructions|system|arguments|body|reasoning|reasoning_content|delta|choices|提示词|问题|回答|内容"
_TEXT_VALUE = re.compile(
    rf'("(?:{_TEXT_KEYS})\\?"\s*:\s*)("(?:[^"\\]|\\.)*(?:"|$)|[\[{{].*)', re.IGNORECASE | re.DOTALL
)
_ESCAPED_TEXT = re.compile(
    rf'(\\"(?:{_TEXT_KEYS})\\"\s*:\s*)(\\".*?(?:[^\\]\\"|$)|[\[{{].*)', re.IGNORECASE | re.DOTALL
)
# Outside of JSON (`prompt=...`, a Python dict) nothing tells where the text ends: all of the rest may be it.
_LOOSE_TEXT = re.compile(
    rf"(?<!\w)((?:'(?:{_TEXT_KEYS})'\s*:|(?:{_TEXT_KEYS})\s*[=:])\s*)(?![\s…]).*", re.IGNORECASE | re.DOTALL
)


def mask(text: str) -> str:
    """The text with everything that looks like a secret or an e-mail address replaced by what it was: keys, bearer
    tokens and JWTs, AWS keys, credentials and secrets in URLs, private keys, long hex or base64."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def snippet(line: bytes | str) -> str:
    """One line of a log, fit to be shown: values of prompt, messages, content and their like blotted out, secrets
    masked, control characters escaped, at most 120 characters. Of a line without any object nothing is shown: where
    no key tells what is what, all of it may be somebody's words."""
    text = line[:65536].decode("utf-8", "replace") if isinstance(line, bytes) else line[:65536]
    if "{" not in text:
        return f"({len(line)} {'bytes' if isinstance(line, bytes) else 'characters'} without an object)"
    before, _, rest = text.partition("{")
    text = f"{'… ' if before.strip() else ''}{{{rest}"
    text = _ESCAPED_TEXT.sub(r"\1…", text)
    text = _TEXT_VALUE.sub(lambda found: found.group(1) + ("…" if found.group(2)[0] in "[{" else '"…"'), text)
    text = _LOOSE_TEXT.sub(r"\1…", text)
    text = mask(text)
    text = "".join(one if one.isprintable() else "·" for one in text)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def hash_id(text: str) -> str:
    """A short stable stand-in for an id, a tenant or a host: equal texts stay equal, the text cannot be read back from
    the report. Not a defence against somebody who guesses the id and hashes it too."""
    return "h-" + hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6, person=b"llmdoctor").hexdigest()
