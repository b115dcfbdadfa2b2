"""Models of transformers for bench/zoo.py, by the names that the library gives them.

Every configuration is made small by the same table: what it has of these settings, and what its parts have, is set.
A row of MODELS adds what a model wants beside that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo_cases import CASES, Made, without_compiled_torchvision

VOCABULARY, LENGTH, SIDE = 99, 12, 32
# Settings that configurations have in common, by how small they are made.
GROUPS = [
    (
        32,
        "hidden_size d_model n_embd dim embed_dim emb_dim attention_hidden_size encoder_hidden_size "
        "decoder_hidden_size word_embed_proj_dim embedding_size image_size",
    ),
    (
        2,
        "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
        "num_encoder_layers decoder_num_hidden_layers num_key_value_heads eos_token_id sep_token_id",
    ),
    (
        4,
        "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
        "decoder_num_attention_heads num_encoder_attention_heads num_decoder_attention_heads num_local_experts "
        "num_experts n_routed_experts",
    ),
    (
        64,
        "intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim n_inner d_ff hidden_dim d_inner "
        "decoder_intermediate_size moe_intermediate_size shared_expert_intermediate_size dim_feedforward "
        "feed_forward_size ffn_hidden_size max_position_embeddings n_positions max_target_positions "
        "max_source_positions",
    ),
    (8, "head_dim patch_size d_kv"),
    (16, "projection_dim"),
    (VOCABULARY, "vocab_size"),
    (0, "pad_token_id decoder_start_token_id"),
    (1, "bos_token_id cls_token_id"),
]
SMALL = {name: size for size, names in GROUPS for name in names.split()}


def shrunk(config: Any) -> dict[str, Any]:
    """The settings of the table that a configuration has."""
    found: dict[str, Any] = {}
    for name, small in SMALL.items():
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            found[name] = small
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if hasattr(part, "to_dict"):
            found[name] = part.to_dict() | shrunk(part)
    return found


class Named(nn.Module):
    """A model whose arguments have names."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.model(**dict(zip(self.names, arguments, strict=True)))


Inputs = dict[str, Callable[[torch.Generator], torch.Tensor]]


def ids(g: torch.Generator, length: int = LENGTH) -> torch.Tensor:
    return torch.randint(5, VOCABULARY, (1, length), generator=g)


def mask(_: torch.Generator) -> torch.Tensor:
    return (torch.arange(LENGTH) < LENGTH - 3).long()[None]


