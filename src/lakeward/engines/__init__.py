"""What writes and scans data files."""
