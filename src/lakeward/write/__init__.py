"""The write path: source → stage → validate → ratify → publish."""