def of(*sizes: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.randn(*sizes, generator=g)


TEXT: Inputs = {"input_ids": ids}
MASKED: Inputs = {"input_ids": ids, "attention_mask": mask}
PAIR: Inputs = {"input_ids": ids, "decoder_input_ids": ids}
# Class of the model, its inputs, and settings beside the table.
MODELS: list[tuple[str, Inputs, dict[str, Any]]] = [
    # encoders
    ("BertForSequenceClassification", MASKED, {}),
    ("BertForQuestionAnswering", MASKED, {}),
    ("RobertaForMaskedLM", MASKED, {}),
    ("XLMRobertaModel", MASKED, {}),
    ("CamembertForTokenClassification", MASKED, {}),
    ("DistilBertForSequenceClassification", MASKED, {}),
    ("ElectraForPreTraining", MASKED, {}),
    ("DebertaModel", MASKED, {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    ("DebertaV2ForMaskedLM", MASKED, {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    ("LongformerModel", MASKED, {"attention_window": 4}),
    ("BigBirdModel", MASKED, {"attention_type": "original_full"}),
    ("BigBirdForMaskedLM", {"input_ids": lambda g: ids(g, 48)}, {"block_size": 4, "num_random_blocks": 1}),
    (
        "FunnelModel",
        MASKED,
        {"block_sizes": [1, 1], "d_head": 8, "num_decoder_layers": 1, "num_hidden_layers": None},
    ),
    ("XLNetModel", MASKED, {"max_position_embeddings": None}),
    ("XLMModel", MASKED, {}),
    ("FlaubertModel", MASKED, {}),
    ("FNetModel", TEXT, {}),
    ("MobileBertModel", MASKED, {"true_hidden_size": 32, "intra_bottleneck_size": 32, "embedding_size": 32}),
    ("SqueezeBertModel", MASKED, {"embedding_size": 32}),
    ("ConvBertModel", MASKED, {"embedding_size": 32, "conv_kernel_size": 3}),
    ("MPNetModel", MASKED, {}),
    ("YosoModel", MASKED, {"use_expectation": True}),
    ("RoFormerModel", MASKED, {"embedding_size": 32}),
    ("RemBertModel", MASKED, {"input_embedding_size": 16, "output_embedding_size": 16}),
    ("MegatronBertModel", MASKED, {}),
    ("ErnieModel", MASKED, {}),
    ("LukeModel", MASKED, {"entity_vocab_size": 20, "entity_emb_size": 16}),
    ("IBertModel", MASKED, {}),
    ("CanineModel", {"input_ids": lambda g: ids(g, 32)}, {"local_transformer_stride": 16, "num_hash_buckets": 64}),
    ("SplinterModel", MASKED, {}),
    ("NomicBertModel", MASKED, {}),
    ("MraModel", {"input_ids": lambda g: ids(g, 64)}, {"max_position_embeddings": 64}),
    (
        "ReformerModel",
        {"input_ids": lambda g: ids(g, 16)},
        {
            "axial_pos_shape": [4, 4],
            "axial_pos_embds_dim": [16, 16],
            "attention_head_size": 8,
            "attn_layers": ["local", "local"],
            "local_attn_chunk_length": 4,
            "feed_forward_size": 32,
            "is_decoder": False,
        },
    ),
    (
        "PerceiverForMaskedLM",
        {"inputs": ids},
        {
            "num_latents": 8,
            "d_latents": 16,
            "num_blocks": 1,
            "num_self_attends_per_block": 2,
            "num_self_attention_heads": 2,
            "num_cross_attention_heads": 2,
            "qk_channels": 16,
            "v_channels": 16,
        },
    ),
    ("TapasModel", MASKED, {}),
    ("LayoutLMModel", TEXT, {}),
    # decoders
    ("GPT2LMHeadModel", MASKED, {}),
    ("GPTNeoModel", TEXT, {"attention_types": [[["global", "local"], 1]], "num_layers": 2}),
    ("GPTNeoXForCausalLM", MASKED, {}),
    ("GPTJModel", TEXT, {"rotary_dim": 4}),
    ("GPTBigCodeModel", TEXT, {}),
    ("CodeGenModel", TEXT, {"rotary_dim": 4}),
    ("CTRLModel", TEXT, {"dff": 64}),
    ("OpenAIGPTModel", TEXT, {}),
    ("OPTForCausalLM", MASKED, {}),
    ("BloomForCausalLM", MASKED, {}),
    ("FalconForCausalLM", MASKED, {"head_dim": None}),
    ("MptModel", TEXT, {}),
    ("XGLMModel", TEXT, {}),
    ("BioGptModel", TEXT, {}),
    ("LlamaForCausalLM", MASKED, {}),
    ("MistralForCausalLM", TEXT, {"sliding_window": 4}),
    ("MixtralForCausalLM", TEXT, {}),
    ("GemmaForCausalLM", TEXT, {}),
    ("Gemma2ForCausalLM", TEXT, {"sliding_window": 4}),
    ("Gemma3ForCausalLM", TEXT, {"sliding_window": 4}),
    ("Qwen2ForCausalLM", TEXT, {}),
    ("Qwen3ForCausalLM", MASKED, {}),
    ("Qwen2MoeModel", TEXT, {}),
    ("Qwen3MoeModel", TEXT, {"num_experts_per_tok": 2}),
    ("PhiForCausalLM", TEXT, {}),
    ("Phi3ForCausalLM", TEXT, {}),
    ("CohereModel", TEXT, {}),
    ("Cohere2Model", TEXT, {}),
    ("Olmo2Model", TEXT, {}),
    ("OlmoeModel", TEXT, {"num_experts_per_tok": 2}),
    ("GraniteModel", TEXT, {}),
    ("GraniteMoeModel", TEXT, {}),
    ("NemotronModel", TEXT, {"head_dim": None, "num_key_value_heads": 2}),
    ("PersimmonModel", TEXT, {}),
    ("StableLmModel", TEXT, {}),
    ("Starcoder2Model", TEXT, {}),
    (
        "DeepseekV2Model",
        TEXT,
        {
            "kv_lora_rank": 8,
            "q_lora_rank": 8,
            "qk_nope_head_dim": 8,
            "qk_rope_head_dim": 8,
            "v_head_dim": 8,
            "n_group": 1,
            "topk_group": 1,
            "num_experts_per_tok": 2,
            "num_key_value_heads": 4,
        },
    ),
    (
        "DeepseekV3Model",
        TEXT,
        {
            "kv_lora_rank": 8,
            "q_lora_rank": 8,
            "qk_nope_head_dim": 8,
            "qk_rope_head_dim": 8,
            "v_head_dim": 8,
            "n_group": 2,
            "topk_group": 1,
            "num_experts_per_tok": 2,
            "num_key_value_heads": 4,
        },
    ),
    ("GptOssModel", TEXT, {"num_experts_per_tok": 2, "sliding_window": 4}),
    ("SmolLM3Model", TEXT, {}),
    ("Glm4Model", TEXT, {}),
    ("HeliumModel", TEXT, {}),
    ("DiffLlamaModel", TEXT, {}),
    ("RwkvModel", TEXT, {"attention_hidden_size": 32}),
    ("MambaForCausalLM", TEXT, {"state_size": 8, "time_step_rank": 4}),
    ("Mamba2Model", TEXT, {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 4}),
    ("FalconMambaModel", TEXT, {"state_size": 8, "time_step_rank": 4}),
    ("RecurrentGemmaModel", TEXT, {"lru_width": 32, "num_hidden_layers": 3}),
    (
        "JambaModel",
        TEXT,
        {
            "mamba_d_state": 4,
            "mamba_dt_rank": 4,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "use_mamba_kernels": False,
        },
    ),
    ("ImageGPTModel", TEXT, {}),
    # encoder-decoders
    ("T5ForConditionalGeneration", PAIR, {}),
    ("MT5Model", PAIR, {}),
    ("UMT5Model", PAIR, {}),
    ("BartForConditionalGeneration", PAIR, {}),
    ("MBartModel", PAIR, {}),
    ("PegasusForConditionalGeneration", PAIR, {}),
    ("PegasusXModel", PAIR, {"block_size": 4, "num_global_tokens": 2}),
    ("BlenderbotModel", PAIR, {}),
    ("BlenderbotSmallModel", PAIR, {}),
    ("MarianModel", PAIR, {}),
    ("M2M100Model", PAIR, {}),
    (
        "LEDModel",
        PAIR,
        {"attention_window": 4, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
    ),
    ("BigBirdPegasusModel", PAIR, {"attention_type": "original_full"}),
    (
        "ProphetNetModel",
        PAIR,
        {"ngram": 2, "num_buckets": 8, "relative_max_distance": 16, "num_hidden_layers": None},
    ),
    ("FSMTModel", PAIR, {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, "langs": ["a", "b"]}),
    ("PLBartModel", PAIR, {}),
    ("MvpModel", PAIR, {}),
    ("NllbMoeModel", PAIR, {"expert_capacity": 8}),
]


def transformers_case(name: str, inputs: Inputs, settings: dict[str, Any]) -> Callable[[], Made]:
    def make() -> Made:
        without_compiled_torchvision()
        import transformers

        kind = getattr(transformers, name)
        own = dict(settings)
        if "backbone_config" in own:
            own["backbone_config"] = own["backbone_config"]()
        settings_of_all = shrunk(kind.config_class()) | own
        config = kind.config_class(**{key: value for key, value in settings_of_all.items() if value is not None})
        model = Named(kind(config).eval(), tuple(inputs))

        def arguments(number: int) -> tuple:
            generator = torch.Generator().manual_seed(number)
            return tuple(made(generator) for made in inputs.values())

        return model.eval(), arguments

    return make


def register(models: list[tuple[str, Inputs, dict[str, Any]]]) -> None:
    for name, inputs, own in models:
        CASES[f"transformers {name}"] = transformers_case(name, inputs, own)


register(MODELS)
