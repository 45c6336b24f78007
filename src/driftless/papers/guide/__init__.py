"""The studies behind docs/choose.md and `driftless suggest`: a collection of our own, not a paper."""

from __future__ import annotations

from driftless.papers.guide.labels import LABELS_STUDY
from driftless.papers.guide.participation import PARTICIPATION
from driftless.papers.guide.privacy import PRIVACY
from driftless.papers.guide.sizes import SIZES
from driftless.papers.guide.stateless import STATELESS_STUDY
from driftless.papers.guide.upload import UPLOAD
from driftless.reproduce.experiment import Paper

GUIDE = Paper(
    name="guide",
    title="Studies behind the choice of an algorithm",
    citation="Our own studies: what [choosing an algorithm](../choose.md) and `driftless suggest` rest on.",
    experiments=(LABELS_STUDY, PARTICIPATION, UPLOAD, STATELESS_STUDY, SIZES, PRIVACY),
    notes=(
        "Small models on handwritten digits, 40 to 100 rounds. A verdict is about this setting; on your data it is a "
        "guess that `driftless tune` and `driftless compare` can check.",
        "The data are part of the package: everyone can run these studies.",
        "FedGBO with momentum is the same algorithm as FedCM; it is not run twice.",
    ),
)
