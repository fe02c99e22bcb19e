#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <torch/torch.h>

namespace nestor::modules {

/// Pixels above which a picture is refused before anything is allocated for it.
inline constexpr std::int64_t max_image_pixels = std::int64_t{64} << 20;
/// A file above this is not a picture that this reader is for.
inline constexpr std::int64_t max_image_bytes = std::int64_t{512} << 20;

/// How a picture that is not square becomes one.
enum class Fit : std::uint8_t {
  pad,     ///< whole picture, white at the short sides
  crop,    ///< middle square
  stretch  ///< sides scaled on their own
};

/// Reads a PNG or JPEG of any kind (palette, gray, 16 bit, interlaced, CMYK), told by its content, not its name, as
/// uint8 [3, H, W]; transparency is put on white. Throws Error "PATH: WHAT (HINT)" for anything that is not a whole
/// picture, a JPEG that decodes with warnings included. Any thread.
torch::Tensor read_image_bytes(const std::filesystem::path& path);
/// The same of a file's content; `name` stands for the path in errors.
torch::Tensor decode_image(std::string_view content, const std::string& name);
/// The same as float32 in [-1, 1].
torch::Tensor read_image(const std::filesystem::path& path);

/// uint8 [..., H, W] to float32 in [-1, 1], and back (clamped, rounded to nearest).
torch::Tensor to_unit_range(const torch::Tensor& bytes);
torch::Tensor to_bytes(const torch::Tensor& image);

/// uint8 [3, H, W] to uint8 [3, size, size]: antialiased bilinear (each output averages all the input it covers); the
/// input itself where it has that size already.
torch::Tensor resize_image(const torch::Tensor& bytes, std::int64_t size, Fit fit = Fit::pad);

/// A PNG file's content for a picture [3, H, W] or [1, H, W], uint8 or float in [-1, 1].
std::string encode_png(const torch::Tensor& image);
/// Writes it aside and renames, so that a reader never sees half a file.
void write_png(const std::filesystem::path& path, const torch::Tensor& image);
/// Lays equal pictures [N, 3, H, W] in rows of `columns`, with white lines of `gap` pixels between, each enlarged
/// `scale` times: one uint8 [3, H', W'].
torch::Tensor contact_sheet(const torch::Tensor& images, std::int64_t columns, std::int64_t gap = 2,
                            std::int64_t scale = 1);

}  // namespace nestor::modules
