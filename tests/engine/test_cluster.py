"""Several processes compute what one would, to the bit; whatever ends one of them, or the run, leaves none behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from driftless import AdaptiveClipping, Federation, InputError, LocalTraining, Result, ServerSchedule
from driftless.algorithms import FedAvg, Scaffold
from driftless.engine import processes
from driftless.engine.clients import ClientStore
from driftless.engine.cluster import DistributedStore
from driftless.engine.minibatches import Block
from driftless.engine.packing import packed, room_for, unpacked
from driftless.engine.rank import assignment
from driftless.engine.tree import leaves, named_leaves
from engine.own import Keeper, Poisoned, Probe, reached
from engine.problems import classification, linear, network, regression, run

FORK = multiprocessing.get_context("fork")
SIZES = [3, 7, 4, 9, 5, 6, 2, 8]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No process, and torch has as many threads as before."""
    before = torch.get_num_threads()
    yield
    assert multiprocessing.active_children() == []
    assert torch.get_num_threads() == before


# --- the same bits


class Case(NamedTuple):
    algorithm: Any = "fedavg"
    options: Mapping[str, Any] = MappingProxyType({})
    dropout: float | None = None
    """Of a network that classifies; None: a linear regression."""
    huge: bool = False
    """Whether the last client's inputs are so large that its gradient overflows."""


CASES = {
    "no client state": Case(),
    "client state": Case("scaffold"),
    "client state of several kinds": Case("adabest"),
    "full gradients before the steps": Case("mime"),
    "full gradients after the steps": Case("mimelite"),
    "local state": Case("scaffold-momentum"),
    "fields that ignore the weights": Case(Probe(), {"weighting": "examples"}),
    "clipping": Case(AdaptiveClipping(Scaffold(), initial=0.05)),
    "the server's warm-up": Case("fedavgm", {"server": ServerSchedule(warmup_rounds=3)}),
    "the mean of all clients' models": Case("feddyn", {"inference": "clients"}),
    "dropout": Case("scaffold", dropout=0.3),
    "a client that is left out": Case(Poisoned(rounds=(2, 4), sizes=(5,))),
    "a block that is left out": Case(
        Poisoned(rounds=(2, 3), sizes=(2, 3, 4, 5)), {"inference": "clients", "cohort": len(SIZES)}
    ),
    "a full gradient that is left out": Case("mime", {"cohort": len(SIZES)}, huge=True),
    "a round that is lost": Case(Poisoned(rounds=(3,))),
    "a round that the server loses": Case(Poisoned(place="server", rounds=(3,))),
    "one client after the other": Case("scaffold", {"engine": "single"}),
    "float32": Case("scaffold", {"dtype": torch.float32}),
    "more workers than blocks": Case("scaffold", {"cohort": 2}),
    "cohorts of changing size": Case("adabest", {"cohort": [[0], [1, 2, 3, 4, 5, 6, 7], [3], [7, 0, 1]]}),
}


def result_of(case: Case, number: int, **options: Any) -> Result:
    settings: dict[str, Any] = {
        "rounds": 4,
        "cohort": 5,
        "local": LocalTraining(lr=0.1, epochs=1, batch_size=3),
        "block_size": 2,
        "threads": 1,
        "workers": number,
        "evaluate_every": 2,
    }
    federation = regression(SIZES) if case.dropout is None else classification(SIZES)
    if case.huge:
        clients = [federation.client(i) for i in range(len(SIZES))]
        clients[-1] = (clients[-1][0] * 1e200, clients[-1][1])
        federation = Federation.from_clients(clients, test=clients[0])
    module = linear() if case.dropout is None else network(dropout=case.dropout)
    return run(case.algorithm, federation, module, **{**settings, **case.options, **options})[0]


def assert_same(one: Result, other: Result) -> None:
    """In every bit: models, server, clients, history and events."""
    tensors, others = tensors_of(one), tensors_of(other)
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, others[name]), name
        assert tensor.dtype == others[name].dtype, name
    assert rows_of(one) == rows_of(other)
    assert one.events == other.events


def tensors_of(result: Result) -> dict[str, Tensor]:
    state = result.state
    tensors = {f"server {name}": leaf for name, leaf in named_leaves(state.server)}
    tensors |= {"x": result.x, "inference": result.inference, "aggregate": state.aggregate}
    stores = {"state": state.clients}
    if state.models is not None:
        stores["model"] = state.models.store
        tensors["moved"] = state.models.moved
    for what, store in stores.items():
        assert len(store) == len(store.clients)
        for client in store.clients:
            assert client in store
            tensors |= {f"{what} {i} of client {client}": row for i, row in enumerate(store.rows([client]))}
    return tensors


