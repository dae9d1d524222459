"""What has to hold between the numbers of a model."""

from model_runtime.config.types import K25Config, QuantizationConfig, TextConfig, VisionConfig


def check_config(config: K25Config, faults: list[str]) -> None:
    """Add to `faults` what contradicts itself; reading goes on."""
    _check_text(config.text, faults)
    _check_experts(config.text, faults)
    _check_tokens(config, faults)
    _check_vision(config.vision, config.text, faults)
    if config.quantization is not None:
        _check_quantization(config.quantization, config.text, faults)


def _check_text(text: TextConfig, faults: list[str]) -> None:
    if text.qk_rope_head_dim % 2:
        faults.append(f"text_config.qk_rope_head_dim is {text.qk_rope_head_dim}, expected an even number")
    scaling = text.rope_scaling
    if scaling is None:
        return
    reach = scaling.original_max_position_embeddings * scaling.factor
    if text.max_position_embeddings > reach:
        expected = f"at most {reach:g} (original_max_position_embeddings x factor of rope_scaling)"
        faults.append(f"text_config.max_position_embeddings is {text.max_position_embeddings}, expected {expected}")
    if scaling.beta_fast < scaling.beta_slow:
        found = f"{scaling.beta_fast:g}, expected beta_slow ({scaling.beta_slow:g}) or more"
        faults.append(f"text_config.rope_scaling.beta_fast is {found}")


def _check_experts(text: TextConfig, faults: list[str]) -> None:
    experts, groups = text.n_routed_experts, text.n_group
    if experts % groups:
        faults.append(f"text_config.n_group is {groups}, expected a divisor of n_routed_experts ({experts})")
        return
    if text.topk_group > groups:
        faults.append(f"text_config.topk_group is {text.topk_group}, expected at most n_group ({groups})")
    in_reach = min(text.topk_group, groups) * (experts // groups)
    if text.num_experts_per_tok > in_reach:
        expected = f"at most {in_reach} (the experts of topk_group groups)"
        faults.append(f"text_config.num_experts_per_tok is {text.num_experts_per_tok}, expected {expected}")


def _check_tokens(config: K25Config, faults: list[str]) -> None:
    text = config.text
    ids = {
        "bos_token_id": text.bos_token_id,
        "eos_token_id": text.eos_token_id,
        "pad_token_id": text.pad_token_id,
        "media_placeholder_token_id": config.media_placeholder_token_id,
    }
    for name, token_id in ids.items():
        if token_id >= text.vocab_size:
            faults.append(f"{name} is {token_id}, expected less than vocab_size ({text.vocab_size})")


def _check_vision(vision: VisionConfig, text: TextConfig, faults: list[str]) -> None:
    if vision.text_hidden_size != text.hidden_size:
        expected = f"{text.hidden_size} as text_config.hidden_size"
        faults.append(f"vision_config.text_hidden_size is {vision.text_hidden_size}, expected {expected}")
    if vision.mm_hidden_size != vision.hidden_size:
        expected = f"{vision.hidden_size} as vt_hidden_size"
        faults.append(f"vision_config.mm_hidden_size is {vision.mm_hidden_size}, expected {expected}")
    hidden, heads = vision.hidden_size, vision.num_attention_heads
    if hidden % heads:
        faults.append(
            f"vision_config.vt_hidden_size is {hidden}, expected a multiple of vt_num_attention_heads ({heads})"
        )
    elif vision.head_dim % 4:
        what = f"vision_config.vt_hidden_size / vt_num_attention_heads is {vision.head_dim}"
        faults.append(f"{what}, expected a multiple of 4 (pairs of rotary x and y)")


def _check_quantization(quantization: QuantizationConfig, text: TextConfig, faults: list[str]) -> None:
    size = quantization.group_size
    if size % 8:
        faults.append(f"quantization_config group_size is {size}, expected a multiple of 8 (values in one int32)")
    for name, width in (("hidden_size", text.hidden_size), ("moe_intermediate_size", text.moe_intermediate_size)):
        if width % size:
            faults.append(f"text_config.{name} is {width}, expected a multiple of the INT4 group_size ({size})")
