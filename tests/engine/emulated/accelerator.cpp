// An accelerator of main memory. An operation refuses tensors of both devices; the CPU computes it, on copies.
#include <torch/extension.h>
#include <torch/library.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/resize_native.h>
#include <c10/core/Allocator.h>
#include <cstdlib>

struct Emulated final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    void* p = n ? std::malloc(n) : nullptr;
    return {p, p, &std::free, c10::Device(c10::DeviceType::PrivateUse1, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* dest, const void* src, std::size_t count) const override { default_copy_data(dest, src, count); }
};
static Emulated emulated;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &emulated);

static constexpr c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

at::Tensor empty_mf(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                    std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> mf) {
  return at::detail::empty_generic(size, &emulated, KEYS, c10::dtype_or_default(dtype), mf);
}
at::Tensor empty_str(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &emulated, KEYS, c10::dtype_or_default(dtype));
}
static at::Tensor as_cpu(const at::Tensor& t) {  // the same memory, seen by the CPU
  if (t.is_cpu()) return t;
  return at::from_blob(t.data_ptr(), t.sizes(), t.strides(), at::TensorOptions().dtype(t.dtype()));
}
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool) { as_cpu(dst).copy_(as_cpu(self)); return dst; }
at::Tensor copy_from_resize(const at::Tensor& self, const at::Tensor& dst) {
  at::native::resize_(dst, self.sizes(), std::nullopt); as_cpu(dst).copy_(as_cpu(self)); return dst;
}
at::Scalar scalar(const at::Tensor& t) { return at::_local_scalar_dense(as_cpu(t)); }
at::Tensor& set_source(at::Tensor& r, at::Storage s) {
  int64_t n = s.nbytes() / r.dtype().itemsize(); return at::native::set_storage_cpu_(r, s, 0, {n}, {});
}
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& args = op.schema().arguments();
  auto all = torch::jit::last(stack, args.size());
  bool device = false; 
  auto look = [&](const at::Tensor& t, bool& cpu) { if (!t.defined()) return; if (t.is_cpu()) { if (t.dim() > 0) cpu = true; } else device = true; };
  bool cpu = false;
  for (const auto& v : all) {
    if (v.isTensor()) look(v.toTensor(), cpu);
    else if (v.isTensorList()) for (const auto& t : v.toTensorVector()) look(t, cpu);
    else if (v.isOptionalTensorList()) { bool ignored = false; for (const auto& t : v.toOptionalTensorList()) { std::optional<at::Tensor> o = t; if (o) look(*o, ignored); } }
  }
  TORCH_CHECK(!(cpu && device), "expected all tensors of ", op.schema().name(), " on the same device");
  at::native::cpu_fallback(op, stack);
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_mf);
  m.impl("empty_strided", empty_str);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_resize);
  m.impl("_local_scalar_dense", scalar);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("resize_", at::native::resize_);
  m.impl("set_.source_Storage", set_source);
  m.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}
