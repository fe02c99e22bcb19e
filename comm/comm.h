#pragma once
/// The public header of comm/: how bytes move between lanes, and control messages between processes.

#include <nestor/comm/buffer.h>
#include <nestor/comm/channel.h>
#include <nestor/comm/collective.h>
#include <nestor/comm/link.h>
#include <nestor/comm/status.h>
