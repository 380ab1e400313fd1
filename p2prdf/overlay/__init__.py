"""Who owns a key, and how messages reach it."""