def rows_of(result: Result) -> list[dict[str, Any]]:
    """The history without the seconds."""
    return [{name: value for name, value in row.items() if not name.endswith("seconds")} for row in result.history]


@pytest.mark.parametrize(("name", "number"), [*[(name, 3) for name in CASES], ("client state", 2)])
def test_the_number_of_workers_does_not_change_a_bit(name: str, number: int):
    alone, together = (result_of(CASES[name], workers) for workers in (1, number))
    assert together.engine == {**alone.engine, "workers": number}
    assert_same(alone, together)


def test_the_cases_are_what_they_are_called():
    """Clients are left out, rounds are lost: otherwise the tests above say less than they seem to."""

    def events(name: str) -> list[tuple[int, int]]:
        return [(event.round, len(event.clients)) for event in result_of(CASES[name], 1).events]

    assert events("a client that is left out") == [(2, 1), (4, 1)]
    assert events("a block that is left out") == [(2, 4), (3, 4)]
    assert events("a full gradient that is left out") == [(t, 1) for t in (1, 2, 3, 4)]
    assert events("a round that is lost") == [(3, 5), (3, 0)]
    assert events("a round that the server loses") == [(3, 0)]


def test_states_go_to_the_rank_that_trains_their_client_and_come_home(monkeypatch: pytest.MonkeyPatch):
    """With blocks of one client, rank 0 gets the first of a round, rank 1 the second; clients of equal size keep their
    order."""
    cohorts = [[0, 1], [1, 2], [0, 2], [0, 1], [1, 2]]
    left: list[list[int]] = []
    original = DistributedStore.remove
    monkeypatch.setattr(
        DistributedStore, "remove", lambda self, clients: left.append(clients) or original(self, clients)
    )
    options = {"rounds": 5, "cohort": cohorts, "block_size": 1, "threads": 1}
    federation = regression([4, 4, 4])
    together, _ = run(Keeper(), federation, linear(), workers=2, **options)
    alone, _ = run(Keeper(), federation, linear(), **options)
    assert left == [[1]], "client 1 is at rank 1, 0, 0, 1, 0 and client 2 stays at rank 1"
    for client in range(3):
        assert torch.equal(reached(together, client), reached(alone, client))
    assert sorted(together.state.clients.clients) == [0, 1, 2]


def test_a_client_without_a_state_does_not_get_one_by_moving():
    """Left out in round 1 at rank 1, left out in round 2 at rank 0: as in one process, it never had a state."""
    bad = Poisoned(rounds=(1, 2), sizes=(9,))
    for number in (1, 2):
        options = {"cohort": [[0, 1], [1], [0]], "rounds": 3, "block_size": 1, "threads": 1, "workers": number}
        result, _ = run(bad, regression([8, 9]), linear(), **options)
        assert result.state.clients.clients == [0], f"with {number} workers"


@pytest.mark.parametrize(("first", "second"), [(1, 2), (3, 1)])
def test_a_run_is_continued_by_another_number_of_workers(first: int, second: int):
    case = Case("scaffold")
    part = result_of(case, first, rounds=2)
    before = {name: tensor.clone() for name, tensor in tensors_of(part).items()}
    rest = result_of(case, second, state=part.state)
    whole = result_of(case, 1)
    assert rows_of(whole)[2:] == rows_of(rest)
    both, expected = tensors_of(rest), tensors_of(whole)
    assert both.keys() == expected.keys()
    assert all(torch.equal(both[name], expected[name]) for name in both)
    assert all(torch.equal(tensor, before[name]) for name, tensor in tensors_of(part).items()), "the state was changed"


def test_a_state_can_be_looked_at_and_copied_after_the_run():
    result = result_of(Case("scaffold"), 2, cohort=8)
    twin = result.state.copy()
    assert type(twin.clients) is ClientStore
    assert sorted(twin.clients.clients) == list(range(8))
    for one, other in zip(twin.clients.rows(range(8)), result.state.clients.rows(range(8)), strict=True):
        assert torch.equal(one, other)
        assert one.any(dim=1).all()


