#pragma once

#include <string_view>

namespace nestor::launch {

/// The page's style sheet and script. Colours are custom properties, redefined for dark; --series-N are told apart with
/// the common kinds of colour blindness.
extern const std::string_view kReportStyle;
extern const std::string_view kReportScript;

}  // namespace nestor::launch
