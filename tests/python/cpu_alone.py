"""Tests that are about the CPU, and are skipped where BRAZE_TEST_DEVICE puts tensors elsewhere: why, and which.

A name is that of a test's function, or of a case: `programs/kinds_numpy_array` stands in brackets in a test's name.
"""

BY_REASON = {
    "what is out of range is an assertion of a GPU's, after which the process cannot use it": [
        "programs/matter_embedding_out_of_range",
        "programs/matter_index_put_with_duplicates",
        "programs/matter_index_of_other_dtypes",
        "programs/parts_embedding_attributes",
        "random/after_an_error",
        "random/after_an_error_of_embedding",
        "random/after_an_error_of_gather",
        "random/after_an_error_twice",
        "test_errors_are_eagers",
    ],
    "programs of a GPU tell of an index out of range at a later call": [
        "programs/replaced_row_by_number",
        "programs/replaced_row_stored",
    ],
    "NumPy knows the CPU's memory alone": [
        "containers/numpy_array",
        "memory/overlap_by_numpy",
        "memory/shared_by_numpy",
        "memory/shared_by_numpy_in_part",
        "memory/shared_by_numpy_with_the_smaller_first",
        "memory/shared_neither_holds_the_other",
        "memory/shared_of_two_types",
        "memory/shared_with_a_global",
        "programs/guises_numpy_array_replaced",
        "programs/guises_numpy_writes_into_argument",
        "programs/holders_array_and_tensor_are_one_memory",
        "programs/kinds_numpy_array",
        "programs/memories_array_interface_shared",
        "programs/memories_frombuffer_shared",
        "programs/memories_numpy_functions_on_tensor",
        "programs/memories_numpy_of_argument_written",
        "programs/memories_numpy_result_is_shared",
        "programs/memories_numpy_written_between",
        "tensors/numpy",
        "tensors/numpy_instead",
        "values/float_tensor_of_argument",
        "values/float_tensor_of_global",
        "values/numpy_of_argument",
        "values/numpy_of_global",
    ],
    "PyTorch wants these numbers on the CPU": [
        "values/packed_lengths_of_argument",
        "values/packed_lengths_of_global",
        "values/packed_network_of_argument",
        "values/packed_network_of_global",
        "values/tensor_split_method_of_argument",
        "values/tensor_split_method_of_global",
        "values/tensor_split_of_argument",
        "values/tensor_split_of_global",
        "values/tensor_split_sections_of_argument",
        "values/tensor_split_sections_of_global",
    ],
    "kernels of the CPU, its random numbers, its autocast or its threads are what changes": [
        "copies/device_context_ends",
        "kernels/among_others",
        "kernels/autograd",
        "kernels/binary",
        "kernels/composite",
        "kernels/custom_operator_given_a_kernel",
        "kernels/in_functional",
        "kernels/in_module",
        "kernels/inside_of_composite",
        "kernels/kernel_of_operator_replaced",
        "kernels/operator_defined_anew",
        "kernels/overload",
        "kernels/reduction",
        "kernels/taken_back",
        "kernels/unary",
        "kernels/unary_by_method",
        "kernels/under_autocast",
        "kernels/no_longer_under_autocast",
        "programs/guises_autocast_inside",
        "programs/guises_autocast_of_argument_dtype",
        "programs/guises_random_state_put_back",
        "programs/kinds_generator_arg",
        "programs/surroundings_num_threads_between",
        "programs/turns_autocast_around",
        "programs/turns_autocast_dtype",
        "programs/turns_autocast_toggled",
        "programs/turns_default_device_changed",
        "programs/turns_rng_state_set",
        "test_autocast_makes_them_numbers",
    ],
    "the kernel of eager that takes lists reads some of them while it writes others": [
        "memory/overlap_foreach",
        "memory/overlap_foreach_views",
        "programs/memories_foreach_lists",
    ],
}


def why_skipped(name: str) -> str | None:
    """Of a test, by its name with what stands in brackets. None: it runs anywhere."""
    function, _, case = name.removesuffix("]").partition("[")
    names = {function, case, case.rpartition("-")[0]}
    return next((reason for reason, members in BY_REASON.items() if names & set(members)), None)
