/* weir/weir.h: includes all headers of core. Strategies and devices have their own headers. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <weir/adaptor.h>
#include <weir/arena.h>
#include <weir/base.h>
#include <weir/budget.h>
#include <weir/capture.h>
#include <weir/device.h>
#include <weir/observer.h>
#include <weir/pin.h>
#include <weir/pool.h>
#include <weir/reserve.h>
#include <weir/shared_limit.h>
#include <weir/sleep.h>
#include <weir/strategy.h>
#include <weir/trace.h>

#endif
