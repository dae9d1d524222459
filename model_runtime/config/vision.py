"""Read `vision_config`: MoonViT-3D and the projector behind it, in the release's spelling and transformers'."""

from typing import Any

from model_runtime.config.section import Section
from model_runtime.config.types import VisionConfig


def parse_vision(section: Section, top: Section, text_hidden_size: int) -> VisionConfig:
    """MoonViT-3D and the projector, from `vision_config`; transformers keeps two projector numbers outside of it.

    Args:
        section: `vision_config`.
        top: The object around it.
        text_hidden_size: Of the language model; taken where the file does not repeat it.
    """
    release = VisionConfig()
    section.expect("model_type", "", "kimi_k25_vision")
    section.expect("pos_emb_type", "divided_fixed")
    section.expect("merge_type", "sd2_tpool")
    section.expect("video_attn_type", "spatial_temporal")
    section.expect("mm_projector_type", "patchmerger")
    section.expect("projector_hidden_act", "gelu")
    section.expect("hidden_act", "gelu_pytorch_tanh")
    section.section("rope_parameters").expect("rope_theta", 10_000.0, 10_000)
    take = section.take
    return VisionConfig(
        patch_size=take("patch_size", release.patch_size),
        hidden_size=take("vt_hidden_size", release.hidden_size, "hidden_size"),
        num_hidden_layers=take("vt_num_hidden_layers", release.num_hidden_layers, "num_hidden_layers"),
        num_attention_heads=take("vt_num_attention_heads", release.num_attention_heads, "num_attention_heads"),
        intermediate_size=take("vt_intermediate_size", release.intermediate_size, "intermediate_size"),
        init_pos_emb_height=take("init_pos_emb_height", release.init_pos_emb_height, "pos_emb_height"),
        init_pos_emb_width=take("init_pos_emb_width", release.init_pos_emb_width, "pos_emb_width"),
        init_pos_emb_time=take("init_pos_emb_time", release.init_pos_emb_time, "pos_emb_time"),
        merge_kernel_size=_parse_merge_kernel(section),
        mm_hidden_size=_take_mm_hidden_size(section, top),
        text_hidden_size=take("text_hidden_size", text_hidden_size),
        projector_ln_eps=_take_projector_eps(section, top),
    )


def _take_mm_hidden_size(section: Section, top: Section) -> int:
    if not section.has("mm_hidden_size") and top.has("projection_hidden_size"):
        return top.take("projection_hidden_size", VisionConfig().mm_hidden_size)
    size = section.take("mm_hidden_size", VisionConfig().mm_hidden_size)
    top.expect("projection_hidden_size", size)
    return size


def _take_projector_eps(section: Section, top: Section) -> float:
    if not section.has("projector_ln_eps") and top.has("projection_layer_norm_eps"):
        return top.take("projection_layer_norm_eps", VisionConfig().projector_ln_eps)
    eps = section.take("projector_ln_eps", VisionConfig().projector_ln_eps)
    top.expect("projection_layer_norm_eps", eps)
    return eps


def _parse_merge_kernel(section: Section) -> tuple[int, int]:
    found: Any = section.find("merge_kernel_size")
    if found is None:
        section.missing.append(section.path + "merge_kernel_size")
    elif not (isinstance(found, list) and len(found) == 2 and all(type(each) is int and each > 0 for each in found)):
        section.fault("merge_kernel_size", found, "two whole numbers, for example [2, 2]")
    else:
        return found[0], found[1]
    return VisionConfig().merge_kernel_size
