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
# Setting by setting, of those that configurations have in common.
SMALL: dict[str, Any] = {
    **dict.fromkeys(
        "hidden_size d_model n_embd dim embed_dim emb_dim attention_hidden_size encoder_hidden_size "
        "decoder_hidden_size word_embed_proj_dim embedding_size".split(),
        32,
    ),
    **dict.fromkeys(
        "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
        "num_encoder_layers decoder_num_hidden_layers".split(),
        2,
    ),
    **dict.fromkeys(
        "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
        "decoder_num_attention_heads num_encoder_attention_heads num_decoder_attention_heads".split(),
        4,
    ),
    "num_key_value_heads": 2,
    "head_dim": 8,
    **dict.fromkeys(
        "intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim n_inner d_ff hidden_dim d_inner "
        "decoder_intermediate_size moe_intermediate_size shared_expert_intermediate_size dim_feedforward "
        "feed_forward_size ffn_hidden_size".split(),
        64,
    ),
    "vocab_size": VOCABULARY,
    **dict.fromkeys("max_position_embeddings n_positions max_target_positions max_source_positions".split(), 64),
    "image_size": SIDE,
    "patch_size": 8,
    "d_kv": 8,
    "num_local_experts": 4,
    "num_experts": 4,
    "n_routed_experts": 4,
    "projection_dim": 16,
    **dict.fromkeys("pad_token_id decoder_start_token_id".split(), 0),
    **dict.fromkeys("bos_token_id cls_token_id".split(), 1),
    **dict.fromkeys("eos_token_id sep_token_id".split(), 2),
}


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
IMAGE: Inputs = {"pixel_values": of(1, 3, SIDE, SIDE)}
IMAGE64: Inputs = {"pixel_values": of(1, 3, 64, 64)}
SOUND: Inputs = {"input_values": of(1, 800)}
BOTH: Inputs = {"input_ids": ids, "pixel_values": of(1, 3, SIDE, SIDE)}
WAVES = {
    "conv_dim": (8, 8),
    "conv_stride": (4, 4),
    "conv_kernel": (8, 4),
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "num_feat_extract_layers": 2,
}
SERIES = {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "d_model": 16}
PAST: Inputs = {
    "past_values": of(1, 10),
    "past_time_features": of(1, 10, 1),
    "past_observed_mask": lambda _: torch.ones(1, 10),
    "future_values": of(1, 4),
    "future_time_features": of(1, 4, 1),
}

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
    (
        "NystromformerModel",
        MASKED,
        {"num_landmarks": 4, "segment_means_seq_len": LENGTH, "max_position_embeddings": 64},
    ),
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
    ("EsmModel", MASKED, {"position_embedding_type": "rotary", "vocab_size": VOCABULARY, "mask_token_id": 3}),
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
    ("NemotronModel", TEXT, {"head_dim": None}),
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
    ("xLSTMModel", TEXT, {"num_blocks": 2, "num_heads": 4, "chunk_size": 4, "head_dim": None}),
    ("ImageGPTModel", TEXT, {}),
    # encoder-decoders
    ("T5ForConditionalGeneration", PAIR, {}),
    ("MT5Model", PAIR, {}),
    ("LongT5Model", PAIR, {"local_radius": 3}),
    ("SwitchTransformersModel", PAIR, {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}),
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
    # images
    ("ViTForImageClassification", IMAGE, {}),
    ("ViTMAEModel", IMAGE, {}),
    ("ViTMAEForPreTraining", IMAGE, {"decoder_hidden_size": 32, "decoder_num_hidden_layers": 1}),
    ("ViTMSNModel", IMAGE, {}),
    ("DeiTForImageClassification", IMAGE, {}),
    ("BeitForImageClassification", IMAGE, {"use_relative_position_bias": True}),
    ("Data2VecVisionModel", IMAGE, {}),
    ("Dinov2Model", IMAGE, {}),
    ("Dinov2WithRegistersModel", IMAGE, {}),
    (
        "DPTForDepthEstimation",
        IMAGE,
        {
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 8, 8],
            "fusion_hidden_size": 8,
            "is_hybrid": False,
            "num_hidden_layers": 4,
        },
    ),
    (
        "GLPNModel",
        IMAGE64,
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 16, 16],
            "num_attention_heads": [1, 2, 2, 2],
            "decoder_hidden_size": 8,
        },
    ),
    (
        "SegformerForSemanticSegmentation",
        IMAGE64,
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 16, 16],
            "num_attention_heads": [1, 2, 2, 2],
            "decoder_hidden_size": 16,
        },
    ),
    (
        "SwinModel",
        IMAGE,
        {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 2},
    ),
    (
        "Swinv2Model",
        IMAGE,
        {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 2},
    ),
    (
        "Swin2SRModel",
        IMAGE,
        {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 1},
    ),
    (
        "DonutSwinModel",
        IMAGE,
        {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 2},
    ),
    (
        "PvtModel",
        IMAGE64,
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 16, 16],
            "image_size": 64,
            "num_attention_heads": [1, 2, 2, 2],
        },
    ),
    (
        "PvtV2Model",
        IMAGE64,
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 16, 16],
            "image_size": 64,
            "num_attention_heads": [1, 2, 2, 2],
        },
    ),
    (
        "CvtModel",
        IMAGE64,
        {
            "embed_dim": [16, 16, 32],
            "num_heads": [1, 2, 2],
            "depth": [1, 1, 1],
            "num_hidden_layers": None,
            "patch_size": None,
        },
    ),
    (
        "LevitModel",
        IMAGE64,
        {
            "hidden_sizes": [16, 16, 16],
            "image_size": 64,
            "num_attention_heads": [2, 2, 2],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
            "patch_size": 16,
        },
    ),
    ("ConvNextModel", IMAGE, {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 16], "patch_size": 4}),
    ("ConvNextV2Model", IMAGE, {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 16], "patch_size": 4}),
    ("ResNetForImageClassification", IMAGE, {"depths": [1, 1], "hidden_sizes": [16, 32], "embedding_size": 8}),
    ("RegNetModel", IMAGE, {"depths": [1, 1], "hidden_sizes": [16, 32], "embedding_size": 8, "groups_width": 4}),
    ("BitModel", IMAGE, {"depths": [1, 1], "hidden_sizes": [32, 64], "embedding_size": 32, "num_groups": 8}),
    ("MobileNetV1Model", IMAGE, {"depth_multiplier": 0.25}),
    ("MobileNetV2Model", IMAGE, {"depth_multiplier": 0.35}),
    (
        "MobileViTModel",
        IMAGE,
        {"hidden_sizes": [16, 24, 24], "neck_hidden_sizes": [8, 8, 8, 16, 16, 16, 32], "patch_size": 2},
    ),
    ("MobileViTV2Model", IMAGE64, {"patch_size": 2, "width_multiplier": 0.25}),
    ("EfficientNetModel", IMAGE, {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320}),
    ("PoolFormerModel", IMAGE, {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 16], "patch_size": 7}),
    (
        "FocalNetModel",
        IMAGE,
        {
            "embed_dim": 16,
            "depths": [1, 1],
            "hidden_sizes": [16, 32],
            "focal_levels": [1, 1],
            "focal_windows": [3, 3],
            "patch_size": 4,
        },
    ),
    (
        "HieraModel",
        IMAGE64,
        {
            "embed_dim": 16,
            "image_size": [64, 64],
            "depths": [1, 1, 1],
            "num_heads": [1, 2, 2],
            "num_query_pool": 2,
            "patch_size": [7, 7],
            "masked_unit_size": [8, 8],
            "query_stride": [2, 2],
        },
    ),
    ("SwiftFormerModel", IMAGE64, {"depths": [1, 1, 1, 1], "embed_dims": [16, 16, 16, 16], "image_size": 64}),
    ("VitDetModel", IMAGE, {"window_size": 2}),
    ("YolosModel", IMAGE, {"image_size": [32, 32], "num_detection_tokens": 4}),
    ("VideoMAEModel", {"pixel_values": of(1, 4, 3, SIDE, SIDE)}, {"num_frames": 4}),
    ("VivitModel", {"pixel_values": of(1, 4, 3, SIDE, SIDE)}, {"num_frames": 4, "tubelet_size": [2, 8, 8]}),
    ("TimesformerModel", {"pixel_values": of(1, 2, 3, SIDE, SIDE)}, {"num_frames": 2}),
    ("SuperPointForKeypointDetection", IMAGE64, {}),
    # sound
    (
        "WhisperForConditionalGeneration",
        {"input_features": of(1, 8, 40), "decoder_input_ids": ids},
        {"num_mel_bins": 8, "max_source_positions": 20},
    ),
    (
        "Speech2TextModel",
        {"input_features": of(1, 40, 8), "decoder_input_ids": ids},
        {"input_feat_per_channel": 8, "conv_channels": 16},
    ),
    ("Wav2Vec2Model", SOUND, WAVES),
    ("Wav2Vec2ForCTC", SOUND, WAVES | {"do_stable_layer_norm": True, "feat_extract_norm": "layer"}),
    ("Wav2Vec2ConformerModel", SOUND, WAVES),
    ("HubertModel", SOUND, WAVES),
    ("WavLMModel", SOUND, WAVES),
    ("UniSpeechModel", SOUND, WAVES),
    ("UniSpeechSatModel", SOUND, WAVES),
    ("Data2VecAudioModel", SOUND, WAVES),
    ("SEWModel", SOUND, WAVES | {"squeeze_factor": 2}),
    ("SEWDModel", SOUND, WAVES | {"squeeze_factor": 2}),
    ("ASTModel", {"input_values": of(1, 32, 16)}, {"max_length": 32, "num_mel_bins": 16}),
    (
        "EncodecModel",
        {"input_values": of(1, 1, 320)},
        {
            "num_filters": 4,
            "hidden_size": 16,
            "upsampling_ratios": [4, 2],
            "codebook_size": 16,
            "codebook_dim": 16,
            "target_bandwidths": [1.5],
            "num_lstm_layers": 1,
            "sampling_rate": 800,
        },
    ),
    (
        "VitsModel",
        TEXT,
        {
            "flow_size": 16,
            "spectrogram_bins": 17,
            "upsample_initial_channel": 16,
            "upsample_rates": [2, 2],
            "upsample_kernel_sizes": [4, 4],
            "noise_scale": 0.0,
            "noise_scale_duration": 0.0,
            "wavenet_dilation_rate": 1,
            "prior_encoder_num_flows": 1,
            "posterior_encoder_num_wavenet_layers": 2,
            "prior_encoder_num_wavenet_layers": 2,
            "duration_predictor_num_flows": 1,
            "duration_predictor_filter_channels": 16,
        },
    ),
    (
        "UnivNetModel",
        {"input_features": of(1, 16, 100), "noise_sequence": of(1, 16, 64)},
        {"model_hidden_channels": 8, "kernel_predictor_hidden_channels": 8},
    ),
    # several kinds of input
    ("CLIPModel", BOTH, {}),
    ("SiglipModel", BOTH, {}),
    ("ChineseCLIPModel", BOTH, {}),
    ("AltCLIPModel", BOTH, {}),
    ("GroupViTModel", BOTH, {}),
    ("CLIPSegModel", BOTH, {}),
    ("OwlViTModel", BOTH, {}),
    ("FlavaImageModel", IMAGE, {}),
    ("BlipModel", BOTH, {}),
    ("ViltModel", BOTH, {}),
    ("VisualBertModel", {"input_ids": ids, "visual_embeds": of(1, 4, 16)}, {"visual_embedding_dim": 16}),
    (
        "LxmertModel",
        {"input_ids": ids, "visual_feats": of(1, 4, 16), "visual_pos": of(1, 4, 4)},
        {"l_layers": 1, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 16},
    ),
    ("BridgeTowerModel", MASKED | IMAGE, {}),
    ("ClapModel", {"input_ids": ids, "input_features": of(1, 1, 32, 16)}, {}),
    # detection and masks
    (
        "DetrModel",
        IMAGE64,
        {
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone": None,
            "backbone_config": "resnet",
            "num_queries": 5,
        },
    ),
    (
        "ConditionalDetrModel",
        IMAGE64,
        {
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone": None,
            "backbone_config": "resnet",
            "num_queries": 5,
        },
    ),
    (
        "DeformableDetrModel",
        IMAGE64,
        {
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone": None,
            "backbone_config": "resnet",
            "num_queries": 5,
        },
    ),
    (
        "TableTransformerModel",
        IMAGE64,
        {
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone": None,
            "backbone_config": "resnet",
            "num_queries": 5,
        },
    ),
    (
        "Mask2FormerModel",
        IMAGE64,
        {
            "feature_size": 32,
            "mask_feature_size": 32,
            "num_queries": 5,
            "decoder_layers": 2,
            "backbone_config": "swin",
        },
    ),
    (
        "MaskFormerModel",
        IMAGE64,
        {"fpn_feature_size": 32, "mask_feature_size": 32, "num_queries": 5, "backbone_config": "swin"},
    ),
    (
        "UperNetForSemanticSegmentation",
        IMAGE64,
        {"backbone_config": "convnext", "hidden_size": 16, "use_auxiliary_head": False, "pool_scales": [1, 2]},
    ),
    (
        "SamModel",
        {"pixel_values": of(1, 3, 64, 64), "input_points": lambda g: 64 * torch.rand(1, 1, 2, 2, generator=g)},
        {},
    ),
    # series
    ("TimeSeriesTransformerModel", PAST, SERIES),
    ("InformerModel", PAST, SERIES),
    ("AutoformerModel", PAST, SERIES),
    (
        "PatchTSTModel",
        {"past_values": of(1, 16, 3)},
        {"context_length": 16, "num_input_channels": 3, "patch_length": 4, "patch_stride": 4},
    ),
    (
        "PatchTSMixerModel",
        {"past_values": of(1, 16, 3)},
        {"context_length": 16, "num_input_channels": 3, "patch_length": 4, "patch_stride": 4},
    ),
    (
        "DecisionTransformerModel",
        {
            "states": of(1, 4, 5),
            "actions": of(1, 4, 3),
            "rewards": of(1, 4, 1),
            "returns_to_go": of(1, 4, 1),
            "timesteps": lambda _: torch.arange(4)[None],
            "attention_mask": lambda _: torch.ones(1, 4),
        },
        {"state_dim": 5, "act_dim": 3, "max_ep_len": 16},
    ),
]


