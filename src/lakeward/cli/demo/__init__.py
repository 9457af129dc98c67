"""The demo: a lake shown end to end, every step checked."""
