#include "graph/run/routes.hpp"

namespace tandem {
namespace {

/// More homes than anybody uses in turn; beyond that plans are made anew.
constexpr std::size_t kKeptPlans = 64;

}  // namespace

int Routes::place(const PlanLine& line, const std::vector<int>& homes) const {
  const auto layer = static_cast<std::size_t>(
      line.layer != kNoLayer ? line.layer : (line.part == Part::embedding ? 0 : std::ssize(homes) - 1));
  const int home = homes[layer];
  if (has_state(line.part)) return home;
  const Piece piece(line.layer, line.part);
  const bool held = residents_.holds(piece, line.backend);
  const bool moved = home != base_.state_home[layer];
  if ((moved || !held) && residents_.holds(piece, home)) return home;
  if (held) return line.backend;
  for (int b = 0; b < static_cast<int>(base_.backend_names.size()); ++b) {
    if (base_.may_stand_in(b) && residents_.holds(piece, b)) return b;
  }
  return line.backend;
}

std::shared_ptr<const Plan> Routes::make(const std::vector<int>& homes) const {
  std::map<std::pair<int, Part>, int> places;
  for (const PlanLine& line : base_.lines) places[{line.layer, line.part}] = place(line, homes);
  return std::make_shared<const Plan>(rerouted(graph_, geometry_, base_, [&](int layer, Part part) {
    return places.at({layer, part});
  }));
}

std::shared_ptr<const Plan> Routes::of(const std::vector<int>& homes) {
  if (!base_.movable()) return {std::shared_ptr<const Plan>(), &base_};
  if (made_for_ != residents_.changes() || made_.size() >= kKeptPlans) made_.clear();
  made_for_ = residents_.changes();
  std::shared_ptr<const Plan>& plan = made_[homes];
  if (!plan) plan = make(homes);
  return plan;
}

}  // namespace tandem
