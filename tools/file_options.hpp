#pragma once

#include <CLI/CLI.hpp>

namespace tandem::tools {

/// What an option's value means: said where the option is declared, shown by --help, and all that
/// require_separate_files needs to know of a command.
enum class FileUse {
  input,              ///< a file or directory that is read
  output,             ///< a file that is written; "-" is standard output
  output_directory,   ///< a directory that is made
  input_then_output,  ///< several: the last is a directory that is made, those before it are read
};

/// Declares it; returns the option.
CLI::Option* uses_file(CLI::Option* option, FileUse use);

/// Looks at all files of the command that was parsed, before it runs. Throws Error(invalid_argument) when an
/// output is an input, a file in an input directory, another output or where standard output goes, by
/// whatever path, symbolic link or hard link; as NewFile::require_possible when an output cannot be written.
void require_separate_files(const CLI::App& program);

}  // namespace tandem::tools
