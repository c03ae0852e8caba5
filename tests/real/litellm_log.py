"""LiteLLM's own StandardLoggingPayload as JSONL. Lies beside litellm.yaml, which names `handler`.

Left out: prompts, answers, headers, Python tracebacks (they name paths of the machine) and model_map_information (the
price list: ten kilobytes a line, nearly all null).
"""

from __future__ import annotations

import json
import os

from litellm.integrations.custom_logger import CustomLogger

Payload = dict[str, object]
LEFT_OUT = {"messages", "guardrail_information", "model_map_information"}
HEADERS = {"requester_metadata", "requester_custom_headers", "additional_headers", "headers", "response_headers"}


class PayloadLog(CustomLogger):
    """Appends one line for each attempt that ended, well or badly."""

    async def async_log_success_event(self, kwargs: Payload, *_: object, **__: object) -> None:
        append(kwargs.get("standard_logging_object"))

    async def async_log_failure_event(self, kwargs: Payload, *_: object, **__: object) -> None:
        append(kwargs.get("standard_logging_object"))


def append(payload: object) -> None:
    """Write the payload less what was said and who sent it."""
    if not isinstance(payload, dict):
        return
    kept = {key: value for key, value in payload.items() if key not in LEFT_OUT}
    for part in ("metadata", "hidden_params"):
        if isinstance(kept.get(part), dict):
            kept[part] = {key: value for key, value in kept[part].items() if key not in HEADERS}
    if isinstance(kept.get("error_information"), dict):
        kept["error_information"] = kept["error_information"] | {"traceback": ""}
    kept["response"] = without_text(kept.get("response"))
    with open(os.environ["LITELLM_LOG_FILE"], "a", encoding="utf-8") as log:
        log.write(json.dumps(kept, default=str) + "\n")


def without_text(response: object) -> Payload | None:
    """Of the answer only id, model and how each choice finished."""
    if not isinstance(response, dict):
        return None
    choices = [{key: choice.get(key) for key in ("index", "finish_reason")} for choice in response.get("choices", [])]
    return {"id": response.get("id"), "model": response.get("model"), "choices": choices}


handler = PayloadLog()
