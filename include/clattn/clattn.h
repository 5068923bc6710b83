/* clattn/clattn.h: the whole library. Read context.h, tensor.h, attention.h and nn.h in that order; probe.h
 * stands alone. */
#ifndef CLATTN_CLATTN_H
#define CLATTN_CLATTN_H

#include <clattn/attention.h>
#include <clattn/context.h>
#include <clattn/nn.h>
#include <clattn/probe.h>
#include <clattn/tensor.h>

#endif
