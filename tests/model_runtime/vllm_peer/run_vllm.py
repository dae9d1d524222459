"""Runs in vLLM's environment, of which this project is no part: `python run_vllm.py FOLDER` answers FOLDER/job.json.

It writes FOLDER/found.npz. vLLM runs in this process, in float32 and without compilers, so that its modules can be
asked too: its image processor, its tower and projector, its INT4 layers.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
os.environ.update(SETTINGS)

import llvmlite.binding.ffi  # noqa: E402
import numpy as np  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402

# vLLM looks into all objects of all modules for `__dict__`; this one answers to any name, with a function of LLVM.
llvmlite.binding.ffi.lib._fntab["__dict__"] = {}


def write_tokenizer(folder: Path, vocab_size: int, media_pad: int) -> Path:
    """Words `t0`, `t1`, ... and the placeholder: vLLM asks for its id, prompts come as ids."""
    vocabulary = {f"t{number}": number for number in range(vocab_size)}
    vocabulary["<|media_pad|>"] = vocabulary.pop(f"t{media_pad}")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="t0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    special = {"unk_token": "t0", "additional_special_tokens": ["<|media_pad|>"]}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    return folder


def make_chunk(media: dict[str, Any], pixels: Any) -> dict[str, Any]:
    """An image or video chunk as vLLM's class takes it."""
    frames = [Image.fromarray(frame) for frame in pixels[media["name"]]]
    if media["kind"] == "image":
        return {"type": "image", "image": frames[0], "uuid": None}
    return {"type": "video_chunk", "video_chunk": frames, "uuid": None, "prompt": "", "video_idx": 0}


def make_table(positions: Any, vocab_size: int) -> np.ndarray:
    """Log-probabilities as (positions, vocab)."""
    rows = np.full((len(positions), vocab_size), np.nan, np.float32)
    for row, found in zip(rows, positions, strict=True):
        for token, each in found.items():
            row[token] = each.logprob
    return rows


def ask(llm: LLM, job: dict[str, Any], pixels: Any) -> dict[str, np.ndarray]:
    """Every request's prompt and greedy tokens, with the log-probabilities after each but the last."""
    params = SamplingParams(
        temperature=0, max_tokens=job["max_tokens"], logprobs=-1, prompt_logprobs=-1, ignore_eos=True, detokenize=False
    )
    prompts: list[Any] = []
    for request in job["requests"]:
        prompt: dict[str, Any] = {"prompt_token_ids": request["token_ids"]}
        if request["media"]:
            prompt["multi_modal_data"] = {"vision_chunk": [make_chunk(each, pixels) for each in request["media"]]}
        prompts.append(prompt)
    found = {}
    for request, output in zip(job["requests"], llm.generate(prompts, params, use_tqdm=False), strict=True):
        [greedy] = output.outputs
        logprobs = [*output.prompt_logprobs[1:], *greedy.logprobs]
        found[f"{request['name']}/token_ids"] = np.array([*output.prompt_token_ids, *greedy.token_ids])
        found[f"{request['name']}/logprobs"] = make_table(logprobs, job["vocab_size"])
    return found


def encode(llm: LLM, job: dict[str, Any], pixels: Any) -> dict[str, np.ndarray]:
    """Every request's media through the processor, and through the tower and projector, in one call."""
    from vllm.transformers_utils.processors.kimi_k25_vision_fused import KimiK25FusedVisionProcessor

    processor = KimiK25FusedVisionProcessor.from_pretrained(job["model"])
    found = {}
    for request in job["requests"]:
        if request["media"]:
            chunks = [make_chunk(each, pixels) for each in request["media"]]
            inputs = processor.preprocess(chunks)
            found[f"{request['name']}/pixels"] = inputs["pixel_values"].numpy()
            found[f"{request['name']}/grids"] = inputs["grid_thws"].numpy()
            raw = processor.preprocess(chunks, do_rescale=False, do_normalize=False)  # the tower normalises
            [rows] = llm.apply_model(lambda model, raw=raw: model.embed_multimodal(**raw))
            found[f"{request['name']}/features"] = torch.cat(list(rows)).numpy()
    return found


def unpack_experts_when_loaded(unpacked: dict[str, np.ndarray]) -> None:
    """Let vLLM hold INT4 experts on a CPU without AMX, for which it has none.

    Everything up to the packed parameters is vLLM's, as is the unpacking: its `emulation`, whose kernel is for GPUs.
    The experts of an unpacked model take that one's place.
    """
    from vllm.model_executor.layers.fused_moe import UnquantizedFusedMoEMethod
    from vllm.model_executor.layers.fused_moe.experts.int4_emulation_moe import Int4EmulationTritonExperts
    from vllm.model_executor.layers.fused_moe.oracle.int_wna16 import WNA16MoEBackend
    from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors_moe import (
        compressed_tensors_moe_wna16 as wna16,
    )

    class Unpacked(UnquantizedFusedMoEMethod):
        pass

    def process_weights_after_loading(self: Any, layer: Any) -> None:
        w13, w2, *_ = wna16.convert_to_wna16_moe_kernel_format(
            backend=self.wna16_backend,
            layer=layer,
            quant_config=self.weight_quant,
            input_dtype=self.input_dtype,
            w13=layer.w13_weight_packed,
            w2=layer.w2_weight_packed,
            w13_scale=layer.w13_weight_scale,
            w2_scale=layer.w2_weight_scale,
        )
        for name, weight in (("w13", w13), ("w2", w2)):
            assert weight.dtype == torch.bfloat16
            unpacked[f"{layer.layer_name}.{name}"] = weight.float().numpy()
            layer.register_parameter(f"{name}_weight", torch.nn.Parameter(weight.float(), requires_grad=False))
        method = Unpacked(self.moe)
        layer._replace_quant_method(method)
        method.process_weights_after_loading(layer)

    wna16.select_wna16_moe_backend = lambda **_: (WNA16MoEBackend.EMULATION, Int4EmulationTritonExperts)
    wna16.CompressedTensorsWNA16MoEMethod.process_weights_after_loading = process_weights_after_loading


def unpack(values: Any) -> dict[str, np.ndarray]:
    """Packed words as the four-bit numbers in them, by the function that vLLM repacks layers with."""
    from vllm.model_executor.layers.quantization.utils.quant_utils import unpack_quantized_values_into_int32
    from vllm.scalar_type import scalar_types

    packed = torch.from_numpy(values["packed"])
    return {"nibbles": unpack_quantized_values_into_int32(packed, scalar_types.uint4b8, packed_dim=1).numpy()}


def main(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text("utf-8"))
    values = np.load(folder / "values.npz")
    found: dict[str, np.ndarray] = {}
    if job["quantized"]:
        unpack_experts_when_loaded(found)
    llm = LLM(
        model=job["model"],
        tokenizer=str(write_tokenizer(folder / "tokenizer", job["vocab_size"], job["media_pad"])),
        dtype="float32",
        enforce_eager=True,
        max_model_len=1024,
        max_num_batched_tokens=1024,
        max_num_seqs=8,
        max_logprobs=-1,
        mm_processor_cache_gb=0,
        skip_mm_profiling=True,
        limit_mm_per_prompt={"vision_chunk": 4},
        disable_log_stats=True,
    )
    found |= ask(llm, job, values)
    found |= encode(llm, job, values)
    if job["quantized"]:
        found |= unpack(values)
    np.savez(folder / "found.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
