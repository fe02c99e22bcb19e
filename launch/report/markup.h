#pragma once

#include <string>
#include <string_view>

namespace nestor::launch {

/// `text` with what HTML would read as markup escaped.
std::string escape_html(std::string_view text);
/// A `data:` URI of those bytes.
std::string data_uri(std::string_view bytes, std::string_view media_type);
/// A short figure: "0.0123", "1.23", "12.3", "1234", "1.2e-07".
std::string short_number(double value);

}  // namespace nestor::launch
