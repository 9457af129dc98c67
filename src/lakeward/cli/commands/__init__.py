"""The commands: each asks the lake and shows the answer."""