def backbone(kind: str) -> Any:
    """The small network under a model that detects or segments."""
    import transformers

    stages = {"out_features": ["stage1", "stage2", "stage3", "stage4"]}
    if kind == "resnet":
        return transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[16, 16, 16, 16], depths=[1, 1, 1, 1], **stages
        )
    if kind == "convnext":
        return transformers.ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], **stages)
    return transformers.SwinConfig(
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 2],
        window_size=2,
        image_size=64,
        patch_size=2,
        **stages,
    )


def transformers_case(name: str, inputs: Inputs, settings: dict[str, Any]) -> Callable[[], Made]:
    def make() -> Made:
        without_compiled_torchvision()
        import transformers

        kind = getattr(transformers, name)
        own = dict(settings)
        if isinstance(own.get("backbone_config"), str):
            own["backbone_config"] = backbone(own["backbone_config"])
        settings_of_all = shrunk(kind.config_class()) | own
        config = kind.config_class(**{key: value for key, value in settings_of_all.items() if value is not None})
        model = Named(kind(config).eval(), tuple(inputs))

        def arguments(number: int) -> tuple:
            generator = torch.Generator().manual_seed(number)
            return tuple(made(generator) for made in inputs.values())

        return model.eval(), arguments

    return make


CASES |= {f"transformers {name}": transformers_case(name, inputs, own) for name, inputs, own in MODELS}
