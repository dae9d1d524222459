"""Training losses: next tokens, and auxiliary losses on internal representations that speed up learning.

The losses are separate: each has a weight, 0 disables it, and the exported model has none of the heads here. An
attention share is an attention weight, the softmax of a token's scores; a token looks at those that it attends to.

The vision tower processes images sorted by size in several passes; `PatchRows` restores the order of the images.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.media import MediaItem
from model_runtime.model import K25Model
from model_runtime.ops.reference.norm import rotate
from model_runtime.training.attention import AttentionInputs, compute_log_shares, compute_scores
from model_runtime.training.batch import Activations, TrainingBatch
from model_runtime.training.lessons import IGNORED, Targets
from model_runtime.training.loss_weights import LossWeights
from model_runtime.training.places import PLACE_BINS, compare_places, find_places, make_soft_targets
from model_runtime.vision.block import Packing
from model_runtime.vision.tower import VisionTower, make_groups


class PatchRows:
    """Recorder of the rows after the tower's middle block, and of the attention input of two later blocks, per forward
    pass.

    Args:
        tower: Vision tower on one rank.

    Attributes:
        letter_block: Block whose heads collect a word's letters, the one after the middle.
        target_block: Block whose heads attend from a word to the named element, the last.
    """

    def __init__(self, tower: VisionTower) -> None:
        self.tower = tower
        self._middle: list[Tensor] = []
        self._inputs: dict[int, list[tuple[Tensor, Packing]]] = {}
        blocks = tower.blocks
        middle, self.target_block = (len(blocks) - 1) // 2, len(blocks) - 1
        self.letter_block = min(middle + 1, self.target_block)
        self._hooks = (
            tower.register_forward_pre_hook(lambda module, inputs: self._forget()),
            blocks[middle].register_forward_hook(lambda module, inputs, output: self._keep(output)),
            *(
                blocks[number].attention.register_forward_pre_hook(self._keep_inputs(number))
                for number in {self.letter_block, self.target_block}
            ),
        )

    def _forget(self) -> None:
        self._middle.clear()
        self._inputs.clear()

    def _keep_inputs(self, number: int) -> Callable[[nn.Module, tuple[Tensor, Packing]], None]:
        return lambda module, inputs: self._inputs.setdefault(number, []).append(inputs)

    def _keep(self, rows: Tensor) -> None:
        self._middle.append(rows if rows.requires_grad else rows.clone())  # without gradients, blocks overwrite them

    def find_middle(self, images: Sequence[MediaItem]) -> Tensor:
        """Return the rows after the middle block: (patches of all images, width)."""
        return self._sort(images, self._middle)

    def compute_log_shares(self, images: Sequence[MediaItem], patch_targets: Tensor, *, block: int) -> Tensor:
        """Return the logs of a block's attention shares from one patch to another.

        Args:
            images: Images of the last forward pass.
            block: `letter_block` or `target_block`.
            patch_targets: (pairs, 3) int64: the patch that attends and its target in the same image, both counted over
                all images, and the head.

        Returns:
            (pairs,) fp32, at most 0, in another order.
        """
        attention, inputs = self.tower.blocks[block].attention, self._inputs[block]
        heads, dim = attention.num_heads, attention.head_dim
        x = self._sort(images, [x for x, _ in inputs])
        rotations = self._sort(images, [packing.rotations for _, packing in inputs])
        rows = 2 * heads * dim  # queries and keys
        both = F.linear(x, attention.qkv_weight[:rows], attention.qkv_bias[:rows]).view(len(x), 2 * heads, dim)
        queries, keys = rotate(both, rotations).chunk(2, dim=1)
        find = log_shares_per_image if x.device.type == "cpu" else log_shares_padded
        return find(queries, keys, patch_targets, [image.num_patches for image in images])

    def _sort(self, images: Sequence[MediaItem], passes: Sequence[Tensor]) -> Tensor:
        """Return the rows of the tower's passes in the order of the images."""
        sizes = [image.num_patches for image in images]
        rows: dict[int, Tensor] = {}
        for group, output in zip(make_groups(sizes, self.tower.max_patches_per_pass), passes, strict=True):
            rows |= zip(group, output.split_with_sizes([sizes[index] for index in group]), strict=True)
        return torch.cat([rows[index] for index in range(len(sizes))])

    def close(self) -> None:
        """Stop recording and drop the data; may be called twice."""
        for hook in self._hooks:
            hook.remove()
        self._forget()


