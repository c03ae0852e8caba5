"""Secrets in a file are counted line by line, whatever blocks it is read in, and what is none is not counted."""

import gzip
import json
from pathlib import Path

import pytest

from llmdoctor.diagnose import diagnose
from llmdoctor.ingest.secrets import Exposed, Looked, look, look_at, write
from llmdoctor.ingest.unpack import BLOCK, Unpacked
from llmdoctor.redact import KINDS, mask
from llmdoctor.report import html, markdown, text
from llmdoctor.rulebook import load
from llmdoctor.store import Store
from tests.planted import SECRETS

KEY = SECRETS["OpenAI-style key"][0]
CLEAN = '{"model": "gpt-4o-mini-2024-07-18", "total_ms": 900}\n'


def looked(folder: Path, text: str, most: int = 1 << 30) -> Looked:
    path = folder / "a.jsonl"
    path.write_text(text, encoding="utf-8")
    return look(Unpacked(path, "plain"), most)


def test_every_kind_that_can_be_counted_has_a_sample() -> None:
    assert {kind.name for kind in KINDS if kind.hints} == set(SECRETS)


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("around", ['{{"note": {}}}', "2026-01-01 INFO got {}", '{{"log": {}}}'])
def test_each_kind_is_found_in_its_line_and_masked(kind: str, around: str, tmp_path: Path) -> None:
    text, core = SECRETS[kind]
    inner = json.dumps(text) if around.startswith("{{") else text
    if "log" in around:
        inner = json.dumps(json.dumps({"inner": f"a\n{text}"}))
    line = around.format(inner)
    assert looked(tmp_path, CLEAN * 6 + line + "\n" + CLEAN).kinds == (Exposed(kind, 1, 7),)
    assert core not in mask(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('{"headers": {"Authorization": "Bearer sk-proj-a8Xk29dLqPz71mNb"}}', "OpenAI-style key"),
        ('{"headers": [["authorization", "Token a8Xk29dLqPz71mNb"]]}', "authorization header"),
        ("headers=[(b'authorization', b'a8Xk29dLqPz71mNb')]", "authorization header"),
        ('{"headers":{"X-Api-Key":["0a1b2c3d4e5f60718293a4b5c6d7e8f9"]}}', "key or password"),
        ('{"set-cookie": "session=a8Xk29dLqPz71mNb; Path=/"}', "cookie"),
        ('{"db": "postgres://app:s3cret-pw@10.0.0.7/app"}', "password in a URL"),
        ('{"password": "correct horse battery 9"}', "key or password"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYzz", "key or password"),
        ("export OPENAI_API_KEY='a8Xk29dLqPz71mNb'", "key or password"),
        ('{"key": "sk-1f2e3d4c5b6a79881726354a5b6c7d8e"}', "OpenAI-style key"),
    ],
)
def test_the_ways_in_which_loggers_write_them(line: str, kind: str, tmp_path: Path) -> None:
    assert looked(tmp_path, line + "\n").kinds == (Exposed(kind, 1, 1),)


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "chatcmpl-R0skcuMrJa17Zc5GrFGtDjGDGm9D4yKt", "task": "task-0123456789abcdef0123"}',
        '{"name": "risk-assessment-2024-model-v2", "lib": "sk-learn-pipeline-model-v2"}',
        '{"msg": "Incorrect API key provided: sk-...ab12, sk-proj-********************abcd, sk-****"}',
        '{"user_api_key": "88dc28d0f030c55ed4ab77ed8faf098196cb1c05df778539800c9f1243fe6b4b"}',
        '{"user_api_key_hash": "h-3f9a", "user_api_key_alias": "team one", "api_key": null, "password": ""}',
        '{"api_key": "os.environ/OPENAI_API_KEY", "authorization": "Bearer [REDACTED]", "secret": "***"}',
        '{"Authorization": ["REDACTED"], "Cookie": ["REDACTED"]}',
        '{"sha": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "etag": "W/\\"5f-a8Xk29dL\\""}',
        '{"trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "@timestamp": "2026-01-01"}',
        '{"url": "https://api.openai.com/v1/chat/completions?max_tokens=100&page_token=abcdefgh12345678901"}',
        '{"model": "hf_transfer_large", "region": "asia-southeast1", "image": "icon@2x.png"}',
        '{"text": "a bearer of good news, and basic understanding of the secret: nobody knows"}',
        '{"model": "claude-3-5-sonnet@20240620", "input_tokens": 12, "max_tokens": 4096, "token": "Hello"}',
        '{"content": "the cookie: it was good", "pwd": "/home/app/releases/2024"}',
        "client = OpenAI(api_key=self.api_key, password=get_password('db1')) # authorization: _basic_auth(client_id)",
        "WWW-Authenticate: Bearer resource_metadata=unknown; redis://:password@cache, https://user:{token}@host",
        '{"upstream": "http://10.0.0.7:8000/v1", "ref": "git@github.com:org/repo.git"}',
    ],
)
def test_what_is_no_secret_is_not_counted(line: str, tmp_path: Path) -> None:
    assert looked(tmp_path, line + "\n").kinds == ()


