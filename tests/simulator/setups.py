"""Constants of serving set-ups and of public workloads, with their sources.

Step time of a continuous-batching engine (knowledge/diagnosis.md 3.2):
    t = base + seq * sequences + ctx * sum(contexts of decoders) + prefill * chunk tokens + pair * sum(chunk * context)
8B and 70B "2025" rows: roofline with the BLIS corrections (inference-sim@f90a1e3 defaults.yaml); Llama2-70B rows: least
squares on splitwise-sim@8f99e7d data/perf_model.csv; the 24 GB card (L4/A10 class) has the same form and is rough.
``pair`` is derived here: 4 x layers x width FLOPs for each (token, context token) pair over MFU x peak
(.45 x 990 TFLOP/s H100, .38 x 312 A100, .40 x 121 for the 24 GB card). Cold start: 20 to 60 s for 8B from a local disk,
longer for 70B (3.2). Token budgets: vLLM's effective defaults, 8,192 on 80 GB cards that are no A100, else 2,048 (3.1).
"""

from __future__ import annotations

from itertools import pairwise
from math import exp
from statistics import NormalDist

from tests.simulator.traffic import Lengths
from tests.simulator.world import Setup

API_BEFORE_MS = 15.6  # BLIS alpha: HTTP, tokenizing and scheduling of one request before the queue
API_AFTER_MS = 0.78  # BLIS alpha: after decode
STEP_NOISE = 0.04  # sigma of the lognormal around the step time (3.2)

H100_8B = Setup("8b-h100", 7.7, 0.0044, 0.000076, 0.036, 1.2e-6, 400_000, 8192, 25.0)
A100_8B = Setup("8b-a100", 11.9, 0.0044, 0.000125, 0.135, 4.4e-6, 400_000, 2048, 30.0)
CARD_8B = Setup("8b-24gb", 33.0, 0.010, 0.0004, 0.42, 1.1e-5, 36_000, 2048, 35.0)
H100X4_70B = Setup("70b-4xh100", 18.5, 0.006, 0.00005, 0.10, 1.45e-6, 420_000, 8192, 70.0)
H100X8_L70B = Setup("70b-8xh100-2023", 29.9, 0.223, 0.000162, 0.098, 0.7e-6, 900_000, 8192, 80.0)
A100X8_L70B = Setup("70b-8xa100-2023", 44.2, 0.237, 0.000303, 0.214, 2.8e-6, 900_000, 2048, 90.0)

SMALL = (H100_8B, A100_8B, CARD_8B)
BIG = (H100X4_70B, H100X8_L70B, A100X8_L70B)

_SHARES = (0.0, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50, 0.55,
           0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 0.98, 0.99, 0.995, 0.999)  # fmt: skip


def _grid(*tokens: float) -> tuple[tuple[float, float], ...]:
    return tuple(zip(_SHARES, tokens, strict=True))


def lognormal_grid(median: float, sigma: float, low: float, high: float) -> tuple[tuple[float, float], ...]:
    """The inverse distribution function of a clipped lognormal at the same shares as the measured grids."""

    normal = NormalDist()
    return tuple(
        (share, min(high, max(low, median * exp(sigma * normal.inv_cdf(min(max(share, 0.001), 0.999))))))
        for share in _SHARES
    )


# Quantiles measured on AzureLLMInferenceTrace2023 (Azure/AzurePublicDataset, CC-BY-4.0, cite Splitwise ISCA'24):
# 19,366 conversation and 8,819 code requests; prompt and answer are nearly independent (Spearman .07).
CHAT = Lengths(
    "chat",
    _grid(16, 181, 207, 372, 387, 396, 403, 414, 703, 984, 1020, 1045,
          1071, 1097, 1130, 1189, 1315, 1877, 2735, 4083, 4098, 4142, 4831, 6212),
    _grid(7, 41, 54, 67, 77, 85, 91, 96, 103, 113, 129, 151,
          177, 217, 384, 395, 400, 411, 424, 451, 540, 601, 644, 954),
)  # fmt: skip
CODE = Lengths(
    "code",
    _grid(16, 75, 147, 232, 385, 578, 770, 938, 1075, 1261, 1469, 1690,
          1909, 2164, 2433, 2745, 3193, 3923, 5194, 7315, 7436, 7436, 7436, 7437),
    _grid(6, 6, 7, 7, 8, 9, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 29, 39, 55, 90, 172, 252, 361, 831),
    (30, 200),
)  # fmt: skip
# Assumed shapes: retrieval-augmented answers (long shared preamble) and agent steps (short tool calls, long history).
RAG = Lengths("rag", lognormal_grid(2600, 0.45, 300, 9000), lognormal_grid(230, 0.55, 10, 1200), (300, 900))
AGENT = Lengths("agent", lognormal_grid(1800, 0.6, 200, 10_000), lognormal_grid(110, 0.8, 8, 1500), (600, 1500))
# Lognormals through the figures noted for BurstGPT_1 (prompt P50/P95 353/1,638, answer 238/841: diagnosis.md 4).
SHORT = Lengths("short", lognormal_grid(353, 0.93, 10, 4000), lognormal_grid(238, 0.77, 5, 1500), (40, 160))
LONG_ANSWERS = Lengths("long_answers", lognormal_grid(420, 0.6, 40, 3000), lognormal_grid(1500, 0.45, 300, 3900))
# Assumed: prompts that are mostly the same preamble, and answers of a word or two.
SHARED = Lengths("shared", lognormal_grid(9000, 0.1, 8000, 12_000), lognormal_grid(160, 0.6, 10, 900), (7000, 7800))
TERSE = Lengths("terse", lognormal_grid(500, 0.7, 40, 3000), lognormal_grid(4, 0.6, 1, 24))
WORKLOADS = (CHAT, CODE, RAG, AGENT, SHORT)


def mean_length(points: tuple[tuple[float, float], ...]) -> float:
    """Mean of a piecewise linear inverse distribution function (tokens)."""
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points)) / (points[-1][0] - points[0][0])


def capacity(setup: Setup, lengths: Lengths, slots: int, kv_tokens: int) -> float:
    """Requests per second that one replica can complete with ``slots`` sequences running all the time.

    Utilisation law (3.1): X = B / slot time, slot time = answer x step, where a step also carries the prefill of
    ``B / answer`` new prompts.
    """
    prompt, answer = mean_length(lengths.prompt), mean_length(lengths.answer)
    batch = max(1.0, min(float(slots), 0.8 * kv_tokens / (prompt + answer)))
    step = setup.base_ms + setup.seq_ms * batch + setup.ctx_ms * batch * (prompt + answer / 2)
    step += setup.prefill_ms * prompt * batch / answer
    return 1000 * batch / (answer * step)
