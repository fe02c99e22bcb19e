#pragma once
/// The public header of comm/: how bytes move between lanes.

#include <nestor/comm/buffer.h>
#include <nestor/comm/channel.h>
#include <nestor/comm/collective.h>
#include <nestor/comm/status.h>
