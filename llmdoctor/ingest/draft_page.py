"""The frame of a drafted format page, and the check that it is one."""

import json
from collections.abc import Sequence
from pathlib import Path

from llmdoctor.ingest.formats import Format, parse_format
from llmdoctor.pages import parse_page
from llmdoctor.redact import mask


def page_text(name: str, file: Path, keys: Sequence[str], fields: str, select: str) -> str:
    """A page up to its examples, which come last."""
    wanted = ", ".join(json.dumps(key, ensure_ascii=False) for key in keys)
    return f"""# {name}

Drafted from a log of this kind, {mask(file.name)}. Look at each line marked GUESS, then delete this paragraph.

```toml
vantage = "client"  # GUESS: client, gateway, proxy, engine, cloud or bench
needs   = [{wanted}]
```

## Fields

Units: text, int, number, bool, ms, s, us, ns, duration (1m2.3s), time, iso, epoch_s, epoch_ms, epoch_us, epoch_ns.

```toml
{fields}
```

## Rows

```sql
{select}
```

## Cannot show

What this log cannot tell, and what a reader may take it for.

## Examples

"""


def checked(name: str, text: str) -> Format:
    """The page as it will be read; PageError where the draft itself is wrong."""
    return parse_format(parse_page(name, f"{name}.md", f"{text}```log\n{{}}\n```\n\n```jsonl\n```\n"))
