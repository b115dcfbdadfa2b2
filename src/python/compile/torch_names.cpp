// python/compile/torch_names.cpp
#include "python/compile/torch_names.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <pybind11/pybind11.h>

#include "python/guards/storage_access.h"
#include "python/imported.h"
#include "python/interpreter/watch/look_ups.h"

namespace braze::python {

namespace py = pybind11;

namespace {

using Names = std::unordered_set<std::string_view>;

// They make a tensor another view of its memory.
const Names& view_moving_names() {
  static const Names names = {"as_strided_", "squeeze_",   "swapaxes_", "swapdims_",
                              "t_",          "transpose_", "unsqueeze_"};
  return names;
}

// They are operators by name, but touch the tensor object itself, or what no guard covers.
const Names& refused_names() {
  static const Names names = {"set_",        "resize_",      "resize_as_",    "data",           "set_data",
                              "is_leaf",     "output_nr",    "_version",      "requires_grad_", "detach_",
                              "retain_grad", "retains_grad", "backward",      "_backward",      "is_pinned",
                              "pin_memory",  "to_dense",     "record_stream", "rename_",        "names",
                              "align_as",    "from_file",    "storage_offset"};
  return names;
}

// Operators that PyTorch keeps to itself by name, and that compute on their arguments alone.
const Names& private_operators() {
  static const Names names = {"_unique2",
                              "_pack_padded_sequence",
                              "_pad_packed_sequence",
                              "_transformer_encoder_layer_fwd",
                              "_native_multi_head_attention",
                              "_assert_async",
                              "_amp_foreach_non_finite_check_and_unscale_",
                              "_amp_update_scale_",
                              "_standard_gamma",
                              "_sample_dirichlet",
                              "_dirichlet_grad",
                              "_is_all_true",
                              "_is_any_true",
                              "_softmax",
                              "_log_softmax",
                              "_masked_softmax",
                              "_unsafe_view",
                              "_reshape_alias",
                              "_to_copy",
                              "_conj",
                              "_addmm_activation",
                              "_adaptive_avg_pool2d",
                              "_adaptive_avg_pool3d",
                              "_cdist_forward",
                              "_embedding_bag",
                              "_euclidean_dist",
                              "_convert_indices_from_coo_to_csr",
                              "_convert_indices_from_csr_to_coo",
                              "_trilinear",
                              "_fft_r2c",
                              "_fft_c2r",
                              "_fft_c2c",
                              "_linalg_det",
                              "_linalg_slogdet",
                              "_linalg_solve_ex",
                              "_linalg_svd",
                              "_linalg_eigh",
                              "_lu_with_info",
                              "_prelu_kernel",
                              "_native_batch_norm_legit_no_training",
                              "_scaled_dot_product_attention_math",
                              "_scaled_dot_product_flash_attention_for_cpu",
                              "_fused_adam_",
                              "_fused_adamw_",
                              "_fused_sgd_",
                              "_fused_adagrad_",
                              "_upsample_bilinear2d_aa",
                              "_upsample_bicubic2d_aa",
                              "_upsample_nearest_exact1d",
                              "_upsample_nearest_exact2d",
                              "_int_mm",
                              "_weight_int8pack_mm",
                              "_weight_int4pack_mm",
                              "_weight_int4pack_mm_for_cpu",
                              "_convert_weight_to_int4pack",
                              "_convert_weight_to_int4pack_for_cpu",
                              "_dyn_quant_matmul_4bit",
                              "_dyn_quant_pack_4bit_weight",
                              "_scaled_mm",
                              "_grouped_mm",
                              "_scaled_grouped_mm",
                              "_add_relu",
                              "_add_relu_",
                              "_cast_Byte",
                              "_cast_Char",
                              "_cast_Double",
                              "_cast_Float",
                              "_cast_Half",
                              "_cast_Int",
                              "_cast_Long",
                              "_cast_Short",
                              "_chunk_cat",
                              "_conj_physical",
                              "_convolution",
                              "_convolution_mode",
                              "_fused_rms_norm",
                              "_log_softmax_backward_data",
                              "_softmax_backward_data",
                              "_native_batch_norm_legit",
                              "_neg_view",
                              "_pad_circular",
                              "_pad_enum",
                              "_safe_softmax",
                              "_stack",
                              "_standard_gamma_grad",
                              "_unsafe_index",
                              "_unsafe_index_put",
                              "_unsafe_masked_index",
                              "_unsafe_masked_index_put_accumulate",
                              "_upsample_lanczos2d_aa",
                              "_upsample_nearest_exact3d",
                              "_weight_norm_interface",
                              "_index_put_impl_",
                              "_fake_quantize_learnable_per_tensor_affine",
                              "_fake_quantize_learnable_per_channel_affine",
                              "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
                              "_embedding_bag_forward_only",
                              "_fused_moving_avg_obs_fq_helper",
                              "_adaptive_avg_pool2d_backward",
                              "_adaptive_avg_pool3d_backward",
                              "_batch_norm_with_update",
                              "_batch_norm_with_update_functional",
                              "_cdist_backward",
                              "_cholesky_solve_helper",
                              "_conj_copy",
                              "_cudnn_rnn",
                              "_dim_arange",
                              "_efficient_attention_backward",
                              "_efficient_attention_forward",
                              "_embedding_bag_dense_backward",
                              "_embedding_bag_per_sample_weights_backward",
                              "_flash_attention_backward",
                              "_flash_attention_forward",
                              "_fused_dropout",
                              "_fused_moving_avg_obs_fq_helper_functional",
                              "_fused_rms_norm_backward",
                              "_linalg_eigvals",
                              "_masked_scale",
                              "_masked_softmax_backward",
                              "_native_batch_norm_legit_functional",
                              "_neg_view_copy",
                              "_new_zeros_with_same_feature_meta",
                              "_pdist_backward",
                              "_pdist_forward",
                              "_prelu_kernel_backward",
                              "_reshape_alias_copy",
                              "_reshape_copy",
                              "_scaled_dot_product_cudnn_attention",
                              "_scaled_dot_product_cudnn_attention_backward",
                              "_scaled_dot_product_efficient_attention",
                              "_scaled_dot_product_efficient_attention_backward",
                              "_scaled_dot_product_flash_attention",
                              "_scaled_dot_product_flash_attention_backward",
                              "_scaled_dot_product_flash_attention_for_cpu_backward",
                              "_segment_reduce_backward",
                              "_thnn_fused_gru_cell",
                              "_thnn_fused_gru_cell_backward",
                              "_thnn_fused_lstm_cell",
                              "_thnn_fused_lstm_cell_backward",
                              "_upsample_bicubic2d_aa_backward",
                              "_upsample_bilinear2d_aa_backward",
                              "_upsample_lanczos2d_aa_backward",
                              "_upsample_nearest_exact1d_backward",
                              "_upsample_nearest_exact2d_backward",
                              "_upsample_nearest_exact3d_backward",
                              "_weight_int4pack_mm_with_scales_and_zeros",
                              "_weight_norm",
                              "_weight_norm_interface_backward"};
  return names;
}

// What of a tensor without gradients says how it came to be, and says nothing then.
const Names& attributes_of_gradients() {
  static const Names names = {"is_leaf", "grad_fn", "retains_grad"};
  return names;
}

// Methods and functions that are no operators of their own.
const Names& further_names() {
  static const Names names = {"size",
                              "dim",
                              "ndimension",
                              "stride",
                              "numel",
                              "nelement",
                              "is_contiguous",
                              "element_size",
                              "type_as",
                              "float",
                              "half",
                              "double",
                              "cfloat",
                              "cdouble",
                              "int",
                              "long",
                              "bool",
                              "bfloat16",
                              "short",
                              "byte",
                              "char",
                              "cpu",
                              "to",
                              "cuda",
                              "tensor",
                              "as_tensor",
                              "asarray",
                              "new",
                              "new_tensor",
                              "is_complex",
                              "is_floating_point",
                              "is_signed",
                              "type",
                              "get_device",
                              "view",
                              "promote_types",
                              "can_cast",
                              "spmm",  // mm, where nothing is sparse
                              "dsmm",
                              "is_tensor",
                              "_weight_norm"};
  return names;
}

const Names& operator_methods() {
  static const Names names = {"__add__",      "__radd__",   "__iadd__",    "__sub__", "__mul__",  "__rmul__",
                              "__imul__",     "__matmul__", "__and__",     "__or__",  "__xor__",  "__invert__",
                              "__neg__",      "__abs__",    "__eq__",      "__ne__",  "__lt__",   "__le__",
                              "__gt__",       "__ge__",     "__truediv__", "__div__", "__isub__", "__idiv__",
                              "__itruediv__", "__mod__",    "__getitem__"};
  return names;
}

// Attributes that the tensor guards pin down, and those that dispatch as an operator.
const Names& readable_attributes() {
  static const Names names = {
      "shape",        "dtype",         "device",  "ndim",   "layout",  "is_sparse", "is_sparse_csr",
      "is_quantized", "is_nested",     "is_cuda", "is_cpu", "is_meta", "is_mps",    "is_xpu",
      "is_mkldnn",    "requires_grad", "T",       "mT",     "H",       "mH",        "real",
      "imag",         "itemsize",      "nbytes",  "data"};
  return names;
}

// Functions of torch._C that read nothing but their arguments and torch's guarded modes. The modes that they set
// are put back by whoever runs the capture.
constexpr const char* module_functions[] = {"_has_torch_function",
                                            "_has_torch_function_unary",
                                            "_has_torch_function_variadic",
                                            "_get_tracing_state",
                                            "_len_torch_dispatch_stack",
                                            "is_grad_enabled",
                                            "_set_grad_enabled",
                                            "is_inference_mode_enabled",
                                            "is_autocast_enabled",
                                            "is_autocast_cache_enabled",
                                            "get_autocast_dtype",
                                            "set_autocast_enabled",
                                            "set_autocast_dtype",
                                            "set_autocast_cache_enabled",
                                            "autocast_increment_nesting",
                                            "autocast_decrement_nesting",
                                            "clear_autocast_cache",
                                            "_is_autocast_available",
                                            "_get_privateuse1_backend_name",
                                            "_is_torch_function_mode_enabled",
                                            "_len_torch_function_stack",
                                            "_get_function_stack_at",
                                            "_pop_torch_function_stack",
                                            "_push_on_torch_function_stack",
                                            "_log_api_usage_once",
                                            "_get_cudnn_enabled",
                                            "get_default_dtype",
                                            "_is_tracing",
                                            "_get_deterministic_algorithms",
                                            "_get_deterministic_algorithms_warn_only",
                                            "_get_deterministic_fill_uninitialized_memory",
                                            "_get_cudnn_deterministic",
                                            "_get_cudnn_benchmark",
                                            "_set_deterministic_algorithms",
                                            "_set_cudnn_enabled",
                                            "_set_cudnn_deterministic",
                                            "_set_cudnn_benchmark",
                                            "_get_warnAlways",
                                            "_set_warnAlways",
                                            "_get_mkldnn_enabled",
                                            "_get_flash_sdp_enabled",
                                            "_get_mem_efficient_sdp_enabled",
                                            "_get_math_sdp_enabled",
                                            "_get_cudnn_sdp_enabled",
                                            "_get_overrideable_sdp_enabled",
                                            "_set_sdp_use_flash",
                                            "_set_sdp_use_mem_efficient",
                                            "_set_sdp_use_math",
                                            "_set_sdp_use_cudnn",
                                            "_set_sdp_use_overrideable",
                                            "_get_sdp_priority_order",
                                            "_set_sdp_priority_order",
                                            "_set_default_dtype",
                                            "_is_torch_function_enabled",
                                            "_is_torch_function_all_disabled",
                                            "_is_fwd_grad_enabled",
                                            "_is_multithreading_enabled",
                                            "is_anomaly_enabled",
                                            "is_autocast_cpu_enabled",
                                            "_is_any_autocast_enabled",
                                            "get_num_threads",
                                            "_are_functorch_transforms_active"};

std::unordered_set<std::string> operator_names() {
  std::unordered_set<std::string> names;
  constexpr std::string_view prefix = "aten::";
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames())
    if (op.name.starts_with(prefix)) names.insert(op.name.substr(prefix.size()));
  return names;
}

}  // namespace

