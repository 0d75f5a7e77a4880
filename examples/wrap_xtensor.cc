// xtensor's arrays as tensors, and back by adapt.
#include <vector>
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>

#include "examples/arguments.h"
#include "fabric/launch.h"

namespace {

// The array's own memory; the array has to outlive the tensor.
weft::Tensor view(xt::xarray<float>& array) {
  return weft::Tensor::view(array.data(), {array.shape().begin(), array.shape().end()});
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    xt::xarray<float> a = {{1, 2}, {3, static_cast<float>(fabric.global_rank())}};
    fabric.all_reduce_into(view(a), weft::ReduceOp::sum);
    fabric.print("sum in place", view(a));
    const weft::Tensor all = fabric.all_gather(view(a));
    const std::vector<size_t> shape(all.shape().begin(), all.shape().end());
    const auto back =
        xt::adapt(all.data<float>(), static_cast<size_t>(all.count()), xt::no_ownership(), shape);
    fabric.print("dimensions", back.dimension(), "sum", xt::sum(back)());
  });
}
