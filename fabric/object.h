// A Collection as bytes, for calls in which ranks do not know each other's shapes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "fabric/collection.h"

namespace weft {

// The tree with dtypes, shapes and text, but without the tensors' elements.
std::string layout_of(const Collection& value);
// The tree again; make(dtype, shape) gives each tensor, in order. Throws where the bytes are no
// layout.
Collection from_layout(std::string_view layout, const std::function<Tensor(DataType, Shape)>& make);

// Everything: a uint8 tensor that holds the layout and the elements.
Tensor object_of(const Collection& value);
// The Collection again; its tensors are views of the object, and keep it alive.
Collection from_object(const Tensor& object);

}  // namespace weft
