#pragma once

#include <memory>

#include "core/backend.hpp"
#include "core/faults.hpp"

namespace tandem {

/// A backend that does what another one does, under the other one's name, except for the faults that are
/// planned for it (core/faults.hpp). Freed memory goes back to the other one whatever has happened; info,
/// kernels and traffic always answer. A launch that is to fail is not handed on; a flipped bit arrives
/// flipped and leaves the source as it was; a delayed send, receive or copy is done when the next call needs
/// its order or waits for it, not before, so that whoever reads too early reads old bytes. Copies that were
/// delayed when the device was lost never happen.
///
/// Thread-safety: as the other backend.
std::unique_ptr<Backend> make_faulty_backend(std::unique_ptr<Backend> inner, std::shared_ptr<Faults> faults);

}  // namespace tandem
