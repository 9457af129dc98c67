"""The public interface: opens a lake, and returns its tables, branches and snapshots."""
