#pragma once

#include <span>
#include <vector>

#include <nestor/actors/lane_link.h>
#include <nestor/actors/messages.h>
#include <nestor/modules/train/optimizer.h>

namespace nestor::actors {

/// Replaces the gradients of `parameters` on every one of `lanes` by their sum over them, added in the order of the
/// lanes, so that all get the same bits. An absent gradient counts as zeros; absent everywhere it stays absent. Every
/// member calls it with the same lanes, index and parameters, also one that had no microbatch. Gradients travel by
/// reference: nobody may write to its own in place until a later exchange between the same lanes has completed (the
/// norm's does). Throws Error or Aborted.
void reduce_gradients(const LaneLink& link, std::span<const std::int32_t> lanes, std::int32_t index,
                      const modules::Optimizer::Parameters& parameters, OpTime& time);

/// Sums `partial` over `lanes` in their order: the same bits everywhere. Throws Error or Aborted.
double sum_over_lanes(const LaneLink& link, std::span<const std::int32_t> lanes, double partial, OpTime& time);

}  // namespace nestor::actors
