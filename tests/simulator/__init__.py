"""A discrete-event simulator of an LLM service that writes labelled request logs: how we measure the diagnosis."""
