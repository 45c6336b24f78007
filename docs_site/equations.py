"""Equations of the algorithms' docstrings, which are Python expressions, as LaTeX."""

from __future__ import annotations

import ast
from collections.abc import Callable

GREEK = {"alpha", "beta", "delta", "eps", "eta", "mu", "rho", "sigma", "tau", "theta"}
SPECIAL = {"lr": r"\eta", "server_lr": r"\eta_s", "eps": r"\varepsilon", "delta": r"\Delta"}
ACCENTS = {"bar": r"\bar", "hat": r"\hat"}
FUNCTIONS: dict[str, Callable[[str], str]] = {
    "sqrt": lambda inner: rf"\sqrt{{{inner}}}",
    "norm": lambda inner: rf"\lVert {inner} \rVert",
    "abs": lambda inner: rf"\lvert {inner} \rvert",
    "sum_k": lambda inner: rf"\textstyle\sum_k {inner}",
}
SUMS: dict[type[ast.operator], str] = {ast.Add: " + ", ast.Sub: " - "}
SUM, PRODUCT, UNARY, POWER, ATOM = 1, 2, 3, 4, 5
"""How tightly operators bind."""
SIGNS = {"=": "=", "<-": r"\leftarrow"}
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.LtE: r"\le", ast.GtE: r"\ge", ast.Lt: "<", ast.Gt: ">", ast.Eq: "=", ast.NotEq: r"\ne",
}  # fmt: skip


def equation(left: str, sign: str, right: str) -> str:
    r"""("h", "<-", "beta*h") as `h \leftarrow \beta\,h`."""
    return f"{expression(left)} {SIGNS[sign]} {expression(right)}"


def expression(text: str) -> str:
    return latex(ast.parse(text, mode="eval").body)[1]


def latex(node: ast.expr) -> tuple[int, str]:
    """How tightly the outermost operator binds, and the LaTeX."""
    match node:
        case ast.Name(id=name):
            return ATOM, symbol(name)
        case ast.Constant(value=value):
            return ATOM, str(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return UNARY, f"-{inside(operand, UNARY)}"
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return ATOM, rf"\frac{{{latex(left)[1]}}}{{{latex(right)[1]}}}"
        case ast.BinOp(left=base, op=ast.Pow(), right=power):
            return POWER, f"{inside(base, ATOM)}^{{{latex(power)[1]}}}"
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return PRODUCT, product(inside(left, PRODUCT), inside(right, PRODUCT))
        case ast.BinOp(left=left, op=op, right=right):
            return SUM, f"{inside(left, SUM)}{SUMS[type(op)]}{inside(right, SUM + isinstance(op, ast.Sub))}"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return 0, f"{inside(left, 0)} {COMPARISONS[type(op)]} {inside(right, 0)}"
        case ast.Call(func=ast.Name(id="sum_s"), args=[term, first, last]):
            return PRODUCT, rf"\textstyle\sum_{{s={latex(first)[1]}}}^{{{latex(last)[1]}}} {inside(term, PRODUCT)}"
        case ast.Call(func=ast.Name(id="grad"), args=[function_, at]):
            return ATOM, rf"\nabla {latex(function_)[1]}({latex(at)[1]})"
        case ast.Call(func=ast.Name(id=name), args=arguments):
            inner = ", ".join(latex(one)[1] for one in arguments)
            return ATOM, FUNCTIONS[name](inner) if name in FUNCTIONS else rf"{function(name)}({inner})"
        case ast.Subscript(value=value, slice=index):
            return POWER, f"{latex(value)[1]}{'^' if is_round(index) else '_'}{{{latex(index)[1]}}}"
        case _:
            raise ValueError(f"{ast.unparse(node)} is not part of an equation")


def inside(node: ast.expr, level: int) -> str:
    own, text = latex(node)
    return text if own >= level else rf"\left({text}\right)"


def product(left: str, right: str) -> str:
    return rf"{left} \cdot {right}" if right[:1].isdigit() else rf"{left}\,{right}"


def is_round(index: ast.expr) -> bool:
    """A model of another round has its number above, a part of a vector below."""
    return isinstance(index, ast.Constant) or any(
        isinstance(node, ast.Name) and node.id in ("t", "s") for node in ast.walk(index)
    )


def function(name: str) -> str:
    return name if len(name) == 1 else rf"\operatorname{{{name.replace('_', ' ')}}}"


def symbol(name: str) -> str:
    r"""`x_bar_prev` as `\bar{x}_{\text{prev}}`, `c_i_new` as `c_i^{+}`, `beta1` as `\beta_{1}`."""
    if name in SPECIAL:
        return SPECIAL[name]
    base, *rest = name.split("_")
    digits = base[len(base.rstrip("0123456789")) :]
    base = base.rstrip("0123456789")
    text = SPECIAL.get(base) or (f"\\{base}" if base in GREEK else base if len(base) == 1 else rf"\text{{{base}}}")
    below, above = [digits] if digits else [], ""
    for part in rest:
        if part in ACCENTS:
            text = f"{ACCENTS[part]}{{{text}}}"
        elif part == "new":
            above = "^{+}"
        else:
            below.append(part if len(part) == 1 or part.isdigit() else symbol_text(part))
    return text + (f"_{{{','.join(below)}}}" if below else "") + above


def symbol_text(part: str) -> str:
    return f"\\{part}" if part in GREEK else rf"\text{{{part}}}"
