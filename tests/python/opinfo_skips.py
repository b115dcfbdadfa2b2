"""What the OpInfo sweep does not compare, and why; and what is known to differ from eager."""

# Name of the OpInfo entry -> reason.
SKIPPED = {
    "sparse.sampled_addmm": "sparse inputs cannot be traced",
    "sparse.mm.reduce": "sparse inputs cannot be traced",
    "to_sparse": "sparse results cannot be traced",
    "resize_": "resizing an input cannot be traced",
} | dict.fromkeys(
    (
        "jiterator_unary",
        "jiterator_binary",
        "jiterator_binary_return_by_ref",
        "jiterator_2inputs_2outputs",
        "jiterator_4inputs_with_extra_args",
    ),
    "a kernel of the user's, which PyTorch starts on pointers",
)

# Results are uninitialised memory.
# Of attention those of the random generator, where nothing is dropped.
NO_VALUES = {
    "torch.ops.aten._flash_attention_forward",
    "torch.ops.aten._efficient_attention_forward",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}

# Results with gaps in memory get dense strides.
ANY_STRIDES = {"empty_strided", "new_empty_strided", "linalg.lstsq", "linalg.lstsq.grad_oriented"}

# Name -> why its in-place form cannot be traced: it changes the shape of its argument, not the elements.
SHAPE_IN_PLACE = dict.fromkeys(
    ("as_strided", "as_strided.partial_views", "squeeze", "squeeze.multiple", "unsqueeze", "transpose", "t",
     "swapaxes", "swapdims", "resize_", "resize_as_", "addbmm", "nn.functional.dropout3d"),
    "in-place forms that change the shape of an input cannot be traced",
)  # fmt: skip

# Start of a failure ("name dtype kind"), up to a space -> why it is known.
KNOWN = {
    "__rmod__ int64": "integers modulo zero, which raises on a CPU and has no value on a GPU",
    "view_as_complex": "a result of another dtype does not share memory with its argument",
    "as_strided.partial_views": "as_strided beyond the memory that the inputs cover cannot be traced",
    "signal.windows.nuttall float32": "numbers near 1 cancel to 0.0004",
}
