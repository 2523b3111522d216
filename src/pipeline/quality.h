#pragma once
// What: a consumer's quality as the decimators take it.   Owner: nobody.   Threads: any; pure.
#include "simbridge/cloud/decimator.h"
#include "simbridge/wire/messages.h"

namespace simbridge::pipeline {

/// The same for all who get the same bytes: no rate, sampling resolved.
wire::Quality canonical(wire::Quality quality);
cloud::Request request_of(const wire::Quality& quality);

}  // namespace simbridge::pipeline
