#pragma once

#include <cstdint>
#include <string>

#include <nestor/scheduler/plan.h>
#include <nestor/scheduler/verifier.h>

namespace nestor::launch {

enum class PlanFormat : std::uint8_t { text, json, torch_csv, trace, html };

/// "text, json, ...": those that exist.
std::string plan_formats();
/// The format of that name; for an empty one what the output file's ending says, else text. Throws InputError.
PlanFormat plan_format(const std::string& name, const std::string& output);
/// `width` of text, in characters.
std::string render_plan(const scheduler::Plan& plan, PlanFormat format, const std::string& title,
                        std::int32_t width = 120);

/// Throws WorkError with the first fault and the number of further ones.
void require_sound(const scheduler::Verdict& verdict, scheduler::Transport transport, const std::string& source);
void require_sound(const scheduler::Plan& plan, scheduler::Transport transport, const std::string& source);

/// "99 s", "3.05 ms": seconds in the unit that suits them.
std::string seconds_text(double seconds);

}  // namespace nestor::launch
