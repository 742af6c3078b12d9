"""Operator families: what kind of work an aten operator is, and what kind dominates a task."""

import re
from collections.abc import Sequence
from functools import cache

from musadata.records import OperatorFamily

_F = OperatorFamily
_FAMILIES: dict[OperatorFamily, str] = {
    _F.CONVOLUTION: "convolution convolution_overrideable _convolution mkldnn_convolution conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d _slow_conv2d_forward slow_conv3d_forward "
    "slow_conv_transpose2d slow_conv_transpose3d conv_depthwise3d im2col col2im",
    _F.MATMUL: "mm bmm addmm baddbmm addbmm addmv mv dot vdot ger outer linear matmul einsum bilinear "
    "_trilinear _addmm_activation mkldnn_linear tensordot kron linalg_matrix_power _cdist_forward "
    "_euclidean_dist",
    _F.ATTENTION: "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_attention_math "
    "scaled_dot_product_attention _scaled_dot_product_cudnn_attention _native_multi_head_attention "
    "_transformer_encoder_layer_fwd",
    _F.RECURRENT: "lstm gru rnn_tanh rnn_relu mkldnn_rnn_layer _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell",
    _F.SOFTMAX: "_softmax _log_softmax softmax log_softmax _safe_softmax _masked_softmax",
    _F.NORMALIZATION: "native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit "
    "_native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_impl_index "
    "cudnn_batch_norm _fused_rms_norm rms_norm instance_norm layer_norm renorm",
    _F.POOLING: "max_pool2d_with_indices max_pool3d_with_indices max_pool1d max_pool2d max_pool3d avg_pool1d "
    "avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d "
    "adaptive_avg_pool2d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d "
    "fractional_max_pool3d max_unpool2d max_unpool3d upsample_nearest1d upsample_nearest2d "
    "upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_bicubic2d "
    "upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa grid_sampler_2d "
    "grid_sampler_3d",
    _F.REDUCTION: "sum mean amax amin max min argmax argmin prod any all aminmax var std var_mean std_mean norm "
    "linalg_vector_norm logsumexp nansum median nanmedian mode count_nonzero cumsum cumprod cummax "
    "cummin logcumsumexp dist topk sort kthvalue argsort trace",
    _F.INDEXING: "index index_select gather scatter scatter_add scatter_reduce index_add index_put index_copy "
    "index_fill embedding _embedding_bag _embedding_bag_forward_only masked_select masked_scatter "
    "take take_along_dim nonzero bucketize searchsorted one_hot bincount roll flip unfold tril triu "
    "tril_indices triu_indices",
    _F.LAYOUT: "view _unsafe_view reshape _reshape_alias t transpose permute expand slice select split "
    "split_with_sizes unsafe_split unsafe_chunk chunk cat stack unsqueeze squeeze clone contiguous "
    "copy _to_copy alias detach as_strided unbind constant_pad_nd reflection_pad1d reflection_pad2d "
    "reflection_pad3d replication_pad1d replication_pad2d replication_pad3d pixel_shuffle "
    "pixel_unshuffle channel_shuffle repeat repeat_interleave diagonal diag_embed narrow flatten "
    "swapaxes movedim empty empty_like new_empty zeros zeros_like new_zeros ones ones_like new_ones "
    "full full_like new_full arange linspace eye scalar_tensor lift_fresh lift_fresh_copy fill zero "
    "meshgrid rot90",
}
_LOSS = re.compile(r"loss|_ctc|cross_entropy|kl_div")
_HEAVIEST_FIRST = (
    _F.RECURRENT,
    _F.ATTENTION,
    _F.CONVOLUTION,
    _F.MATMUL,
    _F.LOSS,
    _F.SOFTMAX,
    _F.NORMALIZATION,
    _F.POOLING,
    _F.REDUCTION,
    _F.INDEXING,
    _F.BROADCAST,
    _F.ELEMENTWISE,
    _F.LAYOUT,
)


@cache
def _by_name() -> dict[str, OperatorFamily]:
    return {name: family for family, names in _FAMILIES.items() for name in names.split()}


@cache
def family_of(operator: str) -> OperatorFamily:
    """The family of one dispatched operator, such as "aten.mul.Tensor". What is not listed acts on elements."""
    parts = operator.split(".")
    if parts[0] != "aten":
        return _F.OTHER
    name = parts[1] if parts[1].endswith("__") else parts[1].rstrip("_")
    if _LOSS.search(name):
        return _F.LOSS
    return _by_name().get(name, _F.ELEMENTWISE)


def operator_family(
    operators: Sequence[str], broadcasts: bool = False, recognized: Sequence[OperatorFamily] = ()
) -> OperatorFamily:
    """The family of the work that dominates a task: the heaviest that occurs.

    A softmax between two matrix products is attention, however it is spelled. `broadcasts` says that operands of
    different shapes met, which makes elementwise work broadcast work; `recognized` is what `recognize` saw in the
    graph as a whole.
    """
    present = [family_of(operator) for operator in operators]
    if _is_attention(present):
        return _F.ATTENTION
    found = {*present, *recognized}
    if broadcasts and _F.ELEMENTWISE in found:
        found.add(_F.BROADCAST)
    return next((family for family in _HEAVIEST_FIRST if family in found), _F.OTHER)


def _is_attention(families: Sequence[OperatorFamily]) -> bool:
    if _F.SOFTMAX not in families:
        return False
    first = families.index(_F.SOFTMAX)
    last = len(families) - 1 - families[::-1].index(_F.SOFTMAX)
    return _F.MATMUL in families[:first] and _F.MATMUL in families[last:]


def level(operators: Sequence[str]) -> int:
    """KernelBench's scale, by how many operators compute something: 1 one, 2 up to eight, 3 more."""
    computing = sum(family_of(operator) is not _F.LAYOUT for operator in operators)
    return 1 if computing <= 1 else 2 if computing <= 8 else 3
