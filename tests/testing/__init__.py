"""The public laws: that they find mistakes, and say where."""
