from __future__ import annotations

from data.files_by_user import folder, real

__all__ = ["folder", "real"]
