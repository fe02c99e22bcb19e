#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nestor/launch/driver/target.h>

namespace nestor {

/// Attaches this program to the job of a running cluster, as `nestor driver` does: the one of that name, or the only
/// one that runs. Others may be attached at the same time. Destroying the object leaves the job as it is, running or
/// paused.
///
///     auto job = nestor::attach("lab");
///     job->step(10);
///     job->resize("vision", 1);
///     job->step(10);
///
/// Throws launch::InputError where there is no such cluster, launch::WorkError where it does not answer.
std::unique_ptr<launch::DriverTarget> attach(const std::string& cluster = "");

/// Starts a job on that cluster, paused before its first step, and attaches to it. `config_file` and `overrides` as of
/// `nestor train CONFIG --set KEY=VALUE`. Throws launch::WorkError too where it trains already.
std::unique_ptr<launch::DriverTarget> start_attached(const std::string& cluster, const std::string& config_file,
                                                     const std::vector<std::string>& overrides = {});

}  // namespace nestor
