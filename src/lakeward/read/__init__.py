"""The read path: name, snapshot, plan, engine; one step per module."""
