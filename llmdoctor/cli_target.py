"""What the words of `probe` name: the places, the request and its key."""
# ruff: noqa: PLC0415  as in cli_probe: the probe is imported where it is used.

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import click

from llmdoctor.errors import UsageError

if TYPE_CHECKING:
    from llmdoctor.probe.asking import Target
    from llmdoctor.probe.plan import Hop
    from llmdoctor.probe.protocols.custom import Custom

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_LEAST_SECRET = 6  # a shorter one stands in any text
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")
_MOST_S, _MOST_LASTING_S = 180.0, 600.0
_READ_BYTES = 8 << 20
"""Of one answer: ten times what the longest of ours takes with all that servers put around a token."""


def places(url: str, direct: str | None, named: Sequence[str]) -> list["Hop"]:
    """From the application outwards; the URL itself is the last, `public` where there are others."""
    from llmdoctor.probe.plan import Hop

    _check_url("URL", url)
    found: list[Hop] = []
    if direct:
        found.append(_direct(url, direct))
    for text in named:
        name, equals, place = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--hop {text}: write it as NAME=URL, as in gateway=http://10.0.0.5:4000")
        _check_url("--hop", place)
        found.append(Hop(name.strip(), _with_path(place, url)))
    found.append(Hop("public" if found else urlsplit(url).hostname or "public", url))
    if len({hop.name for hop in found}) < len(found):
        raise UsageError("--hop: two hops have the same name; 'direct' and 'public' are taken")
    return found


def _direct(url: str, direct: str) -> "Hop":
    from llmdoctor.probe.plan import Hop

    if "://" in direct:
        _check_url("--direct", direct)
        return Hop("direct", _with_path(direct, url))
    host, colon, port = direct.rpartition(":")
    if not colon or not host or not _is_port(port):
        raise UsageError(f"--direct {direct}: write it as HOST:PORT, or as a whole URL")
    return Hop("direct", url, connect_to=direct)


def _check_url(option: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"{option} {url}: is no http or https URL, as in https://llm.example.com/v1/chat/completions")


def _with_path(place: str, url: str) -> str:
    """The address with the path of the public URL where it has none of its own."""
    parts, outer = urlsplit(place), urlsplit(url)
    path = outer.path if parts.path in ("", "/") else parts.path
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query or outer.query, ""))


def target(hops: Sequence["Hop"], given: dict[str, Any]) -> "Target":
    """What is asked, in whose words, with which key. UsageError where an option cannot be used."""
    from llmdoctor.probe.asking import Target
    from llmdoctor.probe.exchange import Limits
    from llmdoctor.probe.protocols import names

    named = given["protocol"] or ("custom" if given["custom"] else "")
    if named and named not in names():
        raise UsageError(f"--protocol {named}: there are {', '.join(names())}")
    if given["custom"] and named != "custom":
        raise UsageError(f"--custom and --protocol {named}: choose one")
    limits = Limits(
        given["connect_timeout"],
        given["first_token_timeout"],
        given["idle_timeout"],
        given["total_timeout"] or (_MOST_LASTING_S if given["lasting"] else _MOST_S),
        read_bytes=_READ_BYTES,
    )
    asked = _body(given["body_file"])
    found = Target(
        named,
        given["model"],
        "",
        tuple(_header(text) for text in given["headers"]),
        None if named == "custom" else asked,
        limits,
        tuple(_resolved(text, hops) for text in given["resolve"]),
        not given["insecure"],
        _custom(given["custom"], asked),
    )
    return replace(found, key=_key(given, found.named(found.speaks(hops[-1].url)).KEY_ENV))


def sent_secrets(asked: "Target") -> list[str]:
    """What must stand in nothing that is written: the key, and headers whose names say so, with their last word alone
    (that of `Bearer ...`)."""
    values = [asked.key, *(value for name, value in asked.headers if _SECRET_NAME.search(name))]
    words = {word for value in values for word in (value, *value.split()[-1:])}
    return sorted((word for word in words if len(word) >= _LEAST_SECRET), key=lambda word: (-len(word), word))


def _custom(settings_given: Sequence[str], template: dict[str, Any] | None) -> "Custom":
    """The protocol that --custom describes."""
    from llmdoctor.probe.protocols.custom import SETTINGS, Custom

    found: dict[str, Any] = {"template": template} if template is not None else {}
    for text in settings_given:
        name, equals, value = text.partition("=")
        if not equals or name not in SETTINGS:
            raise UsageError(f"--custom {text}: write it as NAME=VALUE, NAME one of {', '.join(SETTINGS)}")
        found[SETTINGS[name]] = value
    try:
        return Custom(**found)
    except ValueError as error:
        raise UsageError(f"--custom: {error}") from error


def _key(given: dict[str, Any], usual: Sequence[str]) -> str:
    """The key, without the line end that `$(cat key)` and editors leave behind it."""
    wanted = given["key_env"]
    if given["ask_key"]:
        name, key = "--ask-key", str(click.prompt("Key", hide_input=True, err=True))
    else:
        name = next((one for one in ([wanted] if wanted else usual) if os.environ.get(one, "").strip()), "")
        key = os.environ.get(name, "")
        if wanted is not None and not name:
            raise UsageError(f"--key-env {wanted}: that environment variable is not set; set it, or use --ask-key")
    if not _HEADER_VALUE.fullmatch(key.strip()):
        raise UsageError(f"{name}: the key in it holds a line break or a character that is not ASCII; look at it again")
    return key.strip()


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not _HEADER_NAME.fullmatch(name.strip()):
        raise UsageError("--header: write it as NAME:VALUE, as in 'X-Team: search'")
    if not _HEADER_VALUE.fullmatch(value.strip()):
        raise UsageError(f"--header {name.strip()}: its value may hold plain ASCII characters only, on one line")
    return name.strip(), value.strip()


def _resolved(text: str, hops: Sequence["Hop"]) -> tuple[str, int, str]:
    host, port, address = ([*text.split(":", 2), "", ""])[:3]
    try:
        ip_address(address.strip("[]"))
    except ValueError:
        address = ""
    if not host or not _is_port(port) or not address:
        raise UsageError(f"--resolve {text}: write it as HOST:PORT:ADDRESS, as in llm.example.com:443:10.0.0.5")
    if (host.lower(), int(port)) not in {_goes_to(hop) for hop in hops}:
        raise UsageError(f"--resolve {text}: no place that is probed is reached at {host}:{port}")
    return host, int(port), address.strip("[]")


def _goes_to(hop: "Hop") -> tuple[str, int]:
    """The name and the port that are looked up to reach a place."""
    parts = urlsplit(f"//{hop.connect_to}" if hop.connect_to else hop.url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536


def _body(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--body {path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--body {path}: is no JSON; write one object, as it is sent to the model") from error
    if not isinstance(found, dict):
        raise UsageError(f"--body {path}: must be one JSON object, as it is sent to the model")
    return found


def bare(url: str) -> str:
    """Without user, query and fragment, which may hold keys."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
