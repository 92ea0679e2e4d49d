#include "tools/bench/round_trip.hpp"

#include <algorithm>
#include <cstring>

#include "graph/model/qwen35.hpp"

namespace tandem::tools {
namespace {

constexpr int kLayer = 0;
constexpr int kBackend = 0;  ///< the state's only one

void convert(std::span<const float> from, DType real, void* to) {
  if (real == DType::f64) {
    std::copy(from.begin(), from.end(), static_cast<double*>(to));
  } else {
    std::memcpy(to, from.data(), from.size_bytes());
  }
}

}  // namespace

/// The tensors of one token's step.
class RoundTrip::TokenBindings final : public Bindings {
 public:
  TokenBindings(const RoundTrip& run, std::int64_t token, const StateStep& step) : run_(run), token_(token) {
    conv_ = {{0, 1}, step.conv_in(kLayer, kBackend), step.conv_out(kLayer, kBackend)};
    delta_ = {{0, 1}, step.recurrent_in(kLayer, kBackend), step.recurrent_out(kLayer, kBackend)};
  }

  ConstTensor read(ValueId value) const override { return tensor(value); }
  Tensor write(ValueId value) const override { return tensor(value); }
  ConstTensor weight(WeightId weight) const override {
    return run_.weights_[static_cast<std::size_t>(weight)].view;
  }
  std::span<const ConvSegment> conv_segments(int) const override { return {&conv_, 1}; }
  std::span<const DeltaSegment> delta_segments(int) const override { return {&delta_, 1}; }
  std::span<const KvSegment> kv_segments(int) const override { return {}; }
  ConstTensor rope_cos() const override { return {}; }
  ConstTensor rope_sin() const override { return {}; }

 private:
  Tensor tensor(ValueId id) const {
    void* data = id == run_.x_     ? run_.input_row(token_)
                 : id == run_.out_ ? run_.output_row(token_)
                                   : run_.values_[static_cast<std::size_t>(id)].data();
    return {data, run_.real(), Shape{1, run_.model_->graph().value(id).width}};
  }

  const RoundTrip& run_;
  std::int64_t token_;
  ConvSegment conv_;
  DeltaSegment delta_;
};

RoundTrip::RoundTrip(Backend& backend, std::shared_ptr<const Model> model, std::span<const float> inputs)
    : backend_(backend),
      model_(std::move(model)),
      tokens_(std::ssize(inputs) / model_->config().hidden_size),
      row_bytes_(static_cast<std::size_t>(model_->config().hidden_size) * size_of(real())),
      x_(model_->graph().find("x")),
      out_(model_->graph().find("out", kLayer)) {
  for (std::size_t i = 0; i < model_->graph().weights().size(); ++i) {
    weights_.push_back(model_->weight(static_cast<WeightId>(i)).load_on(backend_));
  }
  allocate_values();
  convert(inputs, real(), inputs_.data());
  // Two versions: each step reads the one and writes the other.
  state_ = std::make_unique<StateManager>(state_geometry(model_->config(), real()),
                                          std::vector<Backend*>{&backend_},
                                          std::vector<LayerCapacity>{{1, 0}}, StateBudget{1, tokens_, 1});
  sequence_ = state_->open({Residency::uniform, {kBackend}});
}

RoundTrip::~RoundTrip() = default;

void RoundTrip::allocate_values() {
  const std::size_t all_rows = static_cast<std::size_t>(tokens_) * row_bytes_;
  inputs_ = backend_.allocate_staging(all_rows);
  outputs_ = backend_.allocate_staging(all_rows);
  const std::vector<Value>& values = model_->graph().values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    const std::size_t one_row = static_cast<std::size_t>(values[i].width) * size_of(real());
    values_.push_back(backend_.allocate(id == x_ || id == out_ ? all_rows : one_row));
  }
}

std::byte* RoundTrip::input_row(std::int64_t token) const {
  return static_cast<std::byte*>(values_[static_cast<std::size_t>(x_)].data()) +
         static_cast<std::size_t>(token) * row_bytes_;
}

std::byte* RoundTrip::output_row(std::int64_t token) const {
  return static_cast<std::byte*>(values_[static_cast<std::size_t>(out_)].data()) +
         static_cast<std::size_t>(token) * row_bytes_;
}

/// The commit exchanges indices of slots and waits for nothing: the backend does things in their order.
void RoundTrip::submit_token(std::int64_t token) {
  StateStep step = state_->begin(sequence_, 1);
  const TokenBindings bindings(*this, token, step);
  for (const Node& node : model_->graph().nodes()) backend_.submit(node.bind(bindings));
  step.commit();
}

RoundTrip::Outcome RoundTrip::measure(const std::function<void()>& work) {
  state_->reset(sequence_);
  std::memset(outputs_.data(), 0, outputs_.bytes());
  backend_.synchronize();
  const std::unique_ptr<Event> start = backend_.record();
  work();
  const std::unique_ptr<Event> end = backend_.record();
  end->wait();
  Outcome outcome;
  outcome.milliseconds = end->ms_since(*start);
  const auto* first = static_cast<const std::byte*>(outputs_.data());
  outcome.outputs.assign(first, first + outputs_.bytes());
  outcome.state = export_layer(*state_, sequence_, kLayer);
  return outcome;
}

RoundTrip::Outcome RoundTrip::host_facing() {
  const auto row = [&](const Buffer& staging, std::int64_t token) {
    return static_cast<std::byte*>(staging.data()) + static_cast<std::size_t>(token) * row_bytes_;
  };
  return measure([&] {
    for (std::int64_t token = 0; token < tokens_; ++token) {
      backend_.send(input_row(token), row(inputs_, token), row_bytes_);
      submit_token(token);
      backend_.receive(row(outputs_, token), output_row(token), row_bytes_);
      backend_.record()->wait();
    }
  });
}

RoundTrip::Outcome RoundTrip::device_internal() {
  return measure([&] {
    backend_.send(input_row(0), inputs_.data(), inputs_.bytes());
    for (std::int64_t token = 0; token < tokens_; ++token) submit_token(token);
    backend_.receive(outputs_.data(), output_row(0), outputs_.bytes());
  });
}

}  // namespace tandem::tools
