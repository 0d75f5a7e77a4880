// Data-parallel training of a network of two layers in plain C++. Every rank has the same weights
// and its part of every batch; GradientSync makes gradients means over ranks while the first
// layer's are still computed. The loss curve is that of one rank, to rounding.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <sstream>
#include <vector>

#include "examples/arguments.h"
#include "fabric/gradient_sync.h"
#include "fabric/launch.h"

namespace {

using weft::Tensor;

constexpr int kInputs = 4, kHidden = 16, kBatch = 48, kSteps = 200;
constexpr double kRate = 0.05;

// A stream of numbers in [-1, 1): the same on every machine.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) / (uint64_t{1} << 52) - 1;
  }

 private:
  uint64_t state_;
};

// A parameter with its gradient.
struct Parameter {
  Tensor value, gradient;

  Parameter(weft::Shape shape, double scale, Numbers& numbers)
      : value(Tensor::zeros(weft::DataType::float64, shape)),
        gradient(Tensor::zeros(weft::DataType::float64, shape)) {
    for (double& v : value.span<double>()) v = scale * numbers.next();
  }
  void step() const {
    const auto v = value.span<double>(), g = gradient.span<double>();
    for (size_t i = 0; i < v.size(); ++i) {
      v[i] -= kRate * g[i];
      g[i] = 0;
    }
  }
};

struct Sample {
  double x[kInputs];
  double y;
};

// What is to be learnt: y = x0 * x1 + |x2| - x3 / 2.
std::vector<Sample> make_batch(int step) {
  Numbers numbers(static_cast<uint64_t>(step) + 1);
  std::vector<Sample> batch(kBatch);
  for (Sample& sample : batch) {
    for (double& x : sample.x) x = numbers.next();
    sample.y = sample.x[0] * sample.x[1] + std::abs(sample.x[2]) - sample.x[3] / 2;
  }
  return batch;
}

class Network {
 public:
  explicit Network(Numbers& numbers)
      : w1({kHidden, kInputs}, 0.8, numbers),
        b1({kHidden}, 0.1, numbers),
        w2({kHidden}, 0.4, numbers),
        b2({1}, 0.1, numbers) {}

  std::vector<Tensor> gradients() const {
    return {w1.gradient, b1.gradient, w2.gradient, b2.gradient};
  }

  // Adds up the squared errors of the samples; keeps what backward needs.
  double forward(const Sample* samples, int count) {
    hidden_.assign(static_cast<size_t>(count) * kHidden, 0);
    error_.assign(static_cast<size_t>(count), 0);
    double loss = 0;
    for (int s = 0; s < count; ++s) {
      double out = b2.value.span<double>()[0];
      for (int h = 0; h < kHidden; ++h) {
        double sum = b1.value.span<double>()[h];
        for (int i = 0; i < kInputs; ++i)
          sum += w1.value.span<double>()[h * kInputs + i] * samples[s].x[i];
        hidden_[s * kHidden + h] = std::max(sum, 0.0);
        out += w2.value.span<double>()[h] * hidden_[s * kHidden + h];
      }
      error_[s] = out - samples[s].y;
      loss += error_[s] * error_[s];
    }
    return loss;
  }

  // The second layer's gradients are ready first, and on their way while the first's are computed.
  void backward(const Sample* samples, int count, weft::GradientSync& sync) {
    const auto w1g = w1.gradient.span<double>(), b1g = b1.gradient.span<double>();
    const auto w2g = w2.gradient.span<double>(), b2g = b2.gradient.span<double>();
    for (int s = 0; s < count; ++s) {
      const double slope = 2 * error_[s] / count;
      b2g[0] += slope;
      for (int h = 0; h < kHidden; ++h) w2g[h] += slope * hidden_[s * kHidden + h];
    }
    sync.ready(3);
    sync.ready(2);
    for (int s = 0; s < count; ++s)
      for (int h = 0; h < kHidden; ++h) {
        if (hidden_[s * kHidden + h] <= 0) continue;
        const double slope = 2 * error_[s] / count * w2.value.span<double>()[h];
        b1g[h] += slope;
        for (int i = 0; i < kInputs; ++i) w1g[h * kInputs + i] += slope * samples[s].x[i];
      }
    sync.ready(1);
    sync.ready(0);
  }

  void step() const {
    for (const Parameter* p : {&w1, &b1, &w2, &b2}) p->step();
  }

  Parameter w1, b1, w2, b2;

 private:
  std::vector<double> hidden_, error_;
};

}  // namespace

int main(int argc, char** argv) {
  const int ranks = ranks_from(argc, argv, 2);
  return weft::launch({.devices = ranks}, [](weft::Fabric& fabric) {
    if (kBatch % fabric.world_size() != 0)
      throw weft::Error(
          weft::invalid_argument("the batch does not divide by the number of ranks."));
    // Rank 0's weights are everybody's.
    Numbers numbers(static_cast<uint64_t>(fabric.rank()) + 42);
    Network network(numbers);
    for (const Parameter* p : {&network.w1, &network.b1, &network.w2, &network.b2})
      fabric.broadcast_into(p->value);

    weft::GradientSync sync(fabric, network.gradients(), {.bucket_bytes = 256});
    const int count = kBatch / fabric.world_size();
    for (int step = 0; step <= kSteps; ++step) {
      const std::vector<Sample> batch = make_batch(step);
      const Sample* const mine = batch.data() + fabric.rank() * count;
      const double loss = network.forward(mine, count);
      sync.backward([&] { network.backward(mine, count, sync); });
      network.step();
      if (step % 25 != 0) continue;
      const double mean = fabric.all_reduce(loss, weft::ReduceOp::sum) / kBatch;
      std::ostringstream text;
      text << std::setprecision(10) << mean;
      fabric.print("step", step, "loss", text.str());
    }
  });
}
