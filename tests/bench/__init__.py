"""Measurements: what the program costs. Nothing here is asserted."""
