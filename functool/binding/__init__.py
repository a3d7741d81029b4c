"""JSON text or a mapping becomes checked arguments, or an `ArgumentError`."""
