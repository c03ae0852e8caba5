"""Who issued a certificate, to whom, until when: read from its DER bytes, since the ssl module tells this only of
certificates that it could verify."""

from collections.abc import Iterator
from dataclasses import dataclass

_SET, _CONTEXT_0 = 0x31, 0xA0
_NAMES = {b"\x55\x04\x03": "CN", b"\x55\x04\x0a": "O", b"\x55\x04\x0b": "OU"}
_ENCODINGS = {0x1E: "utf-16-be", 0x14: "latin-1"}
_UTC_TIME = 0x17
_LONGEST = 200


@dataclass(frozen=True)
class Certificate:
    """Facts of a server's certificate. Names are like `CN=example.org, O=Example`; dates `YYYY-MM-DD`, in UTC."""

    issuer: str
    subject: str
    not_before: str
    not_after: str

    @property
    def self_signed(self) -> bool:
        """Whether it names itself as its issuer."""
        return self.issuer == self.subject


def read_certificate(der: bytes | None) -> Certificate | None:
    """The facts of a DER certificate; None where there is none or it cannot be read. Layout: RFC 5280, section 4.1."""
    if not der:
        return None
    try:
        (_, whole), *_ = _items(der)
        (_, signed), *_ = _items(whole)
        fields = [item for item in _items(signed) if item[0] != _CONTEXT_0]
        # serial, algorithm, issuer, validity, subject, ...
        (_, issuer), (_, validity), (_, subject) = fields[2:5]
        begin, end = list(_items(validity))[:2]
        return Certificate(_name(issuer), _name(subject), _date(*begin), _date(*end))
    except (ValueError, IndexError):
        return None


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element in order. ValueError where they are not well formed."""
    at = 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            more = size & 0x7F
            size, at = int.from_bytes(data[at : at + more], "big"), at + more
        if at + size > len(data):
            raise ValueError
        yield tag, data[at : at + size]
        at += size


def _name(name: bytes) -> str:
    found: list[str] = []
    for tag, group in _items(name):
        for _, pair in _items(group) if tag == _SET else ():
            (_, kind), (encoding, value) = list(_items(pair))[:2]
            if kind in _NAMES:
                found.append(f"{_NAMES[kind]}={value.decode(_ENCODINGS.get(encoding, 'utf-8'), 'replace')}")
    text = "".join(letter if letter.isprintable() else "?" for letter in ", ".join(reversed(found)))
    return text[:_LONGEST]


def _date(tag: int, value: bytes) -> str:
    digits = value.decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year; 50 and above are of the last century
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}"