def log_shares_per_image(queries: Tensor, keys: Tensor, patch_targets: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the logs of attention shares, calculated per image and head, without padding: for a CPU.

    Args:
        queries: (N, heads, dim), of the patches of all images.
        keys: (N, heads, dim), of the same patches.
        patch_targets: See `PatchRows.compute_log_shares`.
        sizes: Patches of each image.

    Returns:
        (pairs,) fp32, sorted by image and head.
    """
    shares, start = [], 0
    # split instead of slices: the gradient of a slice has the size of the whole, once for each image and head
    for own_queries, own_keys in zip(queries.split_with_sizes(sizes), keys.split_with_sizes(sizes), strict=True):
        end = start + len(own_keys)
        is_here = (patch_targets[:, 0] >= start) & (patch_targets[:, 0] < end)
        of_image = patch_targets[is_here] - torch.tensor([start, start, 0])
        for head, (own_queries_of_head, keys_of_head) in enumerate(
            zip(own_queries.unbind(1), own_keys.unbind(1), strict=True)
        ):
            patch, target, _ = of_image[of_image[:, 2] == head].T
            scores = own_queries_of_head[patch] @ keys_of_head.T / queries.shape[-1] ** 0.5
            shares.append(scores.float().log_softmax(-1).gather(1, target.unsqueeze(1).to(scores.device)).squeeze(1))
        start = end
    return torch.cat(shares)


def log_shares_padded(queries: Tensor, keys: Tensor, patch_targets: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the same as `log_shares_per_image` by one padded product over all images and heads, faster on a GPU."""
    device, heads = queries.device, queries.shape[1]
    ends = torch.tensor(sizes).cumsum(0)
    starts = ends - torch.tensor(sizes)
    image = torch.searchsorted(ends, patch_targets[:, 0].contiguous(), right=True)
    pair = image * heads + patch_targets[:, 2]  # pair of image and head
    order = pair.argsort(stable=True)
    (patch, target, head), pair, image = patch_targets[order].T, pair[order], image[order]
    counts = torch.bincount(pair, minlength=heads * len(sizes))
    column = torch.arange(len(pair)) - (counts.cumsum(0) - counts)[pair]
    padded_queries = queries.new_zeros(len(counts), int(counts.max()), queries.shape[-1])
    padded_queries = padded_queries.index_put((pair, column), queries[patch, head])
    patches = torch.arange(max(sizes))
    rows = (starts[:, None] + patches).clamp(max=int(ends[-1]) - 1)  # (images, patches); padding is masked
    keys_of_image = keys.index_select(0, rows.flatten().to(device)).view(*rows.shape, heads, -1)
    scores = (
        padded_queries @ keys_of_image.permute(0, 2, 3, 1).flatten(0, 1) / queries.shape[-1] ** 0.5
    )  # (pairs, targets, patches)
    own = scores[pair, column].float()
    own = own.masked_fill((patches >= torch.tensor(sizes)[image, None]).to(device), -torch.inf)
    return own.log_softmax(-1).gather(1, (target - starts[image]).unsqueeze(1).to(device)).squeeze(1)


CODE_DIM = 64


class WordCodes(nn.Embedding):
    """Codes of words: the sum of one row per letter and position.

    The information that distinguishes words must therefore be in additive directions of the tokens' hidden states,
    where attention can find it; reading a word with a separate softmax for each letter does not require that.

    Args:
        dim: Width of a code.
        num_letters: Number of letter classes.
        word_length: Number of letters of a word that are used.
        scale: Initial scale of the rows, which determines their initial influence.
    """

    def __init__(self, dim: int, *, num_letters: int, word_length: int, scale: float = 1.0) -> None:
        super().__init__(word_length * (num_letters + 1), dim)  # last class: no letter
        self.weight.data *= scale
        self.num_letters, self.word_length = num_letters, word_length

    def forward(self, words: Tensor) -> Tensor:
        """Return codes: (W, letters) int64, padded with `IGNORED` -> (W, dim)."""
        letters = F.pad(words, (0, self.word_length - words.shape[1]), value=IGNORED)
        classes = torch.where(letters == IGNORED, self.num_letters, letters)
        numbers = classes + torch.arange(self.word_length) * (self.num_letters + 1)
        return super().forward(numbers.to(self.weight.device)).sum(1)


class WordMatcher(nn.Module):
    """Codes of words and keys of tokens, whose product predicts the token on which a word is centred."""

    def __init__(self, hidden: int, *, num_letters: int, word_length: int) -> None:
        super().__init__()
        self.code = WordCodes(CODE_DIM, num_letters=num_letters, word_length=word_length)
        self.key = nn.Linear(hidden, CODE_DIM)

    def forward(self, rows: Tensor, counts: Sequence[int], token_indices: Tensor, words: Tensor) -> Tensor:
        """Return `find_match_loss` for the tokens of all images, (T, hidden)."""
        return find_match_loss(self.code(words) @ self.key(rows).T / CODE_DIM**0.5, counts, token_indices, words)


def find_match_loss(scores: Tensor, counts: Sequence[int], token_indices: Tensor, words: Tensor) -> Tensor:
    """Return the mean of -log of the probability of the tokens on which a word is centred.

    The probabilities are the softmax of the word's scores over the tokens of its image.

    Args:
        scores: (W, T), of each word with the tokens of all images.
        counts: Tokens of each image.
        token_indices: (W,) int64, the token that each word is centred on.
        words: (W, letters) int64, padded with `IGNORED`.

    Returns:
        () fp32.
    """
    image_of = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    is_elsewhere = image_of != image_of[token_indices].unsqueeze(1)
    scores = scores.masked_fill(is_elsewhere.to(scores.device), -torch.inf)
    is_same = (words.unsqueeze(1) == words).all(2) & (image_of[token_indices].unsqueeze(1) == image_of[token_indices])
    word, other = is_same.nonzero(as_tuple=True)
    is_right = torch.zeros(scores.shape, dtype=torch.bool).index_put((word, token_indices[other]), torch.tensor(True))
    shares = scores.float().log_softmax(1).masked_fill(~is_right.to(scores.device), -torch.inf)
    return -shares.logsumexp(1).mean()


POINTER_DIM = 64
CODE_SCALE = 0.25
"""Initial scale, a quarter of `WordMatcher`'s: the keys and queries of attention heads, with which these codes are
compared, also encode other things than words.
"""
NUM_AXES = 2
"""Number of axes of a point; the heads that look for a point come first among the supervised heads."""
MAX_PARTS = 4
"""Maximum number of distinguished parts of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberTokens:
    """Tokens of the coordinates in order, and the width of the normal distribution that is their soft target.

    Attributes:
        ids: (count,) int64.
        width: Standard deviation, in numbers.
    """

    ids: Tensor
    width: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedHeads:
    """Attention heads trained to look at the target, one for each coordinate of a point.

    A single head for both would bring both coordinates to each token, and a later layer would have to separate them.

    Attributes:
        layer: Layer of the heads, from 0; at least one layer follows it.
        heads: Attention heads: one for each coordinate of a point, then those that `AttentionTarget.head` numbers.
        name_query_heads: Heads of the previous layer that are trained to attend to the requested name.
        sharpness: Divisor of the scores in the loss on attention. Above 1, heads concentrate on fewer candidates than
            their probability suggests, so that their result is less of a mixture.
    """

    layer: int
    heads: tuple[int, ...] = (0, 1, 2, 3)
    name_query_heads: tuple[int, ...] = (0, 1)
    sharpness: float = 1.0


class AuxiliaryHeads(nn.Module):
    """Small layers with which the losses read internal representations; trained with the model and not exported.

    Attribute names are keys of training checkpoints. `letter` and `order` read patches: the letter, and the number of
    letters that follow it in its word. `word`, `place`, `aim` and `state` read image tokens: the word centred on one,
    its position, and the click position and state (on or off) of the element that it names. `part` reads the part that
    a request's token belongs to, `key` and `query` find the target's image token, `match` and `codes` compare tokens
    with codes of words.
    """

    def __init__(self, model: K25Model, *, num_letters: int, word_length: int, patch_parts: int = 1) -> None:
        super().__init__()
        hidden, patch = model.config.text.hidden_size, model.config.vision.hidden_size
        self.num_letters, self.word_length = num_letters, word_length
        self.letter = nn.Linear(patch, patch_parts * num_letters)
        self.order = nn.Linear(patch, patch_parts * (word_length + 1))
        self.word = nn.Linear(hidden, word_length * num_letters)
        self.place, self.aim = nn.Linear(hidden, 2 * PLACE_BINS), nn.Linear(hidden, 2 * PLACE_BINS)
        self.state = nn.Linear(hidden, 2)
        self.key, self.query = nn.Linear(hidden, POINTER_DIM), nn.Linear(hidden, POINTER_DIM)
        self.part = nn.Linear(hidden, MAX_PARTS)
        self.match = WordMatcher(hidden, num_letters=num_letters, word_length=word_length)
        key_dim = model.config.text.qk_nope_head_dim
        self.codes = nn.ModuleList(
            WordCodes(key_dim, num_letters=num_letters, word_length=word_length, scale=CODE_SCALE)
            for _ in range(NUM_AXES)
        )


class Losses:
    """Losses of a model."""

    def __init__(
        self,
        model: K25Model,
        heads: AuxiliaryHeads,
        *,
        weights: LossWeights,
        numbers: NumberTokens,
        supervised: SupervisedHeads,
    ) -> None:
        assert model.vision is not None
        self.model, self.heads, self.weights, self.numbers, self.supervised = model, heads, weights, numbers, supervised
        self._patches = PatchRows(model.vision)
        self._inputs = AttentionInputs(model, range(supervised.layer + 2))

    def read_letters(self, images: Sequence[MediaItem]) -> Tensor:
        """Return scores of the letters in each part of each patch of all images: (patches, parts, letters)."""
        return self._read_patches(self.heads.letter, images, self.heads.num_letters)

    def _read_patches(self, head: nn.Linear, images: Sequence[MediaItem], num_classes: int) -> Tensor:
        scores = head(self._patches.find_middle(images))
        return scores.view(len(scores), -1, num_classes)

    def __call__(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> dict[str, Tensor]:
        """Return the losses with a weight, each the mean over its labels; 0 without labels."""
        losses = {}
        for field in fields(LossWeights):
            if getattr(self.weights, field.name):
                losses[field.name] = getattr(self, f"_{field.name}_loss")(activations, batch, targets)
        return losses

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """Return the weighted sum of the losses."""
        return torch.stack([getattr(self.weights, name) * loss for name, loss in losses.items()]).sum()

    def close(self) -> None:
        """Remove the hooks from the model; may be called twice."""
        self._inputs.close()
        self._patches.close()

    def _token_loss(self, activations: Activations, _batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of the next token, for all tokens of the answers."""
        return cross_entropy(self.model.logits(activations.hidden[targets.rows]), targets.tokens)

    def _number_loss(self, activations: Activations, _batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of coordinates against a normal distribution around the right one."""
        if not len(targets.number_rows):
            return activations.hidden.new_zeros(())
        logits = self.model.logits(activations.hidden[targets.number_rows])
        log_probs = logits.log_softmax(-1)[:, self.numbers.ids]  # (labels, count)
        soft_targets = make_soft_targets(targets.numbers, len(self.numbers.ids), self.numbers.width)
        return -(soft_targets.to(log_probs.device) * log_probs).sum(-1).mean()

    def _choice_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of the tokens at which the possible answers to a question differ."""
        return self._next_token_loss(activations, batch, targets.choice_rows)

    def _copy_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of tokens that are copied from the request."""
        return self._next_token_loss(activations, batch, targets.copy_rows)

    def _next_token_loss(self, activations: Activations, batch: TrainingBatch, rows: Tensor) -> Tensor:
        if not len(rows):
            return activations.hidden.new_zeros(())
        return cross_entropy(self.model.logits(activations.hidden[rows]), batch.token_ids[rows + 1])

    def _letter_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of the letter in each part of each patch."""
        if not len(batch.images):
            return activations.hidden.new_zeros(())
        return cross_entropy(self.read_letters(batch.images).flatten(0, 1), targets.letters.classes.flatten())

    def _order_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of the number of letters that follow a letter in its word."""
        if not len(batch.images):
            return activations.hidden.new_zeros(())
        scores = self._read_patches(self.heads.order, batch.images, self.heads.word_length + 1)
        return cross_entropy(scores.flatten(0, 1), targets.letters.orders.flatten())

    def _read_word_attn_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of attention from a word's middle patches to the patches of its letters."""
        return self._patch_attention_loss(activations, batch, targets.letter_targets, self._patches.letter_block)

    def _target_attn_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of attention from a name to the patch where its element is clicked."""
        return self._patch_attention_loss(activations, batch, targets.click_targets, self._patches.target_block)

    def _state_attn_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of attention from a name to the patch that shows if its element is on."""
        return self._patch_attention_loss(activations, batch, targets.state_targets, self._patches.target_block)

    def _patch_attention_loss(
        self, activations: Activations, batch: TrainingBatch, patch_targets: Tensor, block: int
    ) -> Tensor:
        if not len(patch_targets):
            return activations.hidden.new_zeros(())
        return -self._patches.compute_log_shares(batch.images, patch_targets, block=block).mean()

    def _word_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of the letters of the word that is centred on an image token."""
        if not len(targets.word_rows):
            return activations.hidden.new_zeros(())
        return self._read_words(_projected_rows(activations, batch, targets.word_rows), targets.words)

    def _match_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of finding the token on which a word is centred, by the code of the word."""
        if not len(targets.word_rows):
            return activations.hidden.new_zeros(())
        token_indices, counts = _indices_among_images(batch, targets.word_rows), list(map(len, activations.images))
        inputs = [torch.cat(activations.images)]
        if not self.weights.needs_vision_only:
            inputs.append(self._inputs.of_layer[self.supervised.layer].x[batch.image_rows])
        return torch.stack([self.heads.match(rows, counts, token_indices, targets.words) for rows in inputs]).mean()

    def _code_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of codes of words against keys of image tokens and queries of the supervised heads."""
        number, losses = self.supervised.layer, []
        mla, inputs = self.model.layers[number].attention, self._inputs.of_layer[number]
        nope, latent = mla.text.qk_nope_head_dim, mla.text.kv_lora_rank
        if len(targets.word_rows):
            token_indices, counts = _indices_among_images(batch, targets.word_rows), list(map(len, activations.images))
            rows = batch.image_rows.to(inputs.cache.device)
            latents = inputs.cache.view(-1, inputs.cache.shape[-1]).index_select(0, rows)[:, :latent]
            for head, codes in zip(self.supervised.heads, self.heads.codes, strict=False):
                scores = codes(targets.words) @ F.linear(latents, mla.kv_b[head, :nope]).T * mla.scale
                losses.append(find_match_loss(scores, counts, token_indices, targets.words))
        if len(targets.query_word_rows):
            rows = targets.query_word_rows.to(inputs.x.device)
            queries, _ = mla.make_queries(inputs.x.index_select(0, rows), inputs.plan.rotations[rows])
            words, which = _find_distinct(targets.query_words, targets.words)
            for head, codes in zip(self.supervised.heads, self.heads.codes, strict=False):
                scores = queries[:, head] @ codes(words).T * mla.scale
                losses.append(cross_entropy(scores, which[: len(rows)]))
        return torch.stack(losses).mean() if losses else activations.hidden.new_zeros(())

    def _click_point_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of click positions read from names; labels away from the position count as much as others."""
        has_click_point = ~targets.click_points.isnan().any(1)
        means = []
        for is_away in (False, True):
            chosen = has_click_point & (targets.are_away == is_away)
            if not chosen.any():
                continue
            rows = [_projected_rows(activations, batch, targets.word_rows[chosen])]
            if not self.weights.needs_vision_only:
                rows.append(self._inputs.of_layer[self.supervised.layer].x[targets.word_rows[chosen]])
            wanted = targets.click_points[chosen].repeat(len(rows), 1)
            means.append(compare_places(self.heads.aim(torch.cat(rows)), wanted))
        return torch.stack(means).mean() if means else activations.hidden.new_zeros(())

    def _state_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of elements being on: ticked, chosen, open or filled."""
        if not len(targets.word_rows):
            return activations.hidden.new_zeros(())
        return cross_entropy(self.heads.state(_projected_rows(activations, batch, targets.word_rows)), targets.states)

    def _name_loss(self, activations: Activations, _batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of the letters of the requested name, read where it is looked for."""
        of_layer, layer = self._inputs.of_layer, self.supervised.layer
        losses = [
            self._read_words(of_layer[number].x[rows], words)
            for number, rows, words in (
                (layer, targets.query_word_rows, targets.query_words),
                (self._layer_before, targets.name_rows, targets.name_words),
            )
            if len(rows)
        ]
        return torch.stack(losses).mean() if losses else activations.hidden.new_zeros(())

    def _char_position_attn_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of attention in names of requests: each head to the token a fixed distance back."""
        rows, shares = targets.name_rows, []
        for number in range(max(self._layer_before, 1) if len(rows) else 0):
            mla = self.model.layers[number].attention
            scores = compute_scores(mla, self._inputs.of_layer[number], batch, rows)
            for head in range(scores.shape[1]):
                back = number * scores.shape[1] + head + 1
                is_same_name = torch.zeros(len(rows), dtype=torch.bool)
                is_same_name[back:] = rows[back:] - rows[:-back] == back
                if back < self.heads.word_length and is_same_name.any():
                    key_indices = batch.forward.positions[rows[is_same_name]] - back
                    shares.append(compute_log_shares(scores[is_same_name], key_indices, head=head).mean())
        return -torch.stack(shares).mean() if shares else activations.hidden.new_zeros(())

    def _name_query_attn_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of attention to the requested name, one layer before the supervised heads."""
        if not len(targets.query_rows):
            return activations.hidden.new_zeros(())
        mla, inputs = self.model.layers[self._layer_before].attention, self._inputs.of_layer[self._layer_before]
        scores = compute_scores(mla, inputs, batch, targets.query_rows)
        key_indices = targets.query_targets + batch.prefix.stop
        return -torch.stack(
            [compute_log_shares(scores, key_indices, head=head) for head in self.supervised.name_query_heads]
        ).mean()

    def _part_id_loss(self, activations: Activations, _batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of the part of the request that a token belongs to."""
        if not len(targets.part_rows):
            return activations.hidden.new_zeros(())
        rows = self._inputs.of_layer[self._layer_before].x[targets.part_rows]
        return cross_entropy(self.heads.part(rows), targets.request_parts)

    @property
    def _layer_before(self) -> int:
        return max(self.supervised.layer - 1, 0)

    def _read_words(self, rows: Tensor, words: Tensor) -> Tensor:
        """Return the loss of words read from rows: rows (W, hidden), words (W, letters)."""
        scores = self.heads.word(rows).view(len(rows), self.heads.word_length, -1)[:, : words.shape[1]]
        return cross_entropy(scores.flatten(0, 1), words.flatten())

    def _place_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of column and row as shares of the screenshot, against a normal distribution one bin wide."""
        if not activations.images:
            return activations.hidden.new_zeros(())
        rows = [torch.cat(activations.images)]
        if not self.weights.needs_vision_only:
            rows.append(self._inputs.of_layer[self.supervised.layer].x[batch.image_rows])
        places = [find_places(image.grid) for image in batch.images]
        wanted = torch.cat([place / shown for place, shown in zip(places, targets.shown, strict=True)])  # (rows, 2)
        return compare_places(self.heads.place(torch.cat(rows)), wanted.repeat(len(rows), 1))

    def _target_loss(self, activations: Activations, _batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of the click position read behind the supervised heads."""
        is_number = ~targets.attention_numbers.isnan()
        if not is_number.any():
            return activations.hidden.new_zeros(())
        rows = self._inputs.of_layer[self.supervised.layer + 1].x[targets.attention_rows[is_number]]
        shares = targets.attention_numbers[is_number].unsqueeze(1) / len(self.numbers.ids)
        return compare_places(self.heads.aim(rows), shares, axes=targets.attention_heads[is_number].unsqueeze(1))

    def _pointer_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the cross-entropy of the pointed-at image token among all image tokens of the same example."""
        losses, is_number = [], ~targets.attention_numbers.isnan()
        for trunk, branches in zip(batch.trunks, batch.branches, strict=True):
            if not branches:
                continue
            is_here = (targets.attention_rows >= branches[0].start) & (targets.attention_rows < branches[-1].stop)
            is_here &= is_number
            is_image = (batch.image_rows >= trunk.start) & (batch.image_rows < trunk.stop)
            image_rows = batch.image_rows[is_image]
            if not is_here.any() or not len(image_rows):
                continue
            keys = self.heads.key(activations.hidden[image_rows])
            queries = self.heads.query(activations.hidden[targets.attention_rows[is_here]])
            wanted = torch.searchsorted(image_rows, targets.attention_targets[is_here] + trunk.start)
            scores = queries @ keys.T / POINTER_DIM**0.5
            losses.append(F.cross_entropy(scores, wanted.to(scores.device), reduction="none"))
        return torch.cat(losses).mean() if losses else activations.hidden.new_zeros(())

    def _attention_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of attention of the supervised heads to their targets."""
        if not len(targets.attention_rows):
            return activations.hidden.new_zeros(())
        return self._head_attention_loss(batch, targets, self.supervised.layer, self.supervised.heads)

    def _second_attn_loss(self, activations: Activations, batch: TrainingBatch, targets: Targets) -> Tensor:
        """Return the loss of attention to the target of a coordinate, by the same heads one layer later."""
        if targets.attention_numbers.isnan().all():
            return activations.hidden.new_zeros(())
        return self._head_attention_loss(batch, targets, self.supervised.layer + 1, self.supervised.heads[:NUM_AXES])

    def _head_attention_loss(self, batch: TrainingBatch, targets: Targets, layer: int, heads: Sequence[int]) -> Tensor:
        mla, inputs = self.model.layers[layer].attention, self._inputs.of_layer[layer]
        is_number = ~targets.attention_numbers.isnan()
        scores = compute_scores(mla, inputs, batch, targets.attention_rows) / self.supervised.sharpness
        shares = []
        for role, head in enumerate(heads):
            is_own = targets.attention_heads == role
            chosen = is_own | is_number if (is_own & is_number).any() else is_own
            key_indices = torch.where(is_own, targets.attention_targets + batch.prefix.stop, 0)
            if chosen.any():
                shares.append(compute_log_shares(scores[chosen], key_indices[chosen], head=head).mean())
        return -torch.stack(shares).mean()


def cross_entropy(scores: Tensor, classes: Tensor) -> Tensor:
    """Return the mean cross-entropy without `IGNORED` classes; 0 if there are no others. Arguments as in torch."""
    if not bool((classes != IGNORED).any()):
        return scores.new_zeros(())
    return F.cross_entropy(scores.float(), classes.to(scores.device), ignore_index=IGNORED)


def _find_distinct(*words: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of several (W, letters), padded to one width, and the index of each word among them."""
    width = max(some.shape[1] for some in words)
    padded = torch.cat([F.pad(some, (0, width - some.shape[1]), value=IGNORED) for some in words])
    distinct, which = padded.unique(dim=0, return_inverse=True)  # type: ignore[no-untyped-call]
    return distinct, which


def _projected_rows(activations: Activations, batch: TrainingBatch, rows: Tensor) -> Tensor:
    """Return the projector's output for some of the images' tokens."""
    return torch.cat(activations.images)[_indices_among_images(batch, rows)]


def _indices_among_images(batch: TrainingBatch, rows: Tensor) -> Tensor:
    """Return the indices of these rows among the tokens of all images."""
    index_of = torch.full((len(batch.token_ids),), -1)
    index_of[batch.image_rows] = torch.arange(len(batch.image_rows))
    return index_of[rows]
