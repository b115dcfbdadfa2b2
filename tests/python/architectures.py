"""Whole architectures in random small configurations, by name: what test_architectures.py compares with eager.

A builder takes a random.Random and gives a module and its keyword arguments. Sizes, depths, head counts, masks and
the way attention is written vary with the random numbers; weights are random (nothing is downloaded).
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
import vision
from measure import other_calls

__all__ = ["ARCHITECTURES", "other_calls"]

Example = tuple[torch.nn.Module, dict[str, Any]]
Builder = Callable[[random.Random], Example]
VOCABULARY = 97
# The usual names of the sizes; a builder renames or overrides them where a configuration has others.
USUAL = {
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
}


def sizes(r: random.Random, names: dict[str, str] | None = None) -> dict[str, int]:
    """Random sizes under the names that a configuration gives them."""
    heads = r.choice([2, 4])
    values = {"heads": heads, "hidden": heads * r.choice([8, 12, 16]), "layers": r.choice([1, 2])}
    values["inner"] = r.choice([40, 64, 72])
    names = {**USUAL, **(names or {})}
    return {names[key]: value for key, value in values.items() if names[key]}


def model(family: str, **options: Any) -> torch.nn.Module:
    """The base model of a family of transformers."""
    import transformers

    return getattr(transformers, f"{family}Model")(getattr(transformers, f"{family}Config")(**options))


def tokens(r: random.Random, masks: bool = True) -> dict[str, torch.Tensor]:
    """Ids from 5 up (below lie the special tokens) and, half of the time, a mask of padding at the end."""
    batch, length = r.choice([1, 2, 3]), r.choice([7, 8, 13, 16])
    inputs = {"input_ids": torch.randint(5, VOCABULARY, (batch, length))}
    if masks and r.random() < 0.5:
        lengths = torch.tensor([length, *(r.randint(1, length) for _ in range(batch - 1))])
        inputs["attention_mask"] = (torch.arange(length) < lengths[:, None]).long()
    return inputs


def image(r: random.Random, side: int) -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(r.choice([1, 2]), 3, side, side)}


def attention(r: random.Random) -> dict[str, str]:
    return {"attn_implementation": r.choice(["sdpa", "eager"])}


def shared_heads(r: random.Random, heads: int) -> dict[str, Any]:
    """Half of the time two heads share keys and values."""
    return {"num_key_value_heads": heads if r.random() < 0.5 else heads // 2}


def encoder(family: str, names: dict[str, str] | None = None, **options: Any) -> Builder:
    def build(r: random.Random) -> Example:
        config = {**sizes(r, names), **attention(r), "vocab_size": VOCABULARY, **options}
        return model(family, **config), tokens(r)

    return build


def decoder(
    family: str, names: dict[str, str] | None = None, *, grouped: bool = False, masks: bool = True, **options: Any
) -> Builder:
    """`grouped`: several heads may share keys and values."""

    def build(r: random.Random) -> Example:
        config = {**sizes(r, names), **attention(r), "vocab_size": VOCABULARY, "use_cache": False}
        if grouped:
            config |= shared_heads(r, config["num_attention_heads"])
        return model(family, **{**config, "pad_token_id": 0, **options}), tokens(r, masks)

    return build


def gemma(r: random.Random) -> Example:
    config = {**sizes(r), **attention(r), "head_dim": r.choice([8, 16])}
    config |= shared_heads(r, config["num_attention_heads"])
    return model("Gemma", vocab_size=VOCABULARY, use_cache=False, **config), tokens(r)


def deberta(r: random.Random) -> Example:
    positions = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
    return model("DebertaV2", vocab_size=VOCABULARY, **sizes(r), **positions), tokens(r)


def modernbert(r: random.Random) -> Example:
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    return model("ModernBert", vocab_size=VOCABULARY, **sizes(r), **attention(r), **special), tokens(r)


def mamba(r: random.Random) -> Example:
    config = {"hidden_size": r.choice([16, 24, 32]), "state_size": r.choice([4, 8]), "time_step_rank": 4}
    config |= {"num_hidden_layers": r.choice([1, 2]), "conv_kernel": r.choice([3, 4])}
    return model("Mamba", vocab_size=VOCABULARY, use_cache=False, **config), tokens(r, masks=False)


def t5(r: random.Random) -> Example:
    config = sizes(r, {"hidden": "d_model", "layers": "num_layers", "heads": "num_heads", "inner": "d_ff"})
    config |= {"d_kv": r.choice([8, 16]), "feed_forward_proj": r.choice(["relu", "gated-gelu"])}
    inputs = tokens(r)
    inputs["decoder_input_ids"] = torch.randint(5, VOCABULARY, (len(inputs["input_ids"]), r.choice([3, 5])))
    return model("T5", vocab_size=VOCABULARY, use_cache=False, **config), inputs


def both_ways(r: random.Random) -> dict[str, Any]:
    """The sizes of BART's and Whisper's encoder and decoder."""
    one = sizes(r)
    config = {"d_model": one["hidden_size"], "vocab_size": VOCABULARY, "use_cache": False, **attention(r)}
    for side in ("encoder", "decoder"):
        config |= {f"{side}_layers": one["num_hidden_layers"], f"{side}_ffn_dim": one["intermediate_size"]}
        config[f"{side}_attention_heads"] = one["num_attention_heads"]
    return config


def translator(family: str) -> Builder:
    def build(r: random.Random) -> Example:
        inputs = tokens(r)
        inputs["decoder_input_ids"] = torch.randint(5, VOCABULARY, (len(inputs["input_ids"]), r.choice([3, 5])))
        return model(family, max_position_embeddings=64, **both_ways(r)), inputs

    return build


def whisper(r: random.Random) -> Example:
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = {"num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 12}
    batch = r.choice([1, 2])
    inputs = {"input_features": torch.randn(batch, 16, 40)}
    inputs["decoder_input_ids"] = torch.randint(5, VOCABULARY, (batch, r.choice([3, 5])))
    return model("Whisper", begin_suppress_tokens=None, **config, **special, **both_ways(r)), inputs


def speech(family: str) -> Builder:
    def build(r: random.Random) -> Example:
        convolutions = {"conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3]}
        convolutions |= {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2}
        norm = {"feat_extract_norm": r.choice(["group", "layer"]), "do_stable_layer_norm": r.random() < 0.5}
        waves = {"input_values": torch.randn(r.choice([1, 2]), r.choice([200, 331]))}
        return model(family, apply_spec_augment=False, **sizes(r), **attention(r), **convolutions, **norm), waves

    return build


def patches(family: str, **options: Any) -> Builder:
    """Vision transformers over patches."""

    def build(r: random.Random) -> Example:
        patch = r.choice([4, 8])
        side = patch * r.choice([3, 4])
        return model(family, image_size=side, patch_size=patch, **sizes(r), **attention(r), **options), image(
            r, side
        )

    return build


def swin(r: random.Random) -> Example:
    config = {
        "embed_dim": r.choice([8, 16]),
        "depths": [2, 2],
        "num_heads": [2, 4],
        "window_size": r.choice([2, 4]),
    }
    return model("Swin", image_size=32, patch_size=2, **config), image(r, 32)


def clip(r: random.Random) -> Example:
    text = {**sizes(r), "vocab_size": VOCABULARY, "max_position_embeddings": 32, "eos_token_id": 2}
    seen = {**sizes(r), "image_size": 16, "patch_size": 4}
    clip = model("CLIP", text_config=text, vision_config=seen, projection_dim=r.choice([8, 20]), **attention(r))
    return clip, {**tokens(r), **image(r, 16)}


def stages(family: str, **options: Any) -> Builder:
    """Convolutional networks of transformers, given by the widths of their stages."""

    def build(r: random.Random) -> Example:
        width = r.choice([8, 16])
        return model(family, hidden_sizes=[width, 2 * width], depths=[1, 2], **options), image(r, 32)

    return build


def segformer(r: random.Random) -> Example:
    config = {
        "num_encoder_blocks": 2,
        "depths": [1, 1],
        "sr_ratios": [r.choice([2, 4]), 1],
        "hidden_sizes": [8, 16],
    }
    config |= {"patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2]}
    return model("Segformer", **config), image(r, r.choice([32, 64]))


def mobilevit(r: random.Random) -> Example:
    config = {"hidden_sizes": [16, 16, 16], "neck_hidden_sizes": [8, 8, 8, 8, 8, 8, 16], "num_attention_heads": 2}
    return model("MobileViT", image_size=64, expand_ratio=2.0, **config), image(r, 64)


def efficientnet(r: random.Random) -> Example:
    config = {"width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280, "depthwise_padding": []}
    config |= {"kernel_sizes": [3, 5], "in_channels": [32, 8], "out_channels": [8, 32], "strides": [1, 2]}
    config |= {"num_block_repeats": [1, 2], "expand_ratios": [1, 4]}
    return model("EfficientNet", **config), image(r, r.choice([32, 40]))


def resnet(r: random.Random) -> Example:
    blocks = [r.choice([1, 2]) for _ in range(4)]
    return vision.ResNet(blocks, r.choice([8, 12]), expansion=2, classes=10), {"x": torch.randn(2, 3, 64, 64)}


def mobilenet(r: random.Random) -> Example:
    network = vision.MobileNet(((8, 1, 1), (12, 2, 2), (16, r.choice([1, 2]), 1)), 8, r.choice([2, 3]), 32, 10)
    return network, {"x": torch.randn(r.choice([1, 2]), 3, 32, 32)}


def unet(mode: str) -> Builder:
    def build(r: random.Random) -> Example:
        side = r.choice([16, 24])
        return vision.UNet(r.choice([4, 6]), depth=2, mode=mode), {
            "x": torch.randn(r.choice([1, 2]), 3, side, side)
        }

    return build


ARCHITECTURES: dict[str, Builder] = {
    "bert": encoder("Bert"),
    "roberta": encoder("Roberta", max_position_embeddings=40),
    "distilbert": encoder(
        "DistilBert", {"hidden": "dim", "heads": "n_heads", "layers": "n_layers", "inner": "hidden_dim"}
    ),
    "albert": encoder("Albert", embedding_size=12),
    "electra": encoder("Electra", embedding_size=12),
    "deberta-v2": deberta,
    "modernbert": modernbert,
    "gpt2": decoder("GPT2", {"hidden": "n_embd", "heads": "n_head", "layers": "n_layer", "inner": "n_inner"}),
    "opt": decoder("OPT", {"inner": "ffn_dim"}, word_embed_proj_dim=20),
    "gpt-neox": decoder("GPTNeoX", hidden_size=32),
    "bloom": decoder("Bloom", {"layers": "n_layer", "heads": "n_head", "inner": ""}, attn_implementation="eager"),
    "falcon": decoder("Falcon", {"inner": "ffn_hidden_size"}),
    "llama": decoder("Llama", grouped=True),
    # With padding, a window could leave a row no key at all: NaN or not, as the dtype falls out.
    "mistral": decoder("Mistral", grouped=True, masks=False, head_dim=16, sliding_window=5),
    "qwen2": decoder("Qwen2", grouped=True),
    "phi": decoder("Phi", grouped=True),
    "gemma": gemma,
    "qwen3": decoder("Qwen3", grouped=True, head_dim=8),
    "olmo2": decoder("Olmo2", grouped=True),
    "mixtral": decoder("Mixtral", grouped=True, num_local_experts=2),
    "gptj": decoder(
        "GPTJ", {"hidden": "n_embd", "heads": "n_head", "layers": "n_layer", "inner": "n_inner"}, rotary_dim=4
    ),
    "starcoder2": decoder("Starcoder2", grouped=True),
    "stablelm": decoder("StableLm", grouped=True, hidden_size=32),
    "cohere": decoder("Cohere", grouped=True),
    "mamba": mamba,
    "t5": t5,
    "bart": translator("Bart"),
    "m2m100": translator("M2M100"),
    "whisper": whisper,
    "wav2vec2": speech("Wav2Vec2"),
    "hubert": speech("Hubert"),
    "vit": patches("ViT"),
    "deit": patches("DeiT"),
    "beit": patches("Beit", use_relative_position_bias=True),
    "dinov2": patches("Dinov2"),
    "siglip": patches("SiglipVision"),
    "swin": swin,
    "clip": clip,
    "convnext": stages("ConvNext", num_stages=2),
    "regnet": stages("RegNet", embedding_size=8, groups_width=4),
    "segformer": segformer,
    "mobilevit": mobilevit,
    "efficientnet": efficientnet,
    "resnet": resnet,
    "mobilenet": mobilenet,
    "unet-nearest": unet("nearest"),
    "unet-bilinear": unet("bilinear"),
    "unet-transposed": unet("transposed"),
}
