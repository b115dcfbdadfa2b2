"""Models of transformers for bench/zoo.py that see, hear, detect, or foretell series."""

from __future__ import annotations

from typing import Any

import torch

from zoo_transformers import SIDE, TEXT, Inputs, ids, of, register

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
SERIES = {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 1}
PAST: Inputs = {
    "past_values": of(1, 10),
    "past_time_features": of(1, 10, 1),
    "past_observed_mask": lambda _: torch.ones(1, 10),
    "future_values": of(1, 4),
    "future_time_features": of(1, 4, 1),
}


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


register(
    [
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
        (
            "RegNetModel",
            IMAGE,
            {"depths": [1, 1], "hidden_sizes": [16, 32], "embedding_size": 8, "groups_width": 4},
        ),
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
        # several kinds of input
        ("CLIPModel", BOTH, {}),
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
        # detection and masks
        (
            "DetrModel",
            IMAGE64,
            {
                "use_timm_backbone": False,
                "use_pretrained_backbone": False,
                "backbone": None,
                "backbone_config": lambda: backbone("resnet"),
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
                "backbone_config": lambda: backbone("resnet"),
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
                "backbone_config": lambda: backbone("resnet"),
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
                "backbone_config": lambda: backbone("resnet"),
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
                "backbone_config": lambda: backbone("swin"),
            },
        ),
        (
            "MaskFormerModel",
            IMAGE64,
            {
                "fpn_feature_size": 32,
                "mask_feature_size": 32,
                "num_queries": 5,
                "backbone_config": lambda: backbone("swin"),
            },
        ),
        (
            "UperNetForSemanticSegmentation",
            IMAGE64,
            {
                "backbone_config": lambda: backbone("convnext"),
                "hidden_size": 16,
                "use_auxiliary_head": False,
                "pool_scales": [1, 2],
            },
        ),
        # series
        ("TimeSeriesTransformerModel", PAST, SERIES),
        ("InformerModel", PAST, SERIES),
        ("AutoformerModel", PAST, SERIES | {"label_length": 4}),
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
)