def test_lines_are_counted_once_for_each_kind_and_the_first_is_exact(tmp_path: Path) -> None:
    mail = SECRETS["e-mail address"][0]
    lines = [CLEAN.strip()] * 5000
    for number in (17, 3000, 4999):
        lines[number - 1] = f"{KEY} {KEY} {mail if number > 17 else ''}"
    lines.append(KEY)  # without a line feed
    assert looked(tmp_path, "\n".join(lines)).kinds == (
        Exposed("OpenAI-style key", 4, 17),
        Exposed("e-mail address", 2, 3000),
    )


@pytest.mark.parametrize("shift", [1, 5, 20, len(KEY) - 1])
def test_a_secret_across_the_edge_of_two_blocks_is_found(shift: int, tmp_path: Path) -> None:
    before = CLEAN * (BLOCK // len(CLEAN))
    before += " " * (BLOCK - len(before) - shift)
    found = looked(tmp_path, f"{before}{KEY}\n{CLEAN}")
    assert found.kinds == (Exposed("OpenAI-style key", 1, before.count("\n") + 1),)


@pytest.mark.parametrize("size", [BLOCK, 5 * BLOCK, 9 * BLOCK + 17])
def test_a_line_of_many_blocks_counts_once(size: int, tmp_path: Path) -> None:
    half = "x " * (size // 2)
    found = looked(tmp_path, f"{CLEAN}{half}{KEY} {half}{KEY}{half}\n{KEY}\n{CLEAN}")
    assert found.kinds == (Exposed("OpenAI-style key", 2, 2),)
    assert found.whole


def test_compressed_files_are_looked_at_too(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress((CLEAN * 3 + KEY + "\n").encode()))
    assert look(Unpacked(path, "gzip")).kinds == (Exposed("OpenAI-style key", 1, 4),)


def test_of_a_large_file_only_the_first_part_is_looked_at_and_that_is_said(tmp_path: Path) -> None:
    text = CLEAN * 30000 + KEY + "\n"
    found = looked(tmp_path, text, most=BLOCK + 100)
    assert found == Looked((), BLOCK + 100, False)
    assert looked(tmp_path, text, most=len(text)).whole


def test_many_files_share_what_is_looked_at(tmp_path: Path) -> None:
    files = {}
    for number in range(1, 5):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(CLEAN * 60000)
        files[number] = Unpacked(path, "plain")
    assert {one.bytes for one in look_at(files, total=8 << 20).values()} == {2 << 20}


def test_rows_hold_kind_and_place_and_never_the_secret(tmp_path: Path) -> None:
    with Store() as store:
        store.create()
        store.insert(
            "inputs", ("input_id", "path", "note"), [(1, "a", "units guessed"), (2, "b", None), (3, "c", None)]
        )
        cut = looked(tmp_path, CLEAN * 3 + KEY + "\n" + CLEAN * 99, most=1000)
        write(store, {1: cut, 2: cut, 3: looked(tmp_path, CLEAN)})
        assert store.run("select * from secrets order by 1") == [
            (1, "OpenAI-style key", 1, 4),
            (2, "OpenAI-style key", 1, 4),
        ]
        notes = store.run("select note from inputs order by input_id")
    assert notes == [
        ("units guessed; only the first 1,000 bytes were searched for secrets",),
        ("only the first 1,000 bytes were searched for secrets",),
        (None,),
    ]


def test_they_are_told_in_every_output_with_file_and_line(tmp_path: Path) -> None:
    mail = SECRETS["e-mail address"][0]
    found = looked(tmp_path, CLEAN * 11 + f"{KEY}\n{mail}\n" + CLEAN * 30)
    with Store() as store:
        store.create()
        calls = "select range + 1, 1, 'client', 'completed', 900, to_timestamp(1767571200 + range)"
        names = "attempt_id, input_id, vantage, outcome, total_ms, started_at"
        store.script(f"insert into attempts ({names}) {calls} from range(43)")
        store.insert(
            "inputs",
            ("input_id", "path", "vantage", "lines", "rows"),
            [(1, "a.jsonl", "client", 43, 43), (2, "b", None, 9, 0)],
        )
        write(store, {1: found, 2: Looked((Exposed("e-mail address", 2, 3),), 99, True)})
        told = diagnose(store, load())
    present = {(one.subject, one.vantage, one.severity, one.affected, one.total) for one in told.present}
    assert present == {
        ("kind=OpenAI-style key", "client", "medium", 1, 52),
        ("kind=e-mail address", "client", "medium", 1, None),
        ("kind=e-mail address", None, "medium", 2, None),
    }
    assert "No cause" not in told.verdict.text
    for shown in (html.render(told), markdown.render(told), " ".join(text.render(told).split())):
        plain = shown.replace("`", "")
        kinds = "OpenAI-style key in 1 line (first: line 12), e-mail address in 1 line (first: line 13)"
        assert f"a.jsonl: {kinds}; rotate what is exposed and mask it at the logger" in plain
        assert "b: e-mail address in 2 lines (first: line 3); mask it at the logger" in plain
        assert KEY not in shown
        assert mail not in shown
