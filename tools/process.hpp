#pragma once

namespace tandem::tools {

/// What holds for the whole program from its first line on: closed standard streams are taken, so that no
/// file gets their numbers; a file that is too large for a limit is an error of its write; a mapped file that
/// shrinks, and an exception that nobody can catch, end the program with one line and without leftovers; and
/// mapped files are watched.
void prepare_process();

}  // namespace tandem::tools
