#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nestor/launch/driver/session.h>
#include <nestor/launch/interrupts.h>

namespace nestor::launch {

/// Lines of a file descriptor, without a prompt. A signal ends them.
std::unique_ptr<LineSource> script_lines(int descriptor, Interrupts& interrupts);

/// What may stand where the words end, the last one begun; and whether that is a file's name.
struct Completion {
  std::function<std::vector<std::string>(const std::string& line)> names;
  std::function<bool(const std::string& line)> files;
};

/// Lines that a person types on this process's terminal, with editing, completion, and a history kept in `history`
/// (mode 0600; left out where it cannot be written). Ctrl-C drops the line, Ctrl-D and SIGTERM end them. One at a time
/// in a process: the library behind it (GNU readline) is one.
std::unique_ptr<LineSource> terminal_lines(std::string prompt, std::filesystem::path history, Completion completion,
                                           Interrupts& interrupts);

/// $NESTOR_HOME/driver_history, or that of ~/.nestor; its folder is made.
std::filesystem::path driver_history_file();

}  // namespace nestor::launch
