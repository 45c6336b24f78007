"""Equations of docstrings as LaTeX."""

from __future__ import annotations

import re

import pytest
from equations import equation, symbol


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("h <- beta*(x_bar_prev - x_bar)", r"h \leftarrow \beta\,\left(\bar{x}_{\text{prev}} - \bar{x}\right)"),
        ("c_i_new = c_i - c + (x - y)/(K*lr)", r"c_{i}^{+} = c_{i} - c + \frac{x - y}{K\,\eta}"),
        ("v <- beta2*v + (1 - beta2)*D**2", r"v \leftarrow \beta_{2}\,v + \left(1 - \beta_{2}\right)\,D^{2}"),
        ("d = a - (b - c)", r"d = a - \left(b - c\right)"),
        ("d = a - (b + c)", r"d = a - \left(b + c\right)"),
        ("d = (a*b)**2", r"d = \left(a\,b\right)^{2}"),
        ("d = -(a + b)*2", r"d = -\left(a + b\right) \cdot 2"),
        ("d = x[t - tau - 1] - x[l]", r"d = x^{t - \tau - 1} - x_{l}"),
        ("d = m/(sqrt(v) + eps)", r"d = \frac{m}{\sqrt{v} + \varepsilon}"),
        (
            "m <- sum_s(G[s], t - tau + 1, t)/tau",
            r"m \leftarrow \frac{\textstyle\sum_{s=t - \tau + 1}^{t} G^{s}}{\tau}",
        ),
        ("c_i_new = grad(f_i, x)", r"c_{i}^{+} = \nabla f_{i}(x)"),
        ("c <- M/N*mean(c_i)", r"c \leftarrow \frac{M}{N}\,\operatorname{mean}(c_{i})"),
    ],
)
def test_an_equation_is_typeset_with_its_brackets(text: str, latex: str):
    left, sign, right = re.split(" (<-|=) ", text, maxsplit=1)
    assert equation(left, sign, right) == latex


@pytest.mark.parametrize(
    ("name", "latex"),
    [("lr", r"\eta"), ("server_lr", r"\eta_s"), ("t_last", r"t_{\text{last}}"), ("m_hat", r"\hat{m}")],
)
def test_a_name_is_the_symbol_of_the_notation(name: str, latex: str):
    assert symbol(name) == latex


def test_what_is_no_equation_is_an_error_that_shows_it():
    with pytest.raises(ValueError, match="not part of an equation"):
        equation("x", "<-", "lambda: y")
