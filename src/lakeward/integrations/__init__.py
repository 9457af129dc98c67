"""Integrations with other tools, one module or folder each; their libraries are extras."""
