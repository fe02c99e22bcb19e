#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nestor/launch/cluster/job_rows.h>
#include <nestor/launch/cluster/rows.h>
#include <nestor/scheduler/plan.h>
#include <nestor/scheduler/timeline.h>

namespace nestor::launch {

/// What a waiting driver does next.
enum class Wait : std::uint8_t { on, pause, leave };
/// Told what a job says while one waits for it: at every step or line, and a few times a second without any.
using Listener = std::function<Wait(const JobOutput&)>;

/// A job that a driver steers: this process's own, or a cluster's. Several may steer one job of a cluster: what one
/// changes all see. One thread at a time.
///
/// Throws InputError for what cannot be asked for, WorkError where the job failed or has ended, actors::Error where the
/// cluster does not answer. What is changed holds from the next step on.
class DriverTarget {
 public:
  virtual ~DriverTarget() = default;

  /// Takes `steps` further steps, then pauses; where others asked for some too, after theirs. Returns when they are
  /// done, when somebody paused the job, and when `listener` leaves (the steps are taken all the same).
  virtual JobRow step(std::int64_t steps = 1, const Listener& listener = {}) = 0;
  /// To the end. A cluster's job ends there; an embedded one stays, so that it may be looked at and extended.
  virtual JobRow run(const Listener& listener = {}) = 0;
  /// After the step under way.
  virtual JobRow pause(const Listener& listener = {}) = 0;

  virtual ClusterRow status() = 0;
  virtual std::vector<ActorRow> actors() = 0;
  virtual std::vector<HostRow> nodes() = 0;
  /// What the job has said since this driver heard of it last, without waiting: other drivers' changes too.
  virtual JobOutput news() = 0;
  /// The steps after step `after`.
  virtual std::vector<StepRow> history(std::int64_t after = 0) = 0;

  virtual void policy(const std::string& name);
  /// `size` members, member i on lane i mod stages; or one on each of these lanes.
  virtual void resize(const std::string& pool, std::int32_t size);
  virtual void resize(const std::string& pool, const std::vector<std::int32_t>& lanes);
  /// "run.steps=200": a key of the config's `run` section that may change while it trains.
  virtual void set(const std::string& assignment);
  /// Of the last step; nothing before one, or without lanes (policy serial).
  virtual std::optional<scheduler::Plan> plan();
  /// Takes the next step and measures it.
  virtual scheduler::Timeline trace();
  /// Saves. Returns the checkpoint's folder, on the disk of the job's process.
  virtual std::filesystem::path checkpoint();
  /// Ends a cluster's job: it finishes its step and saves. False for an embedded one, which ends with its driver.
  virtual bool stop() = 0;
  /// Calls a method of a user's actor: arguments as a JSON array, the result as JSON. Waits for it.
  virtual std::string call(const std::string& actor, const std::string& method, const std::string& arguments) = 0;

 protected:
  /// The answer to a request, made between two steps.
  virtual JobAnswer ask(const JobRequest& request) = 0;
};

}  // namespace nestor::launch