TorchNames::TorchNames() : operators(operator_names()) {
  const py::module_ torch = imported("torch");
  const py::object c = torch.attr("_C");
  const py::object sources[] = {c.attr("_VariableFunctions"), c.attr("_nn"), c.attr("_special"), c.attr("_linalg"),
                                c.attr("_fft")};
  for (const py::object& source : sources)
    for (py::handle entry : py::reinterpret_steal<py::list>(PyObject_Dir(source.ptr()))) {
      const auto name = entry.cast<std::string>();
      if (is_understood(name)) functions.insert(py::object(source.attr(entry)).ptr());
    }
  for (const char* name : module_functions)
    if (py::hasattr(c, name)) functions.insert(py::object(c.attr(name)).ptr());
  // Gives back what it is given, but for tensors of functorch's transforms that have ended; the others say whether
  // a tensor is one of a transform's, which tracers are where the tensors that they stand for are, or make one.
  for (const char* name : {"unwrap_if_dead", "is_batchedtensor", "is_gradtrackingtensor",
                           "is_functorch_wrapped_tensor", "_add_batch_dim", "_remove_batch_dim"})
    functions.insert(py::object(c.attr("_functorch").attr(name)).ptr());
  functions.insert(py::object(c.attr("_nn").attr("_parse_to")).ptr());
  // True in every captured run.
  const py::module_ own = imported("braze._C");
  for (const char* name : {"is_compiling",        "is_known",
                           "attention_backend",   "to_number",
                           "trace_mark",          "only_computed_since",
                           "wrote_nothing_since", "late_reads",
                           "function_tangents",   "join_function",
                           "note_inner_function", "begin_function_forward",
                           "set_in_backward",     "function_depth",
                           "inner_gradients",     "mark_gradient",
                           "set_inference_mode",  "leave_inference_mode",
                           "set_torch_functions", "history_mark",
                           "is_same_within"})
    functions.insert(py::object(own.attr(name)).ptr());
  ends_graph = py::object(own.attr("end_graph")).ptr();
  counts_effects = py::object(own.attr("effects_so_far")).ptr();
  shares_array = py::object(own.attr("tensor_over")).ptr();
  for (py::handle entry : py::reinterpret_steal<py::list>(PyObject_Dir(torch.attr("Tensor").ptr()))) {
    auto name = entry.cast<std::string>();
    if (is_understood(name) || operator_methods().contains(name)) methods.insert(std::move(name));
  }
  tensor_type = py::object(torch.attr("Tensor")).ptr();
  gives_other_class = py::object(torch.attr("Tensor").attr("_make_subclass")).release().ptr();  // For good.
  parameter_type = py::object(torch.attr("nn").attr("Parameter")).ptr();
  hook_handle_type = py::object(imported("torch.utils.hooks").attr("RemovableHandle")).ptr();
  const py::module_ ops = imported("torch._ops");
  operator_type = py::object(ops.attr("OpOverloadPacket")).ptr();
  overload_type = py::object(ops.attr("OpOverload")).ptr();
  script_type = py::object(c.attr("ScriptFunction")).ptr();
  for (const char* name : {"OpOverloadPacket", "_OpNamespace", "_Ops"})
    lazy_types.insert(py::object(ops.attr(name)).ptr());
  reads_autocast_cache = py::object(c.attr("is_autocast_cache_enabled")).ptr();
  for (const char* name : {"is_grad_enabled", "_set_grad_enabled", "is_inference_mode_enabled"})
    of_grad_mode.insert(py::object(c.attr(name)).ptr());
  asks_for_function_mode = py::object(c.attr("_is_torch_function_mode_enabled")).ptr();
  using Use = interpreter::ModeWorld::Use;
  constexpr std::pair<const char*, Use> mode_stack[] = {
      {"_is_torch_function_mode_enabled", Use::counts}, {"_len_torch_function_stack", Use::counts},
      {"_get_function_stack_at", Use::gives},           {"_pop_torch_function_stack", Use::gives},
      {"_push_on_torch_function_stack", Use::pushes},
  };
  for (const auto& [name, use] : mode_stack) of_mode_stack.emplace(py::object(c.attr(name)).ptr(), use);
  for (const char* name : {"_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic"})
    ask_for_torch_function.insert(py::object(c.attr(name)).ptr());
  for (const char* name : {"DisableTorchFunction", "DisableTorchFunctionSubclass"})
    unseen_by_handlers.insert(py::object(c.attr(name)).ptr());
  for (const auto& [module, name] : {std::pair{"torch.overrides", "handle_torch_function"},
                                     std::pair{"torch.utils._python_dispatch", "return_and_correct_aliasing"}})
    unseen_by_handlers.insert(py::object(py::module_::import(module).attr(name)).release().ptr());  // For good.
  sets_autocast_cache = py::object(c.attr("set_autocast_cache_enabled")).ptr();
  compiler_dict = PyModule_GetDict(imported("torch.compiler").ptr());
  compiling_flag = PyUnicode_InternFromString("_is_compiling_flag");
  symbolic_int = py::object(torch.attr("SymInt")).ptr();
  symbolic_float = py::object(torch.attr("SymFloat")).ptr();
}

