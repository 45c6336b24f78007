"""Plays rounds by the equations in the docstring of an algorithm's class alone.

A line `server: h <- beta*h` changes what is kept until the next round, `server: D = -mean(delta)` names a value of this
one. Lines are executed in their order; server lines above the local steps are executed before them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from docstrings import Equation
from torch import Tensor


def choices_in(equations: Iterable[Equation]) -> dict[str, list[str]]:
    """For each hyper-parameter that conditions name, the values they name."""
    choices: dict[str, list[str]] = {}
    for equation in equations:
        for condition in equation.conditions:
            name, sign, text = condition.partition("=")
            if sign and name.isidentifier() and text not in choices.setdefault(name, []):
                choices[name].append(text)
    return choices


def holds(equation: Equation, env: dict[str, Any]) -> bool:
    return all(condition_holds(condition, env) for condition in equation.conditions)


def condition_holds(condition: str, env: dict[str, Any]) -> bool:
    name, _, text = condition.partition("=")
    if name.isidentifier():  # optimizer=adam
        return str(env[name]) == text
    return bool(value(ast.parse(condition, mode="eval").body, env))  # t > tau


# The value of one side of an equation


def number(of: float) -> Tensor:
    return torch.tensor(float(of), dtype=torch.float64)


def sum_over_rounds(term: ast.expr, first: ast.expr, last: ast.expr, env: dict[str, Any]) -> Tensor:
    rounds = range(int(value(first, env)), int(value(last, env)) + 1)
    return sum((value(term, {**env, "s": number(s)}) for s in rounds if s > 0), number(0))


def full_gradient(function: ast.expr, at: ast.expr, env: dict[str, Any]) -> Tensor:
    assert (ast.unparse(function), ast.unparse(at)) == ("f_i", "x")
    return env["full gradient"]


def mean_over_clients(term: ast.expr, env: dict[str, Any]) -> Tensor:
    weights = env["weights"]
    return sum(weight * value(term, {**env, **client}) for weight, client in zip(weights, env["cohort"], strict=True))


def sum_over_steps(term: ast.expr, env: dict[str, Any]) -> Tensor:
    return sum(value(term, {**env, **step}) for step in env["steps"])


ON_TERMS = {"mean": mean_over_clients, "sum_k": sum_over_steps, "sum_s": sum_over_rounds, "grad": full_gradient}
"""They need their arguments as they are written."""
ON_VALUES = {
    "sqrt": torch.sqrt, "exp": torch.exp, "sign": torch.sign, "norm": torch.linalg.vector_norm,
    "min": torch.minimum, "max": torch.maximum,
    "update": torch.add,  # of FedAvg, around which AdaptiveClipping is played
}  # fmt: skip
OPERATORS = {
    ast.Add: torch.add, ast.Sub: torch.sub, ast.Mult: torch.mul, ast.Div: torch.div, ast.Pow: torch.pow,
    ast.Lt: torch.lt, ast.LtE: torch.le, ast.Gt: torch.gt, ast.Eq: torch.eq,
}  # fmt: skip


def value(node: ast.expr, env: dict[str, Any]) -> Tensor:
    match node:
        case ast.Constant(of):
            return number(of)
        case ast.Name(name):
            found = env[name]
            return found if isinstance(found, Tensor) else number(found)
        case ast.Subscript(ast.Name(name), ast.Name("l")):
            return env[name][env["l"]]
        case ast.Subscript(ast.Name(name), index):
            return env["history"][name][int(value(index, env))]
        case ast.UnaryOp(ast.USub(), operand):
            return -value(operand, env)
        case ast.BinOp(left, operator, right) | ast.Compare(left, [operator], [right]):
            return OPERATORS[type(operator)](value(left, env), value(right, env)).double()
        case ast.Call(ast.Name(name), arguments, []) if name in ON_TERMS:
            return ON_TERMS[name](*arguments, env)
        case ast.Call(ast.Name(name), arguments, []):
            return ON_VALUES[name](*(value(argument, env) for argument in arguments))
    raise AssertionError(f"not allowed in an equation: {ast.unparse(node)}")


def execute(equation: Equation, env: dict[str, Any]) -> None:
    left, right = (ast.parse(side, mode="eval").body for side in (equation.left, equation.right))
    match left:
        case ast.Name(name):
            env[name] = value(right, env)
        case ast.Subscript(ast.Name(name), ast.Name("l")):
            changed = env[name].clone() if name in env else torch.empty_like(env["x"])
            for layer in env["layers"]:
                changed[layer] = value(right, {**env, "l": layer})
            env[name] = changed
        case ast.Subscript(ast.Name(name), index):
            env["history"].setdefault(name, {})[int(value(index, env))] = value(right, env)
        case _:
            raise AssertionError(f"nothing that can be given a value: {equation.left}")


def execute_all(equations: Iterable[Equation], where: str, env: dict[str, Any]) -> None:
    for equation in equations:
        if equation.where == where and holds(equation, env):
            execute(equation, env)


# Rounds


class Client(NamedTuple):
    """A client of a round: its number, n_i, and a quadratic loss, of which each minibatch has another offset."""

    i: int
    examples: int
    curvature: Tensor
    offset: Tensor
    offsets: list[Tensor]

    def gradient(self, at: Tensor, offset: Tensor | None = None) -> Tensor:
        """Of a minibatch, or of all examples."""
        return self.curvature * at + (self.offset if offset is None else offset)


class Facts(NamedTuple):
    x: Tensor
    layers: tuple[slice, ...]
    clients: int
    lr: float
    rounds: list[list[Client]]


def play(equations: list[Equation], hyper: dict[str, Any], facts: Facts, weighting: str) -> list[Tensor]:
    """x after each round."""
    kept_by = {
        where: {equation.left for equation in equations if equation.where == where and equation.sign == "<-"}
        for where in ("client", "server")
    }
    first = next((n for n, equation in enumerate(equations) if equation.where in ("local step", "client")), 0)
    opening, closing = equations[:first], equations[first:]
    server: dict[str, Any] = {name: number(0) for name in kept_by["server"] if name.isidentifier()}
    server |= {"x": facts.x, "history": {"x": {0: facts.x}}, "layers": facts.layers, "N": facts.clients}
    server |= {"lr": facts.lr, **hyper}
    execute_all(equations, "start", server)
    clients = {i: dict.fromkeys(kept_by["client"] | {"t_last"}, number(0)) for i in range(facts.clients)}
    xs = []
    for t, cohort in enumerate(facts.rounds, start=1):
        env = {**server, "t": t, "M": len(cohort)}
        env["cohort"] = [known(client, clients[client.i], server["x"]) for client in cohort]
        env["K_bar"] = sum(len(client.offsets) for client in cohort) / len(cohort)
        sizes = [client.examples if weighting == "examples" else 1 for client in cohort]
        env["weights"] = [size / sum(sizes) for size in sizes]
        execute_all(opening, "server", env)
        env["cohort"] = [trained(equations, client, {**env, **own}, facts.lr) for client, own in with_own(cohort, env)]
        execute_all(closing, "server", env)
        env["history"]["x"][t] = env["x"]
        xs.append(env["x"])
        server = {name: env[name] for name in server}
        for client, own in with_own(cohort, env):
            clients[client.i] = {name: own[name] for name in kept_by["client"]} | {"t_last": number(t)}
    return xs


def known(client: Client, kept: dict[str, Tensor], x: Tensor) -> dict[str, Any]:
    return {**kept, "n_i": client.examples, "K": len(client.offsets), "full gradient": client.gradient(x)}


def with_own(cohort: list[Client], env: dict[str, Any]) -> Iterable[tuple[Client, dict[str, Any]]]:
    return zip(cohort, env["cohort"], strict=True)


def trained(equations: list[Equation], client: Client, env: dict[str, Any], lr: float) -> dict[str, Any]:
    """What the client has after its local steps and its own lines."""
    env |= {"y": env["x"], "steps": []}
    for offset in client.offsets:
        env |= {"g": client.gradient(env["y"], offset), "g_x": client.gradient(env["x"], offset)}
        env["steps"].append({"g": env["g"]})
        execute_all(equations, "local step", env)
        env["y"] = env["y"] - lr * env.pop("d")
    env["delta"] = env["y"] - env["x"]
    execute_all(equations, "client", env)
    return env
