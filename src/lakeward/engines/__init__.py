"""The engines that write and scan data files."""