def test_what_a_message_is_made_of_does_not_matter():
    """Tensors that are transposed, expanded, empty or of other types reach the workers as they are."""

    class Strange(NamedTuple):
        x: Tensor
        turned: Tensor
        expanded: Tensor
        empty: Tensor
        flags: Tensor
        count: Tensor

    @dataclass(frozen=True)
    class Sends(FedAvg):
        def broadcast(self, server):
            turned = (server.x[:1] + torch.arange(6.0, dtype=server.x.dtype)).view(2, 3).t()
            return Strange(server.x, turned, server.x[:1].expand(4), server.x[:0], server.x > 0, (server.x > 0).sum())

        def direction(self, step, local, msg, client, r):
            parts = (msg.turned[0], msg.expanded, msg.empty, msg.flags, msg.count)
            return step.g + 0.01 * sum(part.to(step.g.dtype).sum() for part in parts), local

    alone = result_of(Case(Sends()), 1)
    assert_same(alone, result_of(Case(Sends()), 3))


# --- who does what


def block(clients: int, steps: int) -> Block:
    return Block(1, np.arange(clients), torch.full((clients,), float(steps)), torch.ones(clients))


blocks = st.lists(st.builds(block, st.integers(1, 9), st.integers(1, 20)), min_size=1, max_size=25)


@given(blocks=blocks, ranks=st.integers(1, 9))
def test_the_blocks_are_shared_out_evenly(blocks: list[Block], ranks: int):
    who = assignment(blocks, ranks)
    work = [float(each.steps.max()) * len(each.clients) for each in blocks]
    load = [sum(w for w, rank in zip(work, who, strict=True) if rank == me) for me in range(ranks)]
    assert len(who) == len(blocks)
    assert set(who) <= set(range(ranks))
    assert max(load) - min(load) <= max(work)
    assert who[work.index(max(work))] == 0, "rank 0 has the longest block, so never none"
    assert len(set(who)) == min(ranks, len(blocks)), "nobody is idle while another has two"


def test_the_longest_blocks_come_first():
    """5, 4, 3, 3, 3 for two: 5 + 3 and 4 + 3 + 3, not what comes first to whom is free first."""
    assert assignment([block(1, n) for n in (3, 3, 3, 4, 5)], 2) == [1, 0, 1, 1, 0]


def leaf(dtype: torch.dtype, shape: list[int]) -> Tensor:
    return (torch.arange(float(np.prod(shape))) * 3).reshape(shape).to(dtype)


tensors = st.builds(
    leaf, st.sampled_from([torch.float64, torch.float32, torch.int64]), st.lists(st.integers(0, 3), max_size=3)
)
trees = st.recursive(tensors, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=10)


@given(trees)
def test_a_tree_is_packed_into_few_messages_and_unpacked_as_it_was(tree: Any):
    sent, room = packed(tree), room_for(tree)
    assert len(sent) == len({value.dtype for value in leaves(tree)})
    assert [(v.shape, v.dtype) for v in sent] == [(v.shape, v.dtype) for v in room]
    back = unpacked(sent, tree)
    assert [name for name, _ in named_leaves(back)] == [name for name, _ in named_leaves(tree)]
    for one, other in zip(leaves(back), leaves(tree), strict=True):
        assert torch.equal(one, other)
        assert one.dtype == other.dtype


# --- how it ends


class End(NamedTuple):
    """How a run ended, and what was left of it."""

    error: str
    message: str
    seconds: float
    children: list[str]
    threads: int
    files: list[str]

    def check(self, error: str, *parts: str) -> None:
        assert self.error == error, f"{self.error}: {self.message}"
        assert [part for part in parts if part not in self.message] == [], self.message
        assert (self.children, self.threads, self.files) == ([], 3, [])


PATIENCE = 10.0
"""Seconds in which a run has to end."""


