#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace nestor::launch {

/// The whole file; "-" is standard input. Throws InputError on a missing, unreadable or over-long file.
std::string read_text(const std::filesystem::path& path, std::size_t limit = std::size_t{1} << 30);

/// Writes beside `path` and renames, so that a reader sees the old file or the new one, never half of one. Throws
/// InputError where the folder cannot be written to, WorkError where the disk is full.
void write_aside(const std::filesystem::path& path, std::string_view content);

/// Throws what `write_aside` would throw for want of a folder or of the right to write there, before the work is done.
void check_writable(const std::filesystem::path& path);

/// `content` to `output`, or to standard output where `output` is empty or "-".
void write_output(const std::filesystem::path& output, std::string_view content);

/// `text` with U+FFFD in the place of control characters and of bytes that are no UTF-8: what a model spells byte by
/// byte may hold both.
std::string readable(std::string_view text);

/// First line of `text` with control characters replaced: what fits into a one-line error.
std::string one_line(std::string_view text, std::size_t limit = 400);

}  // namespace nestor::launch
