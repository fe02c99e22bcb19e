#pragma once

#include <cstdint>
#include <functional>

#include <nestor/launch/report/report.h>
#include <nestor/launch/sampling.h>

namespace nestor::launch {

/// Lets the model read every picture of the set and draw some, and puts `shown` of each into `data`. Nothing where the
/// set has no pictures or the model no means. `stop` is asked between batches; what is there then stays.
void add_samples(ReportData& data, const TrainingSet& set, Sampling& sampling, std::int64_t shown,
                 const std::function<bool()>& stop);

}  // namespace nestor::launch