def end_of(folder: Path, **options: Any) -> End:
    """Of a run with three workers, in a process of its own: one that does not end is ended with all its workers."""
    told, tell = FORK.Pipe(duplex=False)

    def play() -> None:
        os.setsid()
        torch.set_num_threads(3)
        tempfile.tempdir = str(folder)
        start, error = time.monotonic(), None
        try:
            settings = {"rounds": 4, "cohort": [[0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2], [0, 1]], "block_size": 1}
            settings |= {"workers": 3, **options}
            run(settings.pop("algorithm", "scaffold"), regression(SIZES), linear(), **settings)
        except BaseException as caught:
            error = caught
        seconds = time.monotonic() - start
        children = [child.name for child in multiprocessing.active_children()]
        files = sorted(path.name for path in folder.glob("driftless*"))
        tell.send(End(type(error).__name__, str(error), seconds, children, torch.get_num_threads(), files))
        os._exit(0)

    child = FORK.Process(target=play, name=THE_RUN)
    child.start()
    tell.close()
    try:
        if told.poll(PATIENCE):
            return told.recv()
        raise AssertionError(f"the run has not ended after {PATIENCE:g} seconds")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid or 0, signal.SIGKILL)
        child.join()


THE_RUN = "the process of the run"


def here() -> str:
    """Which process this is: THE_RUN or "driftless worker 1" (or 2)."""
    return multiprocessing.current_process().name


@dataclass(frozen=True)
class Fails(Scaffold):
    """Calls a function in `direction`, which only runs while it is recorded: twice for each size of a cohort."""

    call: Callable[[Any], None] = field(default=lambda r: None)

    def direction(self, step, local, msg, client, r):
        self.call(r)
        return super().direction(step, local, msg, client, r)


def fails_in(who: str, error: BaseException, cohort: int = 4) -> Fails:
    """In the first round; with cohort=5 in the second one, when there are states in all processes."""

    def call(r: Any) -> None:
        before = who == THE_RUN and not multiprocessing.active_children()  # a trial, not the run itself
        if r.cohort == cohort and here() == who and not before:
            raise error

    return Fails(call=call)


def test_a_run_ends_with_all_its_processes(tmp_path: Path):
    end_of(tmp_path).check("NoneType")


def kill(victim: int, number: signal.Signals) -> Callable[[Any], None]:
    """A worker, after the second round."""

    def call(record: Any) -> None:
        if record.round == 2:
            (child,) = [c for c in multiprocessing.active_children() if c.name == f"driftless worker {victim}"]
            os.kill(child.pid or 0, number)

    return call


@pytest.mark.parametrize(
    ("algorithm", "victim", "number"),
    [("fedavg", 1, signal.SIGKILL), ("scaffold", 2, signal.SIGKILL), ("mime", 1, signal.SIGSEGV)],
)
def test_a_worker_that_is_killed_ends_the_run_which_says_who_and_how(tmp_path, algorithm, victim, number):
    end = end_of(tmp_path, algorithm=algorithm, on_round=kill(victim, number))
    end.check("WorkerDied", f"worker {victim} of 3 has ended", number.name)


def test_a_worker_that_is_killed_is_found_among_many(tmp_path: Path):
    end = end_of(tmp_path, workers=8, on_round=kill(7, signal.SIGKILL))
    end.check("WorkerDied", "worker 7 of 8 has ended", "SIGKILL")


def test_a_worker_that_is_killed_while_it_computes_ends_the_run(tmp_path: Path):
    def call(r: Any) -> None:
        if here() == "driftless worker 2":
            os.kill(os.getpid(), signal.SIGKILL)

    end_of(tmp_path, algorithm=Fails(call=call)).check("WorkerDied", "worker 2 of 3", "SIGKILL", "memory")


@pytest.mark.parametrize("cohort", [4, 5])
def test_an_error_in_a_worker_ends_the_run_with_its_cause(tmp_path: Path, cohort: int):
    end = end_of(tmp_path, algorithm=fails_in("driftless worker 1", LookupError("the dog ate it"), cohort))
    end.check("WorkerDied", "worker 1 of 3 has ended", "LookupError: the dog ate it", "in direction", "Traceback")


def test_a_long_error_in_a_worker_ends_the_run_too(tmp_path: Path):
    """Longer than what a pipe holds: a message may show tensors."""
    error = LookupError("the dog ate it" + 300_000 * "!")
    end_of(tmp_path, algorithm=fails_in("driftless worker 1", error)).check("WorkerDied", "LookupError: the dog ate it")


def test_an_input_error_in_a_worker_is_told_without_a_traceback(tmp_path: Path):
    end = end_of(tmp_path, algorithm=fails_in("driftless worker 2", InputError("client 3 has no cheese; bring some.")))
    end.check("WorkerDied", "worker 2 of 3 has ended: client 3 has no cheese; bring some.")
    assert "Traceback" not in end.message


