"""Readers of file formats, one per file. They return arrays, records or bytes and know no data set's options."""
