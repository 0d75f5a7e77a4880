// A Collection as bytes, for calls in which ranks do not know each other's shapes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "fabric/collection.h"

namespace weft {

// The tree with dtypes, shapes and text, but without the tensors' elements.
std::string layout_of(const Collection& value);
// How from_layout() gets each tensor, in order; of shapes that a tensor can have.
using MakeTensor = std::function<Tensor(DataType, Shape)>;
// The tree again, as rank `from` sent it. Throws where the bytes are no layout, or nest too deep;
// lists and maps that nest 64 deep do not.
Collection from_layout(std::string_view layout, Rank from, const MakeTensor& make);

// Everything: a uint8 tensor that holds the layout and the elements.
Tensor object_of(const Collection& value);
// The Collection again, as rank `from` sent it; its tensors are views of the object, and keep it
// alive. Throws as above, and where the tensors do not fill the bytes that there are for them.
Collection from_object(const Tensor& object, Rank from);

}  // namespace weft
