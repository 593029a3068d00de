"""The ATen operators a graph program may call: functional, deterministic, no side effect.

An operator that writes an argument, draws random numbers, reads a file or calls back into Python is
not here, and `graph_program` refuses whatever is not here.
"""

from __future__ import annotations

_NAMES = """
abs acos acosh add addcdiv addcmul addmm alias all amax amin any aminmax arange argmax
argmin argsort asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d baddbmm batch_norm bitwise_and
bitwise_not bitwise_or bitwise_xor bmm broadcast_to cat ceil celu clamp clamp_max clamp_min
clone col2im constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d
conv_transpose2d conv_transpose3d convolution copysign cos cosh cummax cummin cumprod cumsum
detach diag diagonal div dot einsum elu embedding eq erf erfc exp exp2 expand expand_as
expm1 eye fill flatten flip floor floor_divide fmod full full_like gather ge gelu glu
group_norm gt hardsigmoid hardswish hardtanh im2col index index_select instance_norm
isfinite isinf isnan layer_norm le leaky_relu lerp linalg_vector_norm linear log log10 log1p
log2 log_sigmoid log_softmax logcumsumexp logical_and logical_not logical_or logical_xor
logsumexp lt
masked_fill matmul max max_pool1d max_pool2d max_pool3d maximum mean min minimum mish mm
mse_loss mul mv narrow native_batch_norm native_group_norm native_layer_norm ne neg
new_full new_ones new_zeros nll_loss_nd norm ones ones_like outer pad permute pow prod
reciprocal relu relu6 remainder repeat reshape rms_norm roll round rsqrt rsub scalar_tensor
scaled_dot_product_attention scatter_add select selu sigmoid sign silu sin sinh slice
smooth_l1_loss softmax softplus sort split split_with_sizes sqrt square squeeze stack std
sub sum t tan tanh threshold tile to topk transpose tril triu true_divide trunc type_as
unbind unflatten unfold unsqueeze upsample_bilinear2d upsample_nearest2d var var_mean view
view_as where zeros zeros_like broadcast_tensors cross_entropy_loss huber_loss kl_div
triplet_margin_loss _log_softmax _native_batch_norm_legit_functional _softmax _to_copy
_unsafe_view _safe_softmax
"""

ALLOWED = frozenset(_NAMES.split())
