#include "graph/placement/auto_place.hpp"

#include <vector>

#include "core/error.hpp"

namespace tandem {
namespace {

/// The first backend of this kind of memory; null when there is none.
const Backend* first_backend(const Context& context, bool host_memory) {
  for (std::size_t i = 0; i < context.size(); ++i) {
    if (context.backend(i).info().host_memory == host_memory) return &context.backend(i);
  }
  return nullptr;
}

std::string why_no_device(const Context& context) {
  std::vector<std::string> reasons;
  for (const AbsentBackend& absent : context.absent()) {
    reasons.push_back(fmt::format("{}: {}", absent.name, absent.reason));
  }
  return reasons.empty() ? "no device" : fmt::format("no device ({})", fmt::join(reasons, "; "));
}

const Backend& host_of(const Context& context) {
  const Backend* host = first_backend(context, true);
  if (host == nullptr) fail(ErrorCode::unsupported, "there is no backend of host memory");
  return *host;
}

Rules on_the_host(const std::string& host, const std::string& why) {
  return {host, "auto: " + why, fmt::format("auto: everything runs on {}: {}", host, why)};
}

std::string what_fits(int count, int layers) {
  if (count > layers) return fmt::format("all {} layers, embedding and head fit", layers);
  return fmt::format("the last {} of {} layers {}", count, layers, count == 1 ? "fits" : "fit");
}

}  // namespace

SessionPlan auto_place(const Context& context, int layers,
                       const std::function<SessionPlan(const Rules&)>& plan) {
  const Backend* device = first_backend(context, false);
  const std::string& host_name = host_of(context).info().name;
  if (device == nullptr) return plan(on_the_host(host_name, why_no_device(context)));
  const std::string& device_name = device->info().name;
  const std::string room = human_bytes(device->available_bytes());
  for (int count = layers + 1; count > 0; --count) {
    SessionPlan planned = plan({last_layers_on(device_name, host_name, count, layers),
                                fmt::format("auto: {} in {}", what_fits(count, layers), room), ""});
    if (planned.fits()) return planned;
  }
  return plan(on_the_host(host_name, fmt::format("no layer fits in {} of {}", room, device_name)));
}

std::string gpu_layers_rules(const Context& context, std::int64_t count, int layers) {
  const std::string& host = host_of(context).info().name;
  if (count == 0) return host;
  const Backend* device = first_backend(context, false);
  if (device == nullptr) fail(ErrorCode::unsupported, "--gpu-layers {}: {}", count, why_no_device(context));
  return last_layers_on(device->info().name, host, count, layers);
}

}  // namespace tandem
