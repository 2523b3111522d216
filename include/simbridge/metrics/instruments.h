#pragma once
// What: each module's instruments as one struct of references, resolved at start.
// Owner: app makes one of each beside the Registry and passes it by reference.   Threads: as the
// instruments.
#include "simbridge/metrics/metrics.h"

namespace simbridge::metrics {

struct FrameMetrics {
  explicit FrameMetrics(Registry& r)
      : budget_bytes(r.gauge(kFrameBudget)),
        charged_bytes(r.gauge(kFrameCharged)),
        committed_bytes(r.gauge(kFrameCommitted)),
        pinned_bytes(r.gauge(kFramePinned)),
        warm_reserve_bytes(r.gauge(kFrameWarmReserve)),
        ingest_bytes(r.gauge(kFrameIngest)),
        lent_bytes(r.gauge(kFrameLent)),
        rings(r.gauge(kFrameRings)),
        huge_pages(r.gauge(kFrameHugePages)),
        evicted_frames(r.counters<EvictReason>(kFrameEvictedFrames)),
        evicted_bytes(r.counters<EvictReason>(kFrameEvictedBytes)),
        reservations_failed(r.counter(kFrameReserveFailed)) {}

  Gauge& budget_bytes;
  Gauge& charged_bytes;
  Gauge& committed_bytes;
  Gauge& pinned_bytes;
  Gauge& warm_reserve_bytes;
  Gauge& ingest_bytes;
  Gauge& lent_bytes;
  Gauge& rings;
  Gauge& huge_pages;
  CounterFamily<EvictReason> evicted_frames;
  CounterFamily<EvictReason> evicted_bytes;
  Counter& reservations_failed;
};

struct SessionMetrics {
  explicit SessionMetrics(Registry& r)
      : open(r.gauge(kSessionOpen)),
        opened(r.counter(kSessionOpened)),
        closed(r.counters<CloseCause>(kSessionClosed)),
        refused(r.counters<RefuseCause>(kSessionRefused)),
        takeovers(r.counter(kSessionTakeovers)),
        received_frames(r.counter(kSessionReceivedFrames)),
        received_bytes(r.counter(kSessionReceivedBytes)),
        published_frames(r.counter(kSessionPublishedFrames)),
        published_bytes(r.counter(kSessionPublishedBytes)),
        duplicate_frames(r.counter(kSessionDuplicateFrames)),
        rejected_frames(r.counters<unsigned>(kSessionRejectedFrames)),
        rejected_requests(r.counters<unsigned>(kSessionRejectedRequests)),
        subscriptions(r.gauge(kSessionSubscriptions)),
        promised_frames(r.counter(kSessionPromisedFrames)),
        delivered_frames(r.counter(kSessionDeliveredFrames)),
        delivered_bytes(r.counter(kSessionDeliveredBytes)),
        skipped_frames(r.counter(kSessionSkippedFrames)),
        broken_off_frames(r.counter(kSessionBrokenOffFrames)),
        gap_frames(r.counters<unsigned>(kSessionGapFrames)),
        gaps(r.counters<unsigned>(kSessionGaps)),
        reliable_ended(r.counter(kSessionReliableEnded)),
        age(r.histogram(kSessionAge)),
        outbox_bytes(r.gauge(kSessionOutbox)) {}

  Gauge& open;
  Counter& opened;
  CounterFamily<CloseCause> closed;
  CounterFamily<RefuseCause> refused;
  Counter& takeovers;
  Counter& received_frames;
  Counter& received_bytes;
  Counter& published_frames;
  Counter& published_bytes;
  Counter& duplicate_frames;
  CounterFamily<unsigned> rejected_frames;    // by RejectCode's number
  CounterFamily<unsigned> rejected_requests;  // by RejectCode's number
  Gauge& subscriptions;
  Counter& promised_frames;
  Counter& delivered_frames;
  Counter& delivered_bytes;
  Counter& skipped_frames;
  Counter& broken_off_frames;
  CounterFamily<unsigned> gap_frames;  // by GapReason's number
  CounterFamily<unsigned> gaps;        // by GapReason's number
  Counter& reliable_ended;
  Histogram& age;
  Gauge& outbox_bytes;
};

struct TransportMetrics {
  explicit TransportMetrics(Registry& r)
      : connections(r.gauge(kWsConnections)),
        accepted(r.counter(kWsAccepted)),
        accept_errors(r.counters<AcceptError>(kWsAcceptErrors)),
        handshakes_refused(r.counters<HandshakeCause>(kWsHandshakesRefused)),
        messages(r.counters<Direction>(kWsMessages)),
        bytes(r.counters<Direction>(kWsBytes)),
        pings(r.counters<Direction>(kWsPings)),
        writes(r.counter(kWsWrites)),
        closes(r.counters<CloseCode>(kWsCloses)),
        io_threads(r.gauge(kIoThreads)) {}

