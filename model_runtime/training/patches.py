"""What the vision tower's last forward pass made of each patch, for losses on letters and on what patches look at.

The tower takes images by their size and in several passes; here patches lie as the images do.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model_runtime.media import MediaItem
from model_runtime.ops.reference.norm import rotate
from model_runtime.vision.block import Packing
from model_runtime.vision.tower import VisionTower, make_groups


class PatchRows:
    """Keeps, from each forward pass, the rows behind the middle block and what attention in two later ones was given.

    Args:
        tower: On one rank.

    Attributes:
        gathering: The block whose heads bring a word's letters together, the one behind the middle.
        reaching: The one whose heads look from a word to what it names, the last.
    """

    def __init__(self, tower: VisionTower) -> None:
        self.tower = tower
        self._middle: list[Tensor] = []
        self._inputs: dict[int, list[tuple[Tensor, Packing]]] = {}
        blocks = tower.blocks
        middle, self.reaching = (len(blocks) - 1) // 2, len(blocks) - 1
        self.gathering = min(middle + 1, self.reaching)
        self._hooks = (
            tower.register_forward_pre_hook(lambda module, inputs: self._forget()),
            blocks[middle].register_forward_hook(lambda module, inputs, output: self._keep(output)),
            *(
                blocks[number].attention.register_forward_pre_hook(self._keep_inputs(number))
                for number in {self.gathering, self.reaching}
            ),
        )

    def _forget(self) -> None:
        self._middle.clear()
        self._inputs.clear()

    def _keep_inputs(self, number: int) -> Callable[[nn.Module, tuple[Tensor, Packing]], None]:
        return lambda module, inputs: self._inputs.setdefault(number, []).append(inputs)

    def _keep(self, rows: Tensor) -> None:
        self._middle.append(rows if rows.requires_grad else rows.clone())  # without gradients, blocks write over them

    def find_middle(self, images: Sequence[MediaItem]) -> Tensor:
        """Rows behind the middle block: (patches of all images, width)."""
        return self._sort(images, self._middle)

    def find_log_shares(self, images: Sequence[MediaItem], looks: Tensor, *, block: int) -> Tensor:
        """Logarithms of the shares of its attention that a head of a block gives from a patch to another one.

        Args:
            images: Of the last forward pass.
            block: `gathering` or `reaching`.
            looks: (G, 3) int64: the patch that looks and the one that is looked at, both counted over all images end
                to end and of the same image, and the head.

        Returns:
            (G,) fp32, at most 0, in another order.
        """
        attention, inputs = self.tower.blocks[block].attention, self._inputs[block]
        heads, dim = attention.num_heads, attention.head_dim
        x = self._sort(images, [x for x, _ in inputs])
        rotations = self._sort(images, [packing.rotations for _, packing in inputs])
        rows = 2 * heads * dim  # queries and keys
        both = F.linear(x, attention.qkv_weight[:rows], attention.qkv_bias[:rows]).view(len(x), 2 * heads, dim)
        queries, keys = rotate(both, rotations).chunk(2, dim=1)
        find = share_each if x.device.type == "cpu" else share_together
        return find(queries, keys, looks, [image.num_patches for image in images])

    def _sort(self, images: Sequence[MediaItem], passes: Sequence[Tensor]) -> Tensor:
        """Rows of passes, which are the tower's, in the order of the images."""
        sizes = [image.num_patches for image in images]
        rows: dict[int, Tensor] = {}
        for group, output in zip(make_groups(sizes, self.tower.max_patches_per_pass), passes, strict=True):
            rows |= zip(group, output.split_with_sizes([sizes[index] for index in group]), strict=True)
        return torch.cat([rows[index] for index in range(len(sizes))])

    def close(self) -> None:
        """Keep nothing more; may be called twice."""
        for hook in self._hooks:
            hook.remove()
        self._forget()


def share_each(queries: Tensor, keys: Tensor, looks: Tensor, sizes: Sequence[int]) -> Tensor:
    """Logarithms of shares of attention, image by image and head by head: on a processor nothing is computed in vain.

    Args:
        queries: (N, heads, dim), of the patches of all images end to end.
        keys: The same.
        looks: See `PatchRows.find_log_shares`.
        sizes: Patches of each image.

    Returns:
        (G,) fp32, sorted by image and head.
    """
    shares, start = [], 0
    # split, not sliced: the gradient of a slice is as large as the whole, once for each image and head
    for own_queries, own_keys in zip(queries.split_with_sizes(sizes), keys.split_with_sizes(sizes), strict=True):
        end = start + len(own_keys)
        of_image = looks[(looks[:, 0] >= start) & (looks[:, 0] < end)] - torch.tensor([start, start, 0])
        for head, (asked, seen) in enumerate(zip(own_queries.unbind(1), own_keys.unbind(1), strict=True)):
            place, at, _ = of_image[of_image[:, 2] == head].T
            scores = asked[place] @ seen.T / queries.shape[-1] ** 0.5
            shares.append(scores.float().log_softmax(-1).gather(1, at.unsqueeze(1).to(scores.device)).squeeze(1))
        start = end
    return torch.cat(shares)


def share_together(queries: Tensor, keys: Tensor, looks: Tensor, sizes: Sequence[int]) -> Tensor:
    """The same in one product for all images and heads, padded: on a GPU few calls are worth more than few products."""
    device, heads = queries.device, queries.shape[1]
    ends = torch.tensor(sizes).cumsum(0)
    starts = ends - torch.tensor(sizes)
    image = torch.searchsorted(ends, looks[:, 0].contiguous(), right=True)
    pair = image * heads + looks[:, 2]  # an image and a head
    order = pair.argsort(stable=True)
    (place, at, head), pair, image = looks[order].T, pair[order], image[order]
    counts = torch.bincount(pair, minlength=heads * len(sizes))
    column = torch.arange(len(pair)) - (counts.cumsum(0) - counts)[pair]
    asked = queries.new_zeros(len(counts), int(counts.max()), queries.shape[-1])
    asked = asked.index_put((pair, column), queries[place, head])
    patches = torch.arange(max(sizes))
    rows = (starts[:, None] + patches).clamp(max=int(ends[-1]) - 1)  # (images, patches); what is too much is masked
    seen = keys.index_select(0, rows.flatten().to(device)).view(*rows.shape, heads, -1)
    scores = asked @ seen.permute(0, 2, 3, 1).flatten(0, 1) / queries.shape[-1] ** 0.5  # (pairs, looks, patches)
    own = scores[pair, column].float()
    own = own.masked_fill((patches >= torch.tensor(sizes)[image, None]).to(device), -torch.inf)
    return own.log_softmax(-1).gather(1, (at - starts[image]).unsqueeze(1).to(device)).squeeze(1)
