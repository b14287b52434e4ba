// Removed with the first real source.