  Gauge& connections;
  Counter& accepted;
  CounterFamily<AcceptError> accept_errors;
  CounterFamily<HandshakeCause> handshakes_refused;
  CounterFamily<Direction> messages;
  CounterFamily<Direction> bytes;
  CounterFamily<Direction> pings;
  Counter& writes;
  CounterFamily<CloseCode> closes;  // closes[close_code(1002)]
  Gauge& io_threads;
};

struct PipelineMetrics {
  explicit PipelineMetrics(Registry& r)
      : streams(r.gauge(kPipelineStreams)),
        threads(r.gauge(kPipelineThreads)),
        waiting(r.gauge(kPipelineWaiting)),
        frames(r.counter(kPipelineFrames)),
        failures(r.counters<DecimationFailure>(kPipelineFailures)),
        withdrawn(r.counter(kPipelineWithdrawn)),
        refused(r.counter(kPipelineRefused)),
        points_in(r.counter(kPipelinePointsIn)),
        points_out(r.counter(kPipelinePointsOut)),
        seconds(r.histogram(kPipelineSeconds)) {}

  Gauge& streams;
  Gauge& threads;
  Gauge& waiting;
  Counter& frames;
  CounterFamily<DecimationFailure> failures;
  Counter& withdrawn;
  Counter& refused;
  Counter& points_in;
  Counter& points_out;
  Histogram& seconds;
};

struct GrpcMetrics {
  explicit GrpcMetrics(Registry& r)
      : streams(r.gauge(kGrpcStreams)),
        calls(r.counters<GrpcMethod>(kGrpcCalls)),
        messages(r.counters<Direction>(kGrpcMessages)),
        bytes(r.counters<Direction>(kGrpcBytes)),
        endings(r.counters<unsigned>(kGrpcEndings)),
        pollers(r.gauge(kGrpcPollers)),
        permits(r.gauge(kGrpcPermits)) {}

  Gauge& streams;
  CounterFamily<GrpcMethod> calls;
  CounterFamily<Direction> messages;
  CounterFamily<Direction> bytes;
  CounterFamily<unsigned> endings;  // endings[8] is RESOURCE_EXHAUSTED
  Gauge& pollers;
  Gauge& permits;
};

struct AdminMetrics {
  explicit AdminMetrics(Registry& r)
      : requests(r.counters<StatusClass>(kAdminRequests)),
        refused(r.counters<AdminRefusal>(kAdminRefused)),
        connections(r.gauge(kAdminConnections)),
        request_time(r.histogram(kAdminSeconds)) {}

  CounterFamily<StatusClass> requests;
  CounterFamily<AdminRefusal> refused;
  Gauge& connections;
  Histogram& request_time;
};

struct AppMetrics {
  explicit AppMetrics(Registry& r)
      : start_time(r.gauge(kAppStart)),
        ready(r.gauge(kAppReady)),
        draining(r.gauge(kAppDraining)),
        resident_bytes(r.gauge(kAppResident)),
        cpu_time(r.counter(kAppCpu)),
        open_descriptors(r.gauge(kAppDescriptors)),
        descriptor_limit(r.gauge(kAppDescriptorLimit)),
        log_lines(r.counters<unsigned>(kAppLogLines)) {}

  Gauge& start_time;
  Gauge& ready;
  Gauge& draining;
  Gauge& resident_bytes;
  Counter& cpu_time;
  Gauge& open_descriptors;
  Gauge& descriptor_limit;
  CounterFamily<unsigned> log_lines;  // by LogLevel's number
};

}  // namespace simbridge::metrics
