"""Write a small Llama model with random weights: real arithmetic, meaningless text.

    .venv-real/bin/python tests/real/make_model.py OUT.gguf [LAYERS]

The shape decides only how fast the server is. Needs the `gguf` package of `.venv-real`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, FEED_FORWARD, CONTEXT = 512, 8, 1408, 4096
SYLLABLES = [a + b for a in "bcdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "an", "el", "ir", "on", "us")]
CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def vocabulary() -> tuple[list[str], list[float], list[int]]:
    """Tokens, scores and types of a SentencePiece vocabulary: specials, all bytes, letters, some syllables."""
    specials = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    single = [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    letters = [chr(code) for code in range(33, 127)] + ["\u2581", "\n"]
    pieces = letters + SYLLABLES + ["\u2581" + word for word in SYLLABLES]
    words = [(piece, -float(rank), 1) for rank, piece in enumerate(dict.fromkeys(pieces))]
    rows = specials + single + words
    return [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]


def add_header(out: gguf.GGUFWriter, layers: int) -> int:
    """Write the hyperparameters and the tokenizer; returns the number of tokens."""
    tokens, scores, types = vocabulary()
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(layers)
    out.add_feed_forward_length(FEED_FORWARD)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(len(tokens))
    out.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    out.add_tokenizer_model("llama")
    out.add_token_list(tokens)
    out.add_token_scores(scores)
    out.add_token_types(types)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_chat_template(CHAT_TEMPLATE)
    return len(tokens)


def add_weights(out: gguf.GGUFWriter, layers: int, words: int) -> None:
    """Write random F16 matrices; the row of the end token stays 0, so that answers run to max_tokens."""
    random = np.random.default_rng(7)

    def matrix(name: str, rows: int, columns: int) -> None:
        values = random.normal(0.0, 0.05, (rows, columns)).astype(np.float16)
        if name == "output.weight":
            values[:259] = 0  # specials and raw bytes
        out.add_tensor(name, values)

    def ones(name: str) -> None:
        out.add_tensor(name, np.ones(WIDTH, dtype=np.float32))

    matrix("token_embd.weight", words, WIDTH)
    for block in (f"blk.{index}." for index in range(layers)):
        ones(block + "attn_norm.weight")
        ones(block + "ffn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"{block}{name}.weight", WIDTH, WIDTH)
        matrix(block + "ffn_gate.weight", FEED_FORWARD, WIDTH)
        matrix(block + "ffn_up.weight", FEED_FORWARD, WIDTH)
        matrix(block + "ffn_down.weight", WIDTH, FEED_FORWARD)
    ones("output_norm.weight")
    matrix("output.weight", words, WIDTH)


def write_model(path: Path, layers: int) -> None:
    """Write the whole file at `path`."""
    out = gguf.GGUFWriter(str(path), "llama")
    add_weights(out, layers, add_header(out, layers))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    write_model(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 24)
