"""SQL conditions and values: parsed, bound to columns, rendered, compared with statistics."""
