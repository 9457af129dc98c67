"""Streams into the lake: sinks that commit epochs exactly once, and loops that feed them."""