@pytest.mark.parametrize(
    ("error", "cohort"),
    [(LookupError("here"), 4), (RuntimeError("here"), 4), (LookupError("here"), 5), (KeyboardInterrupt("here"), 5)],
    ids=lambda value: repr(value) if isinstance(value, BaseException) else f"round {value - 3}",
)
def test_an_error_or_an_interrupt_while_this_process_computes_ends_the_run(tmp_path, error, cohort):
    """The workers are in the middle of a round then and do not expect to be told to stop."""
    end_of(tmp_path, algorithm=fails_in(THE_RUN, error, cohort)).check(type(error).__name__, "here")


@pytest.mark.parametrize("error", [LookupError("here"), KeyboardInterrupt("here")], ids=repr)
def test_an_error_or_an_interrupt_between_rounds_ends_the_run(tmp_path: Path, error: BaseException):
    def fail(record: Any) -> None:
        if record.round == 2:
            raise error

    end_of(tmp_path, on_round=fail).check(type(error).__name__, "here")


def test_an_error_in_the_servers_update_ends_the_run(tmp_path: Path):
    @dataclass(frozen=True)
    class Stumbles(Scaffold):
        def update(self, server, mean, r):
            if r.t == 2:
                raise LookupError("at the server")
            return super().update(server, mean, r)

    end_of(tmp_path, algorithm=Stumbles()).check("LookupError", "at the server")


def test_a_run_that_diverges_ends_with_all_its_processes(tmp_path: Path):
    end_of(tmp_path, algorithm=Poisoned(rounds=(2, 3, 4))).check("Diverged", "rounds 2 to 4")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_cannot_connect_ends_the_run(tmp_path, rank, monkeypatch: pytest.MonkeyPatch):
    original = processes.connect

    def connect(port: int, me: int, size: int, *listener: Any) -> Any:
        if me == rank:
            raise OSError("no network")
        return original(port, me, size, *listener)

    monkeypatch.setattr(processes, "connect", connect)
    end_of(tmp_path).check("WorkerDied" if rank else "OSError", "no network")


def test_a_group_that_is_collected_long_after_its_end_touches_no_file(tmp_path: Path):
    """Its file descriptors are other files' by then; a store in a file wrote into them, or read them for ever."""
    group = processes.Processes(3, lambda group: None)
    group.busy = True
    group.end()
    files = [(tmp_path / str(number)).open("w+b", buffering=0) for number in range(20)]
    del group
    gc.collect()
    sizes = [os.fstat(file.fileno()).st_size for file in files]
    for file in files:
        file.close()
    assert sizes == [0] * 20


@pytest.mark.parametrize("moment", ["between rounds", "in a round"])
def test_workers_end_when_the_process_they_work_for_is_killed(tmp_path: Path, moment: str):
    told, tell = FORK.Pipe(duplex=False)

    def die(_: Any) -> None:
        if here() == THE_RUN and multiprocessing.active_children():  # not before the run, in a trial
            tell.send([child.pid for child in multiprocessing.active_children()])
            os.kill(os.getpid(), signal.SIGKILL)

    options = {"on_round": die} if moment == "between rounds" else {"algorithm": Fails(call=die)}
    with pytest.raises(EOFError):
        end_of(tmp_path, **options)
    pids = told.recv()
    assert len(pids) == 2
    deadline = time.monotonic() + PATIENCE
    while any(map(alive, pids)):
        assert time.monotonic() < deadline, "a worker is left behind"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [2, 3])
def test_metrics_of_all_outputs_are_the_same_bits_with_any_number_of_workers(number: int, monkeypatch):
    """Many batches, of which some are computed elsewhere, and sequences in another type than the losses'."""
    monkeypatch.setattr("driftless.engine.evaluate.EVALUATION_BATCH", 3)
    order: list[list[int]] = []

    def first_targets(outputs: torch.Tensor, targets: torch.Tensor) -> float:
        order.append(targets[:10].tolist())
        return float(outputs.double().mul(torch.arange(len(outputs))[:, None]).sum())

    def of(workers: int) -> Any:
        federation, module = classification([10, 7, 9, 8]), network()
        return run("fedavg", federation, module, workers=workers, block_size=1, metrics=["f1", first_targets])[0]

    one, several = of(1), of(number)
    assert one.history["test_f1"] == several.history["test_f1"]
    assert one.history["test_first_targets"] == several.history["test_first_targets"]
    assert all(seen == order[0] for seen in order)
