"""What a client would send without a local step: names, shapes and types of an upload before there is one."""

from __future__ import annotations

from driftless.algorithm import Facts, Round, Upload
from driftless.engine.minibatches import Workload


def example_upload(work: Workload) -> Upload:
    algorithm, x, layers = work.algorithm, work.model.initial, work.model.layers
    msg = algorithm.broadcast(algorithm.init_server(x, Facts(layers, work.federation.clients)))
    one, client = x.new_ones(()), algorithm.init_client(x)
    r = Round(one, one, one, one, 1, work.federation.clients, layers)
    if algorithm.full_gradient:
        r = r._replace(gradient=x, cohort_gradient=x if algorithm.full_gradient == "before" else None)
    return algorithm.upload(x, algorithm.init_local(msg, client, r), msg, client, r)[0]
