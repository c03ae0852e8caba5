"""llmdoctor: which stretch of the way makes an LLM application slow, with evidence."""

__version__ = "0.1.0"
