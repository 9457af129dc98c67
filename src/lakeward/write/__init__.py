"""The write path: stage, validate, ratify, publish; one step per module."""
