#include "tools/oracle/layer_run.hpp"

#include "graph/model/qwen35.hpp"

namespace tandem::tools {

LayerRun::LayerRun(const Context& context, const std::string& backend, std::shared_ptr<const Model> model,
                   std::int64_t max_tokens)
    : model_(std::move(model)), layer_(model_->graph().nodes().front().layer) {
  const int index = backend_named(backend, context.names(), context.absent());
  Backend& where = context.backend(static_cast<std::size_t>(index));
  const StateGeometry geometry = state_geometry(model_->config(), where.info().real);
  const std::vector<std::string> name{where.info().name};
  const std::int64_t layers = geometry.count(LayerKind::recurrent);
  plan_ = make_plan(model_->graph(), weight_sizes(*model_), geometry,
                    Placement::parse(name[0], name, static_cast<int>(layers)), name, max_tokens);
  state_ = std::make_unique<StateManager>(geometry, std::vector<Backend*>{&where},
                                          std::vector<LayerCapacity>{{layers, 0}},
                                          StateBudget{1, std::int64_t{1} << 30, 1});
  residents_ = std::make_unique<Residents>(*model_, std::vector<Backend*>{&where});
  residents_->load(plan_);
  executor_ = std::make_unique<Executor>(*model_, plan_, std::vector<Backend*>{&where}, *residents_,
                                         StepLimits{max_tokens, max_tokens}, 0);
  sequence_ = state_->open({Residency::uniform, std::vector<int>(static_cast<std::size_t>(layers), 0)});
}

std::vector<float> LayerRun::step(std::span<const float> x, const Probe& probe) {
  const std::int64_t hidden = model_->config().hidden_size,
                     tokens = static_cast<std::int64_t>(x.size()) / hidden;
  StateStep step = state_->begin(sequence_, tokens);
  const SequenceRows sequences[] = {{&step, {0, tokens}}};
  const InputData inputs[] = {
      {model_->graph().find("x"), ConstTensor(x.data(), DType::f32, Shape{tokens, hidden})}};
  executor_->run({tokens, tokens, sequences, inputs}, probe);
  std::vector<float> out = executor_->read(model_->graph().find("out", layer_), tokens);
  step.commit();
  return out;
}

}  // namespace tandem::tools
