"""From checks to the verdict of a claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from driftless.reproduce.checks import Check, Exact, pooled
from driftless.reproduce.experiment import Claim, Scale, Verdict
from driftless.reproduce.intervals import ERROR, error_of_a_look
from driftless.reproduce.outcome import Missing, Outcome
from driftless.reproduce.strength import too_small

SMOKE_REASON = "the smoke scale only shows that it runs"
ONE_DECIDES: dict[str, Verdict] = {"all": "refuted", "any": "supported"}
"""The verdict for which one check of many is enough."""


class Finding(NamedTuple):
    """A claim's verdict and what it rests on."""

    claim: Claim
    verdict: Verdict
    checks: tuple[Check, ...] = ()
    error: float = ERROR
    """Of the intervals."""
    reason: str = ""
    """Why it is not tested."""
    paper: str = ""
    """The same comparison with the paper's numbers."""

    @property
    def decisive(self) -> Check | None:
        """The comparison that the verdict rests on: the average, or of those with this verdict the least (for "any" the
        most) favourable one."""
        if not self.checks:
            return None
        if self.claim.decided_by == "average":
            return pooled(self.checks)
        one_decides = self.verdict == ONE_DECIDES[self.claim.decided_by]
        error = one_of_many(self.error, self.checks) if one_decides else self.error
        bearing = [check for check in self.checks if check.finding(error) == self.verdict] or self.checks
        choose = max if self.claim.decided_by == "any" else min
        return choose(bearing, key=lambda check: check.interval(self.error)[:2])

    @property
    def more_seeds(self) -> int | None:
        """About as many would decide it; None: more than can be afforded."""
        if self.claim.decided_by == "average":
            return pooled(self.checks).more_seeds(self.error)
        strict = one_of_many(self.error, self.checks)
        if self.claim.decided_by == "any":
            hopeful = (check for check in self.checks if check.finding(self.error) != "refuted")
            return min(known(check.more_seeds(strict) for check in hopeful), default=None)
        if against := [check for check in self.checks if check.finding(self.error) == "refuted"]:
            return min(known(check.more_seeds(strict) for check in against), default=None)
        open_ = [check.more_seeds(self.error) for check in self.checks if check.finding(self.error) == "undecided"]
        return max(known(open_), default=None) if None not in open_ else None


def known(numbers: Iterable[int | None]) -> list[int]:
    return [number for number in numbers if number is not None]


def judge(claim: Claim, outcome: Outcome, scale: Scale) -> Finding:
    """By the checks of the claim, at the error that this many looks allow."""
    setup = outcome.setup
    error = error_of_a_look(setup.seeds, setup.last_look)
    try:
        checks = tuple(claim.checks(outcome))
    except Missing as missing:
        return Finding(claim, "not tested", reason=too_small(outcome) or str(missing))
    if scale == "smoke":
        return Finding(claim, "not tested", checks, error, SMOKE_REASON)
    if not checks:
        return Finding(claim, "not tested", reason=too_small(outcome) or "nothing that this scale runs bears on it")
    return Finding(claim, verdict_of(claim, checks, error), checks, error, paper=paper_text(claim, outcome))


def verdict_of(claim: Claim, checks: Sequence[Check], error: float) -> Verdict:
    """To hold in all settings, a claim must hold in each; to be wrong, it is enough that it fails in one, but then one
    of many, so that this one must be more certain. The other way round for "any"."""
    if claim.decided_by == "average":
        return pooled(checks).finding(error)
    found = [check.finding(error) for check in checks]
    stricter = [check.finding(one_of_many(error, checks)) for check in checks]
    if claim.decided_by == "any":
        return "supported" if "supported" in stricter else "refuted" if set(found) == {"refuted"} else "undecided"
    return "refuted" if "refuted" in stricter else "supported" if set(found) == {"supported"} else "undecided"


def one_of_many(error: float, checks: Sequence[Check]) -> float:
    """Bonferroni's: where one check of many is enough, it must be more certain."""
    return error / len(checks)


def paper_text(claim: Claim, outcome: Outcome) -> str:
    """The claim's comparison, computed from the numbers that the paper prints."""
    if claim.paper:
        return claim.paper
    printed = outcome.as_printed()
    if not printed.results:
        return ""
    try:
        checks = tuple(claim.checks(printed))
    except LookupError:  # it asks for what is not printed
        return ""
    if not checks or any(isinstance(check, Exact) for check in checks):
        return ""
    decisive = Finding(claim, "undecided", checks).decisive
    assert decisive is not None
    return decisive.seen(ERROR)


def seen(finding: Finding) -> str:
    """What the verdict rests on; empty where nothing was compared."""
    exact = [check for check in finding.checks if isinstance(check, Exact)]
    if len(exact) > 1 and len(exact) == len(finding.checks):
        return f"holds in {sum(check.holds for check in exact)} of {len(exact)}"
    return finding.decisive.seen(finding.error) if finding.decisive else ""


def as_json(finding: Finding) -> dict[str, Any]:
    return {
        "name": finding.claim.name,
        "rule": finding.claim.rule,
        "verdict": finding.verdict,
        "reason": finding.reason,
        "paper": finding.paper,
        "ours": seen(finding),
        "more_seeds": finding.more_seeds if finding.verdict == "undecided" else None,
        "error": round(finding.error, 5),
        "decided_by": finding.claim.decided_by,
        "checks": [{**check.as_json(), "finding": check.finding(finding.error)} for check in finding.checks],
    }
