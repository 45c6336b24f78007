"""Which algorithms to try first on a federation, and why: from what is seen of it and what has been measured."""

from __future__ import annotations

from driftless.suggest.advice import Advice, Sentence, advice
from driftless.suggest.facts import Facts
from driftless.suggest.suggestion import Candidate, Suggestion, suggest

__all__ = ["Advice", "Candidate", "Facts", "Sentence", "Suggestion", "advice", "suggest"]
