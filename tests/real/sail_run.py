"""Runs queries on Sail (Spark Connect, no Java): `python sail_run.py JOB RESULT`, both JSON. Runs in .venv-real.

JOB is a list of data sets: a folder of Parquet files (one per table), the text of views.sql, and queries with the
vantage that `front` and `front_expected` show and the values of their `:names`. RESULT maps a query's name to its rows
or its error.
"""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

Answer = dict[str, Any]


def main(job: Path, result: Path) -> None:
    """Starts a server of its own on a free port, runs the job and stops it."""
    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    _, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    answers: dict[str, Answer] = {}
    for data in json.loads(job.read_text(encoding="utf-8")):
        answers |= dict(_answers(session, data))
    result.write_text(json.dumps(answers), encoding="utf-8")
    session.stop()
    server.stop()


def _answers(session: SparkSession, data: dict[str, Any]) -> Iterator[tuple[str, Answer]]:
    for path in sorted(Path(data["folder"]).glob("*.parquet")):
        session.read.parquet(str(path)).createOrReplaceTempView(path.stem)
    current = None
    for query in data["queries"]:
        if query["vantage"] != current:
            current = query["vantage"]
            for statement in (*_fronts(session, current), *data["views"]):
                session.sql(statement)
        yield query["name"], _answer(session, query)


def _fronts(session: SparkSession, vantage: str) -> Iterator[str]:
    yield f"create or replace temp view front as select * from attempts where vantage = '{vantage}'"
    added = ", ".join(f"e.{name}" for name in session.table("expected").columns if name != "attempt_id")
    yield (
        f"create or replace temp view front_expected as select a.*, {added} from attempts a"
        f" join expected e on e.attempt_id = a.attempt_id where a.vantage = '{vantage}'"
    )


def _answer(session: SparkSession, query: dict[str, Any]) -> Answer:
    try:
        frame = session.sql(query["sql"], args=query["values"]) if query["values"] else session.sql(query["sql"])
        rows = [[_plain(value) for value in row] for row in frame.collect()]
    except Exception as error:  # every kind of refusal is an answer to compare
        lines = [line for line in str(error).splitlines() if line.strip()]
        return {"error": lines[0] if lines else repr(error)}
    return {"columns": frame.columns, "rows": rows}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):  # naive: the client's zone, which is set to UTC
        return value.replace(tzinfo=UTC).isoformat()
    return value


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
