// Every message of the control plane. A struct lists its fields once, in `visit`; encode() and
// decode() in codec.h walk that list. decode() checks caps and that nothing is left over, so a
// message is whole before it has any effect. Strings are bytes: argv, environment and paths need
// not be UTF-8.
//
// Streams: agent ⇄ server over TCP (sealed) or the spawner's stream; rank ⇄ agent over the agent's
// Unix socket, whose frames the agent passes on inside FromRank and ToRank without looking into
// them; a rank without an agent sends the same frames to the server over TCP. Likewise hvrun ⇄
// prober, a child of the agent that diagnoses: ToProber, FromProber. Frames of an agent whose link
// goes through another agent travel inside FromAgent and ToAgent on the way between that one and
// the server.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/bytes.h"
#include "rendezvous/base/error.h"
#include "rendezvous/cards.h"
#include "rendezvous/fields.h"

namespace hv::rendezvous {

enum class MsgType : std::uint16_t {
  kInvalid = 0,
  // agent → server
  kAgentHello = 1,
  kPreflightReply,
  kRankStarted,
  kRankExited,
  kOutput,
  kAgentDone,
  kAgentFault,
  kFromRank,
  kFromProber,
  kRecorderReply,
  kTraced,
  kSchedulerSignal,
  kInputTaken,
  kRelayOpened,
  kNotRelayed,
  kFromAgent,
  // server → agent
  kAgentWelcome = 32,
  kPreflight,
  kLaunchOrder,
  kOutputCredit,
  kSignalRanks,
  kEndRanks,
  kStdin,
  kToRank,
  kRelease,
  kToProber,
  kRecorderQuery,
  kTracing,
  kOpenRelay,
  kUseRelay,
  kToAgent,
  // both ways
  kBeat = 64,
  // rank → server
  kRankHello = 96,
  kStoreSet,
  kStoreGet,
  kStoreAdd,
  kJoin,
  kLeave,
  kRankFault,
  kRankStall,
  kTimelineRequest,
  // server → rank
  kRankWelcome = 128,
  kStoreReply,
  kPeerTable,
  kNotice,
  // hvrun → prober, and its answers
  kCheckHost = 160,
  kHostChecked,
  kProbeHost,
  kHostProbed,
  kTellClock,
  kClockTold,
  kReachPeers,
  kPeersReached,
  kMeasurePeer,
  kPeerMeasured,
  kMeasureIb,
  kIbMeasured,
  kProberFault,
};

struct Endpoint {  // a numeric address; IPv6 link-local carries its scope id as "%eth0"
  std::string address;
  std::uint16_t port = 0;
  HV_FIELDS(s.address, s.port)
  bool operator==(const Endpoint&) const = default;
};

struct KeyValue {  // an environment variable or a store entry
  std::string key;
  std::string value;
  HV_FIELDS(s.key, s.value)
};

struct WireError {  // base::Error as it travels
  std::uint8_t code = 0;
  std::string text;
  std::string origin;
  std::int32_t sys = 0;
  HV_FIELDS(s.code, s.text, s.origin, s.sys)
};

// ---- agent → server ------------------------------------------------------------------------

struct Interface {  // one address of one network interface
  std::string name;
  std::string address;
  bool loopback = false;
  bool up = false;
  std::uint8_t prefix = 0;       // bits of the network part
  std::string kind = {};         // "physical", "bridge", "veth" …; empty: unknown
  std::uint32_t speed_mbit = 0;  // 0: unknown
  HV_FIELDS(s.name, s.address, s.loopback, s.up, s.prefix, s.kind, s.speed_mbit)
};

struct AgentHello {
  static constexpr MsgType kType = MsgType::kAgentHello;
  std::string build_id;  // both ends must come from one build
  std::uint32_t host_index = 0;
  std::string host_name;  // what the host calls itself
  std::string identity;   // boot id + namespaces: equal for two names of one host
  std::int32_t pid = 0;
  std::int32_t cpus = 0;  // of the affinity mask
  std::vector<Interface> interfaces;
  std::string reached_from;    // our address on the connection that reached the server
  std::string server_address;  // the server's, of its several, that we reached; both empty: no TCP
  std::vector<KeyValue> nccl_conf;  // what NCCL reads from files of this host
  std::vector<IbDevice> cards;
  std::vector<KeyValue> device_masks;  // CUDA_VISIBLE_DEVICES and its kin, as far as they are set
  HV_FIELDS(s.build_id, s.host_index, s.host_name, s.identity, s.pid, s.cpus, s.interfaces,
            s.reached_from, s.server_address, s.nccl_conf, s.cards, s.device_masks)
};

struct PreflightReply {  // empty errors: this host can run the job
  static constexpr MsgType kType = MsgType::kPreflightReply;
  std::string program_path;       // absolute path that was found
  std::uint16_t master_port = 0;  // held (bound, not listening) for rank 0; 0 if not asked for
  std::vector<WireError> errors;
  HV_FIELDS(s.program_path, s.master_port, s.errors)
};

struct RankStarted {
  static constexpr MsgType kType = MsgType::kRankStarted;
  std::int32_t rank = 0;
  std::int32_t pid = 0;
  std::string cpus;  // that it may run on, "0-3 of node 0"
  HV_FIELDS(s.rank, s.pid, s.cpus)
};

struct RankExited {  // sent once per rank, after the last of its Output
  static constexpr MsgType kType = MsgType::kRankExited;
  std::int32_t rank = 0;
  std::int32_t pid = 0;
  std::int32_t exit_code = 0;  // if signal == 0
  std::int32_t signal = 0;
  bool core_dumped = false;
  bool asked_to_end = false;  // by EndRanks or a lost link, before it ended
  bool oom_killed = false;
  std::string core;                     // where its core dump is, if that is known
  std::int64_t at_us = 0;               // since the agent's start, steady clock
  std::string exec_error;               // why it never started; empty if it did
  std::vector<std::string> last_lines;  // of standard error (or output), at most 20
  std::uint64_t operations = 0;         // that it has finished
  std::int64_t waited_us = 0;           // for other ranks, see RecorderHeader
  HV_FIELDS(s.rank, s.pid, s.exit_code, s.signal, s.core_dumped, s.asked_to_end, s.oom_killed,
            s.core, s.at_us, s.exec_error, s.last_lines, s.operations, s.waited_us)
};

enum class Stream : std::uint8_t { kStdout = 1, kStderr = 2 };
inline bool is_known(Stream s) { return s == Stream::kStdout || s == Stream::kStderr; }

struct Output {  // bytes of one stream of one rank; eof at the end of one that had any
  static constexpr MsgType kType = MsgType::kOutput;
  std::int32_t rank = 0;
  Stream stream = Stream::kStdout;
  bool eof = false;
  base::Bytes data;
  HV_FIELDS(s.rank, s.stream, s.eof, s.data)
};

struct AgentDone {  // all ranks of this host have ended and been reaped
  static constexpr MsgType kType = MsgType::kAgentDone;
  HV_NO_FIELDS
};

struct AgentFault {  // the agent itself cannot go on
  static constexpr MsgType kType = MsgType::kAgentFault;
  WireError error;
  HV_FIELDS(s.error)
};

struct SchedulerSignal {  // Slurm has sent this to everything in the step: the ranks have it, too
  static constexpr MsgType kType = MsgType::kSchedulerSignal;
  std::int32_t signal = 0;
  HV_FIELDS(s.signal)
};

struct FromRank {
  static constexpr MsgType kType = MsgType::kFromRank;
  std::uint32_t connection = 0;  // the agent numbers the connections of its ranks, from 1
  MsgType type{};                // of the frame that came; kInvalid: the connection has closed
  base::Bytes body;
  HV_FIELDS(s.connection, s.type, s.body)
};

struct FromProber {
  static constexpr MsgType kType = MsgType::kFromProber;
  MsgType type{};  // of the frame that came; kInvalid: the prober has ended
  base::Bytes body;
  HV_FIELDS(s.type, s.body)
};

struct OpView {              // one operation of a rank, as its flight recorder has it
  std::uint64_t number = 0;  // of the rank's submissions
  std::uint8_t state = 0;    // OpState
  std::string kind;          // "allreduce"
  std::string name;
  std::string dtype;
  std::uint64_t bytes = 0;
  std::uint32_t set = 0;
  std::uint64_t batch = 0;            // 0: not agreed on
  std::int64_t submitted_us_ago = 0;  // when the agent looked
  std::int64_t done_us_ago = 0;
  HV_FIELDS(s.number, s.state, s.kind, s.name, s.dtype, s.bytes, s.set, s.batch, s.submitted_us_ago,
            s.done_us_ago)
};

struct RecorderView {
  std::int32_t rank = 0;
  std::int32_t pid = 0;
  std::uint8_t process_state = 0;  // as in /proc: 'R', 'S', 'D', 'T', …; 0: gone
  std::uint8_t presence = 0;       // Presence
  std::uint64_t submitted = 0;
  std::uint64_t finished = 0;
  std::int64_t waited_us = 0;  // for other ranks, see RecorderHeader
  std::vector<OpView> ops;  // all that are pending, the oldest first, then the last finished ones
  std::vector<KeyValue> sets;  // id → ranks
  HV_FIELDS(s.rank, s.pid, s.process_state, s.presence, s.submitted, s.finished, s.waited_us, s.ops,
            s.sets)
};

struct RecorderReply {
  static constexpr MsgType kType = MsgType::kRecorderReply;
  std::uint64_t number = 0;  // of the query
  std::vector<RecorderView> ranks;
  HV_FIELDS(s.number, s.ranks)
};

struct Traced {  // finished operations of one rank, for the timeline
  static constexpr MsgType kType = MsgType::kTraced;
  std::int32_t rank = 0;
  std::uint64_t dropped = 0;  // so far, for want of room
  bool last = false;          // the agent has been told to stop, and this was all of this host
  base::Bytes records;        // OpRecord
  HV_FIELDS(s.rank, s.dropped, s.last, s.records)
};

struct InputTaken {  // this many bytes of Stdin have gone into the rank, or can no more
  static constexpr MsgType kType = MsgType::kInputTaken;
  std::int32_t rank = 0;
  std::uint32_t bytes = 0;
  HV_FIELDS(s.rank, s.bytes)
};

struct RelayOpened {  // answers OpenRelay; no endpoints: it cannot, see error
  static constexpr MsgType kType = MsgType::kRelayOpened;
  std::vector<Endpoint> endpoints;  // where other agents may connect, best first
  WireError error;
  HV_FIELDS(s.endpoints, s.error)
};

struct NotRelayed {  // answers UseRelay: out of reach, this link stays
  static constexpr MsgType kType = MsgType::kNotRelayed;
  WireError error;
  HV_FIELDS(s.error)
};

struct FromAgent {  // a frame of an agent whose link goes through this one, its hello the first
  static constexpr MsgType kType = MsgType::kFromAgent;
  std::uint32_t host = 0;  // index of its host in the plan
  MsgType type{};          // kInvalid: its link has closed
  base::Bytes body;
  HV_FIELDS(s.host, s.type, s.body)
};

// ---- server → agent ------------------------------------------------------------------------

struct AgentWelcome {
  static constexpr MsgType kType = MsgType::kAgentWelcome;
  std::string job;
  std::uint32_t beat_ms = 1000;
  std::uint32_t lost_after_ms = 5000;
  std::uint32_t grace_ms = 5000;
  HV_FIELDS(s.job, s.beat_ms, s.lost_after_ms, s.grace_ms)
};

struct Preflight {
  static constexpr MsgType kType = MsgType::kPreflight;
  std::string program;
  std::string working_directory;
  std::string path;  // the PATH that the ranks will get
  bool hold_master_port = false;
  std::uint16_t port_low = 0;  // --port-range; 0 = any
  std::uint16_t port_high = 0;
  HV_FIELDS(s.program, s.working_directory, s.path, s.hold_master_port, s.port_low, s.port_high)
};

struct RankOrder {
  std::int32_t rank = 0;
  std::int32_t local_rank = 0;
  bool with_input = false;    // Stdin will come; otherwise /dev/null
  std::vector<KeyValue> env;  // on top of LaunchOrder::env
  HV_FIELDS(s.rank, s.local_rank, s.with_input, s.env)
};

enum class Bind : std::uint8_t { kNone = 1, kCore = 2, kNuma = 3 };
inline bool is_known(Bind b) { return b >= Bind::kNone && b <= Bind::kNuma; }

struct LaunchOrder {
  static constexpr MsgType kType = MsgType::kLaunchOrder;
  std::uint32_t epoch = 0;
  std::string program;            // absolute, from the preflight of this host
  std::vector<std::string> argv;  // argv[0] as typed
  std::string working_directory;
  std::vector<KeyValue> env;  // the complete environment, common to the ranks of this host
  std::vector<std::string>
      env_from_host;  // names (or globs) taken from the agent's own environment
  std::vector<RankOrder> ranks;
  std::string rank_secret;          // hex; what ranks get as HVRUN_SECRET
  std::uint32_t output_credit = 0;  // of each rank, until OutputCredit adds more
  Bind bind = Bind::kNone;          // of ranks to processors
  HV_FIELDS(s.epoch, s.program, s.argv, s.working_directory, s.env, s.env_from_host, s.ranks,
            s.rank_secret, s.output_credit, s.bind)
};

struct OutputCredit {  // the agent may send this many more bytes of output of this rank
  static constexpr MsgType kType = MsgType::kOutputCredit;
  std::int32_t rank = 0;
  std::uint32_t bytes = 0;
  HV_FIELDS(s.rank, s.bytes)
};

struct SignalRanks {  // to the rank's own process, or to its whole process group
  static constexpr MsgType kType = MsgType::kSignalRanks;
  std::int32_t signal = 0;
  bool whole_group = false;
  HV_FIELDS(s.signal, s.whole_group)
};

struct EndRanks {  // TERM to the main process, after the grace time KILL to everything below it
  static constexpr MsgType kType = MsgType::kEndRanks;
  std::int32_t first_signal = 15;
  std::uint32_t grace_ms = 5000;  // 0: KILL at once
  HV_FIELDS(s.first_signal, s.grace_ms)
};

struct Stdin {  // for a rank with input; no more than InputTaken has given back
  static constexpr MsgType kType = MsgType::kStdin;
  std::int32_t rank = 0;
  bool eof = false;
  base::Bytes data;
  HV_FIELDS(s.rank, s.eof, s.data)
};

struct ToRank {
  static constexpr MsgType kType = MsgType::kToRank;
  std::uint32_t connection = 0;  // as in FromRank; 0: all that have passed the handshake
  MsgType type{};                // kInvalid: close the connection, when all before is written
  base::Bytes body;
  HV_FIELDS(s.connection, s.type, s.body)
};

struct Release {  // the job is over: clean up, exit 0
  static constexpr MsgType kType = MsgType::kRelease;
  HV_NO_FIELDS
};

struct ToProber {  // the first one starts it
  static constexpr MsgType kType = MsgType::kToProber;
  MsgType type{};
  base::Bytes body;
  HV_FIELDS(s.type, s.body)
};

struct RecorderQuery {  // answered with what all ranks of this host are at
  static constexpr MsgType kType = MsgType::kRecorderQuery;
  std::uint64_t number = 0;
  HV_FIELDS(s.number)
};

struct Tracing {  // from now on finished operations are sent, or no longer
  static constexpr MsgType kType = MsgType::kTracing;
  bool on = false;
  bool mark_cycles = false;
  HV_FIELDS(s.on, s.mark_cycles)
};

struct OpenRelay {  // other agents will connect to this one
  static constexpr MsgType kType = MsgType::kOpenRelay;
  std::uint16_t port_low = 0;  // --port-range; 0 = any
  std::uint16_t port_high = 0;
  HV_FIELDS(s.port_low, s.port_high)
};

struct UseRelay {  // say hello through that agent; NotRelayed if it cannot be reached
  static constexpr MsgType kType = MsgType::kUseRelay;
  std::uint32_t host = 0;           // of the relay
  std::vector<Endpoint> endpoints;  // best first
  HV_FIELDS(s.host, s.endpoints)
};

inline constexpr std::uint32_t kEveryAgent = 0xffffffff;

struct ToAgent {
  static constexpr MsgType kType = MsgType::kToAgent;
  std::uint32_t host = 0;  // kEveryAgent: for the receiver and for all whose links it relays
  MsgType type{};          // kInvalid: close its link, when all before is written
  base::Bytes body;
  HV_FIELDS(s.host, s.type, s.body)
};

struct Beat {  // answered with the same number; also measures the clock offset
  static constexpr MsgType kType = MsgType::kBeat;
  std::uint64_t number = 0;
  bool reply = false;
  std::int64_t clock_us = 0;  // of the sender, steady
  HV_FIELDS(s.number, s.reply, s.clock_us)
};

// ---- rank → server -------------------------------------------------------------------------

struct RankHello {
  static constexpr MsgType kType = MsgType::kRankHello;
  std::uint32_t epoch = 0;
  std::int32_t rank = 0;
  std::int32_t pid = 0;
  std::string build_id;
  HV_FIELDS(s.epoch, s.rank, s.pid, s.build_id)
};

struct StoreSet {
  static constexpr MsgType kType = MsgType::kStoreSet;
  std::uint64_t id = 0;
  std::uint32_t epoch = 0;
  std::string key;
  base::Bytes value;
  HV_FIELDS(s.id, s.epoch, s.key, s.value)
};

inline constexpr std::uint32_t kWaitForever = 0xffffffff;

struct StoreGet {  // the server waits for the key, at most wait_ms (0 = answer at once)
  static constexpr MsgType kType = MsgType::kStoreGet;
  std::uint64_t id = 0;
  std::uint32_t epoch = 0;
  std::string key;
  std::uint32_t wait_ms = 0;
  HV_FIELDS(s.id, s.epoch, s.key, s.wait_ms)
};

struct StoreAdd {  // integers; an absent key counts as 0; the reply holds the new value (8 bytes)
  static constexpr MsgType kType = MsgType::kStoreAdd;
  std::uint64_t id = 0;
  std::uint32_t epoch = 0;
  std::string key;
  std::int64_t delta = 0;
  HV_FIELDS(s.id, s.epoch, s.key, s.delta)
};

struct PeerInfo {  // what the others need to reach and to name a rank
  std::int32_t rank = 0;
  std::int32_t pid = 0;
  std::string host;                 // as the user named it
  std::string identity;             // boot id, namespaces, agent: equal = they share memory
  std::vector<Endpoint> endpoints;  // of the data plane; empty when all ranks are on one host
  std::string segment_socket;       // abstract Unix name, see LocalGroup
  std::string build_id;
  HV_FIELDS(s.rank, s.pid, s.host, s.identity, s.endpoints, s.segment_socket, s.build_id)
};

struct Join {  // answered with the PeerTable, or after wait_ms with who is missing
  static constexpr MsgType kType = MsgType::kJoin;
  std::uint64_t id = 0;
  std::uint32_t epoch = 0;
  std::uint32_t wait_ms = 0;
  PeerInfo self;
  HV_FIELDS(s.id, s.epoch, s.wait_ms, s.self)
};

struct Leave {  // shutdown was called: the end of this connection is no fault; answered
  static constexpr MsgType kType = MsgType::kLeave;
  std::uint64_t id = 0;
  std::uint32_t epoch = 0;
  HV_FIELDS(s.id, s.epoch)
};

struct RankFault {  // this rank has seen an error that ends the epoch for all
  static constexpr MsgType kType = MsgType::kRankFault;
  std::uint32_t epoch = 0;
  WireError error;
  HV_FIELDS(s.epoch, s.error)
};

struct RankStall {  // an operation of this rank waits for others
  static constexpr MsgType kType = MsgType::kRankStall;
  std::uint32_t epoch = 0;
  std::string operation;  // "allreduce 'x'", the one that has waited longest
  std::uint32_t waited_ms = 0;
  std::uint32_t period_ms = 0;  // between two such messages
  bool shutdown = false;        // that is too long: the job is to end
  HV_FIELDS(s.epoch, s.operation, s.waited_ms, s.period_ms, s.shutdown)
};

struct TimelineRequest {  // answered when the file is open, or complete
  static constexpr MsgType kType = MsgType::kTimelineRequest;
  std::uint64_t id = 0;
  std::uint32_t epoch = 0;
  bool on = false;
  std::string path;  // absolute
  bool mark_cycles = false;
  HV_FIELDS(s.id, s.epoch, s.on, s.path, s.mark_cycles)
};

// ---- server → rank -------------------------------------------------------------------------

struct RankWelcome {
  static constexpr MsgType kType = MsgType::kRankWelcome;
  std::uint32_t epoch = 0;
  std::int32_t size = 0;
  WireError refused;  // code 0: welcome
  HV_FIELDS(s.epoch, s.size, s.refused)
};

struct StoreReply {
  static constexpr MsgType kType = MsgType::kStoreReply;
  std::uint64_t id = 0;
  WireError error;  // code 0: fine
  base::Bytes value;
  HV_FIELDS(s.id, s.error, s.value)
};

struct PeerTable {  // complete: one entry per rank, in order of rank
  static constexpr MsgType kType = MsgType::kPeerTable;
  std::uint32_t epoch = 0;
  std::uint32_t generation = 0;  // tables of this epoch so far, from 1; the same on all ranks
  std::vector<PeerInfo> peers;
  HV_FIELDS(s.epoch, s.generation, s.peers)
};

struct Notice {  // the epoch has failed; the first cause
  static constexpr MsgType kType = MsgType::kNotice;
  std::uint32_t epoch = 0;
  std::int32_t failed_rank = -1;
  WireError cause;
  HV_FIELDS(s.epoch, s.failed_rank, s.cause)
};

// ---- hvrun ⇄ prober: each order is answered once, in turn, by its answer or a fault -----------

struct CheckHost {  // runs hvcheck there
  static constexpr MsgType kType = MsgType::kCheckHost;
  base::Bytes program;
  std::string agent_path;  // where hvrun's own machine has hvagent
  HV_FIELDS(s.program, s.agent_path)
};

struct HostChecked {
  static constexpr MsgType kType = MsgType::kHostChecked;
  std::string table;  // of --check-build, as JSON
  HV_FIELDS(s.table)
};

struct ProbeHost {  // also opens the port that other probers connect to
  static constexpr MsgType kType = MsgType::kProbeHost;
  std::uint32_t memory_ms = 0;  // to measure the bandwidth of memory for; 0: not measured
  std::uint16_t port_low = 0;   // --port-range; 0 = any
  std::uint16_t port_high = 0;
  HV_FIELDS(s.memory_ms, s.port_low, s.port_high)
};

struct HostProbed {
  static constexpr MsgType kType = MsgType::kHostProbed;
  std::uint16_t port = 0;
  double cores = 0;  // of the affinity mask, or the cgroup's quota if that is less
  std::uint64_t memory_bytes = 0;
  double memory_gbyte_s = 0;        // copied by all cores together; 0: not measured
  std::int64_t open_files = -1;     // the soft limit; -1: none
  std::int64_t locked_memory = -1;  // bytes; -1: no limit
  std::vector<std::string> gpus;    // PCI addresses
  bool perftest = false;            // ib_write_bw is installed
  HV_FIELDS(s.port, s.cores, s.memory_bytes, s.memory_gbyte_s, s.open_files, s.locked_memory,
            s.gpus, s.perftest)
};

struct TellClock {
  static constexpr MsgType kType = MsgType::kTellClock;
  HV_NO_FIELDS
};

struct ClockTold {
  static constexpr MsgType kType = MsgType::kClockTold;
  std::int64_t clock_us = 0;  // since 1970
  HV_FIELDS(s.clock_us)
};

struct ProbePeer {
  std::uint32_t host = 0;           // its index in the plan
  std::vector<Endpoint> endpoints;  // of its prober, best first
  HV_FIELDS(s.host, s.endpoints)
};

struct ReachPeers {  // connects to all of them at once
  static constexpr MsgType kType = MsgType::kReachPeers;
  std::vector<ProbePeer> peers;
  std::uint32_t limit_ms = 0;
  HV_FIELDS(s.peers, s.limit_ms)
};

struct ReachedPeer {
  std::uint32_t host = 0;
  Endpoint endpoint;          // the best that answered and is the host that was meant
  std::string local_address;  // ours on that connection
  std::string seen_as;        // as the peer sees us
  std::string failure;        // why none did; empty: reached
  HV_FIELDS(s.host, s.endpoint, s.local_address, s.seen_as, s.failure)
};

struct PeersReached {
  static constexpr MsgType kType = MsgType::kPeersReached;
  std::vector<ReachedPeer> peers;
  HV_FIELDS(s.peers)
};

struct MeasurePeer {
  static constexpr MsgType kType = MsgType::kMeasurePeer;
  std::uint32_t host = 0;
  Endpoint endpoint;
  std::uint32_t ms = 0;  // for each direction
  HV_FIELDS(s.host, s.endpoint, s.ms)
};

struct PeerMeasured {
  static constexpr MsgType kType = MsgType::kPeerMeasured;
  double latency_us = 0;  // of a round trip, the shortest
  double out_mbit = 0;    // from us to the peer
  double in_mbit = 0;
  HV_FIELDS(s.latency_us, s.out_mbit, s.in_mbit)
};

struct MeasureIb {  // runs ib_write_bw, to be asked of both hosts of a pair at once
  static constexpr MsgType kType = MsgType::kMeasureIb;
  std::string device;
  std::int32_t port = 1;
  std::int32_t gid_index = -1;
  std::string server;  // its address; empty: this is the server
  std::uint16_t tcp_port = 0;
  HV_FIELDS(s.device, s.port, s.gid_index, s.server, s.tcp_port)
};

struct IbMeasured {
  static constexpr MsgType kType = MsgType::kIbMeasured;
  double gbit = 0;  // both ways
  HV_FIELDS(s.gbit)
};

struct ProberFault {
  static constexpr MsgType kType = MsgType::kProberFault;
  WireError error;
  HV_FIELDS(s.error)
};

}  // namespace hv::rendezvous