bool TorchNames::is_understood(const std::string& name) const {
  if (refused_names().contains(name) || view_moving_names().contains(name)) return false;
  return further_names().contains(name) ||
         (operators.contains(name) &&
          (!name.starts_with("_") || name.starts_with("_foreach_") || private_operators().contains(name)));
}

bool TorchNames::moves_view(std::string_view method) const {
  return view_moving_names().contains(method);
}

bool TorchNames::is_readable(std::string_view attribute) const {
  return readable_attributes().contains(attribute);
}

bool TorchNames::is_of_history(std::string_view attribute) const {
  return attributes_of_gradients().contains(attribute);
}

const TorchNames& torch_names() {
  static const TorchNames names;  // Never changes: torch's own modules.
  return names;
}

std::string_view text_of_operator(PyObject* object) {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  const bool is_packet = type == torch_names().operator_type;
  if (!is_packet && type != torch_names().overload_type) return "";
  PyObject* dict = guards::instance_dict(object);
  PyObject* text = dict ? PyDict_GetItemString(dict, is_packet ? "_qualified_op_name" : "_name") : nullptr;
  return text && PyUnicode_Check(text) ? interpreter::text_of(text) : "";
}

std::string operator_name(PyObject* object) {
  const std::string_view text = text_of_operator(object);
  return std::string(text.substr(0, text.find('.')));
}

}  // namespace braze::python
