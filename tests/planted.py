"""Secrets that were never valid, and words that stand for a prompt and an answer."""

import string

PROMPT = "Tell nobody at all that the ZEBRAFISH of my sister swims at dawn"
ANSWER = "I would never say where the OKAPIHERD grazes at night, be calm"
WORDS = ("ZEBRAFISH", "OKAPIHERD")


def drawn(seed: int, length: int, letters: str = string.ascii_letters + string.digits) -> str:
    """Letters that look drawn at random, the same for the same seed; mixed in case, with digits."""
    state = seed * 7919 + 1
    found: list[str] = []
    while len(found) < length:
        state = (state * 1103515245 + 12345) % (1 << 31)
        found.append(letters[(state >> 12) % len(letters)])
    return "".join(found)


_UPPER = string.ascii_uppercase + string.digits

# Kind -> (the text to plant, the part of it that must never be seen).
SECRETS: dict[str, tuple[str, str]] = {}


def _plant(kind: str, core: str, text: str = "{}") -> None:
    SECRETS[kind] = (text.format(core), core)


_plant("Anthropic key", drawn(1, 40), "sk-ant-api03-{}")
_plant("OpenAI-style key", drawn(2, 40), "sk-proj-{}")
_plant("Google key", drawn(3, 35), "AIza{}")
_plant("AWS access key", drawn(4, 16, _UPPER), "AKIA{}")
_plant("GitHub token", drawn(5, 36), "ghp_{}")
_plant("Slack token", drawn(6, 24), "xoxb-2048-4096-{}")
_plant("Hugging Face token", drawn(7, 34), "hf_{}")
_plant("provider key", drawn(8, 40), "gsk_{}")
_plant("JWT", drawn(9, 30), "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{}")
_plant("authorization header", drawn(10, 44), "Bearer {}")
_plant("cookie", drawn(11, 44), "Cookie: sid={}")
_plant("password in a URL", drawn(12, 14), "https://root:{}@db.internal/v1")
_plant("key in a URL", drawn(13, 20), "/v1/chat?api_key={}&x=1")
_plant("key or password", drawn(14, 24), "api_key={}")
_plant("e-mail address", "jane.q.doe", "{}@corp.example")
_plant("private key", drawn(15, 60), "-----BEGIN RSA PRIVATE KEY-----{}-----END RSA PRIVATE KEY-----")
