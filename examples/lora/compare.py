"""FedAvg and AdaBest from the same values: python compare.py. Run it again after it was interrupted: it continues."""

import torch
from model import Lora, logits

import driftless
from data import tweets

federation = tweets()
torch.manual_seed(0)
model = Lora(federation)  # a module, not the class: every run begins at its values
sent = sum(p.numel() for p in model.parameters() if p.requires_grad)
whole = sum(p.numel() for p in model.parameters())
print(f"{sent:,} of {whole:,} parameters are trained and sent ({sent / whole:.2%})")

inputs, labels = federation.test
with torch.no_grad():
    right = logits(model.eval()(**inputs)).argmax(1) == labels
print(f"test accuracy before: {right.float().mean():.3f}; of the more frequent label: {labels.float().mean():.3f}")
model.train()

table = driftless.compare(
    ["fedavg", "adabest"], federation, model, rounds=10, cohort=15, evaluate_every=5, seeds=1, output="runs/comparison",
    local=driftless.LocalTraining(lr=0.1, epochs=1, batch_size=5), model_output=logits, engine="single",
)  # fmt: skip
print(table)
