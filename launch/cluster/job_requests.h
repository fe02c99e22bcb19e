#pragma once

#include <exception>
#include <map>
#include <string>
#include <vector>

#include <nestor/launch/cluster/job_rows.h>
#include <nestor/launch/training.h>

namespace nestor::launch {

/// Does what was asked, in the training's thread between two steps, and answers; of what a driver asks others may hear:
/// `news` is a line about a change, or empty. Never throws: a failure is an answer too.
struct CarriedOut {
  JobAnswer answer;
  std::string news;
};
CarriedOut carry_out(const JobRequest& request, StandingTraining& training);

/// The failure of a call as an answer.
JobAnswer answer_of(const std::exception_ptr& error);

/// Lanes of every pool's members, as the job's schedule has them.
std::map<std::string, std::vector<std::int32_t>> pools_of(StandingTraining& training);

}  // namespace nestor::launch
