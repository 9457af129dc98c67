"""Where files live. Each kind of store keeps the same few promises (see `base`)."""
