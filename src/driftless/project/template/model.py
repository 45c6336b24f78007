"""Your own model: any torch.nn.Module. Its parameters are settings: `driftless run config.toml model.hidden=64`.

One that is called `federation` gets the federation, so that the model can fit its shapes.
"""

from torch import Tensor, nn

from driftless import Federation


class Net(nn.Module):
    def __init__(self, federation: Federation, hidden: int = 32) -> None:
        super().__init__()
        (features,) = federation.input_shape
        self.layers = nn.Sequential(
            nn.Linear(features, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, federation.classes)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs)
