"""Turn JSON text or a mapping into validated arguments, or raise an `ArgumentError`."""
