#include "graph/model/widen.hpp"

#include <algorithm>
#include <vector>

#include "core/numerics.hpp"

namespace tandem {
namespace {

template <class T>
void widen_all(const ConstTensor& from, std::vector<float>& to) {
  const T* first = from.row<T>(0);
  std::transform(first, first + to.size(), to.begin(), [](T x) { return num::widen(x); });
}

}  // namespace

HostTensor widen_to_f32(const ConstTensor& tensor) {
  auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(tensor.shape.elements()));
  if (tensor.dtype == DType::bf16) {
    widen_all<bf16>(tensor, *values);
  } else if (tensor.dtype == DType::f16) {
    widen_all<f16>(tensor, *values);
  } else {
    widen_all<float>(tensor, *values);
  }
  return {ConstTensor(values->data(), DType::f32, tensor.shape), values};
}

}  // namespace tandem
