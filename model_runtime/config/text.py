"""Read `text_config`: the language model and its rotary frequencies."""

from model_runtime.config.section import Section
from model_runtime.config.types import RopeScaling, TextConfig


def parse_text(section: Section, top: Section, latent_norm_eps: float) -> TextConfig:
    """The language model, from `text_config` and, for token ids, the object around it."""
    release = TextConfig()
    _expect_text(section)
    take = section.take
    num_heads = take("num_attention_heads", release.num_attention_heads)
    section.expect("num_key_value_heads", num_heads)
    if section.is_null("q_lora_rank"):
        section.fault("q_lora_rank", None, "a whole number (queries go through a latent)")
    theta, scaling = _parse_rope(section)
    text = TextConfig(
        vocab_size=take("vocab_size", release.vocab_size),
        hidden_size=take("hidden_size", release.hidden_size),
        intermediate_size=take("intermediate_size", release.intermediate_size),
        moe_intermediate_size=take("moe_intermediate_size", release.moe_intermediate_size),
        num_hidden_layers=take("num_hidden_layers", release.num_hidden_layers),
        first_k_dense_replace=take("first_k_dense_replace", release.first_k_dense_replace, at_least=0),
        moe_layer_freq=take("moe_layer_freq", release.moe_layer_freq),
        num_attention_heads=num_heads,
        q_lora_rank=take("q_lora_rank", release.q_lora_rank),
        kv_lora_rank=take("kv_lora_rank", release.kv_lora_rank),
        qk_nope_head_dim=take("qk_nope_head_dim", release.qk_nope_head_dim),
        qk_rope_head_dim=take("qk_rope_head_dim", release.qk_rope_head_dim),
        v_head_dim=take("v_head_dim", release.v_head_dim),
        n_routed_experts=take("n_routed_experts", release.n_routed_experts, "num_local_experts"),
        num_experts_per_tok=take("num_experts_per_tok", release.num_experts_per_tok),
        n_shared_experts=take("n_shared_experts", release.n_shared_experts),
        n_group=take("n_group", release.n_group),
        topk_group=take("topk_group", release.topk_group),
        norm_topk_prob=take("norm_topk_prob", release.norm_topk_prob),
        routed_scaling_factor=take("routed_scaling_factor", release.routed_scaling_factor),
        rms_norm_eps=take("rms_norm_eps", release.rms_norm_eps),
        latent_norm_eps=latent_norm_eps,
        rope_theta=theta,
        rope_scaling=scaling,
        max_position_embeddings=take("max_position_embeddings", release.max_position_embeddings),
        bos_token_id=_take_token("bos_token_id", release.bos_token_id, top, section),
        eos_token_id=_take_token("eos_token_id", release.eos_token_id, top, section),
        pad_token_id=_take_token("pad_token_id", release.pad_token_id, top, section),
    )
    section.expect("qk_head_dim", text.qk_head_dim)
    return text


def _expect_text(section: Section) -> None:
    section.expect("model_type", "kimi_k2", "deepseek_v3")
    section.expect("scoring_func", "sigmoid")
    section.expect("topk_method", "noaux_tc")
    section.expect("hidden_act", "silu")
    section.expect("attention_bias", False)
    section.expect("tie_word_embeddings", False)
    section.expect("num_nextn_predict_layers", 0)
    section.expect("num_mtp_layers", 0)
    section.expect("rope_interleave", True)


def _take_token(key: str, default: int, top: Section, text: Section) -> int:
    """K2.6 changed `[EOS]` to `<|im_end|>`; the outer object wins."""
    inner = text.take(key, default, at_least=0) if text.has(key) or not top.has(key) else text.find(key)
    return top.take(key, default, at_least=0) if top.has(key) else inner


def _parse_rope(section: Section) -> tuple[float, RopeScaling | None]:
    """`rope_theta` and `rope_scaling`, or both inside `rope_parameters` as transformers 5 writes them."""
    release = TextConfig().rope_theta
    given = [section.section(key) for key in ("rope_scaling", "rope_parameters") if section.has(key)]
    thetas = [part.take("rope_theta", release) for part in given if part.has("rope_theta")]
    theta = section.take("rope_theta", release) if section.has("rope_theta") or not thetas else thetas[0]
    for other in thetas:
        if other != theta:
            section.fault("rope_parameters.rope_theta", other, f"{theta:g} as in {section.path}rope_theta")
    scalings = [_parse_scaling(part) for part in given]
    if len(scalings) == 2 and scalings[0] != scalings[1]:
        what = f"rope_parameters give {scalings[1]}, expected the same as in rope_scaling: {scalings[0]}"
        section.faults.append(section.path + what)
    if scalings:
        return theta, scalings[0]
    if section.is_null("rope_scaling"):
        return theta, None
    section.missing.append(section.path + "rope_scaling")
    return theta, TextConfig().rope_scaling


def _parse_scaling(section: Section) -> RopeScaling | None:
    release = RopeScaling()
    kind = section.take("rope_type", "yarn", "type")
    if kind == "default":
        return None
    if kind != "yarn":
        section.fault("rope_type" if section.has("rope_type") else "type", kind, '"yarn" or "default"')
    return RopeScaling(
        factor=section.take("factor", release.factor),
        original_max_position_embeddings=section.take(
            "original_max_position_embeddings", release.original_max_position_embeddings
        ),
        beta_fast=section.take("beta_fast", release.beta_fast),
        beta_slow=section.take("beta_slow", release.beta_slow),
        mscale=section.take("mscale", release.mscale, at_least=0),
        mscale_all_dim=section.take("mscale_all_dim", release.mscale_all_dim, at_least=0),
    )
