#pragma once

/// The public header of modules/: what a model is and how it is trained. See modules/README.md.

#include <nestor/modules/batch.h>
#include <nestor/modules/error.h>
#include <nestor/modules/model.h>
#include <nestor/modules/module.h>
#include <nestor/modules/outline.h>
#include <nestor/modules/part.h>
#include <nestor/modules/reference_step.h>
#include <nestor/modules/seed.h>
#include <nestor/modules/threads.h>
#include <nestor/modules/train/checkpoint.h>
#include <nestor/modules/train/counts.h>
#include <nestor/modules/train/loss.h>
#include <nestor/modules/train/optimizer.h>

namespace nestor {
using modules::Context;
using modules::Dataset;
using modules::Loss;
using modules::Microbatch;
using modules::Model;
using modules::Module;
using modules::ModuleFactory;
using modules::Sample;
using modules::Seed;
using modules::Split;
using modules::Tensor;
using modules::Tensors;
using modules::token_cross_entropy;
using modules::Value;
}  // namespace nestor
