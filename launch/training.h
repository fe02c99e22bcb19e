#pragma once

#include <nestor/launch/config.h>
#include <nestor/launch/run.h>
#include <nestor/launch/run_folder.h>

namespace nestor::launch {

/// Trains as the config says, in this process, and keeps the run folder (docs/formats.md). Ctrl-C and SIGTERM finish
/// the step, save and return; a second one aborts the step. Returns the exit code: 0 when all steps are done, 130 or
/// 143 where a signal ended it. Throws InputError, modules::Error and scheduler::Error for bad input, before anything
/// is written; actors::Error and WorkError for failed work, after saving what can be saved.
int train(TrainConfig config, const ModelBuilder& build, RunFolder::Open how);

}  // namespace nestor::launch
