/* Weft: message passing over shared memory and plain Ethernet. The C interface, made from
 * crates/capi/src by its test `header`: change it there. Ten minutes of it: docs/c.md.
 *
 * A call that can fail returns a weft_status: WEFT_OK (0), or why it has failed, of which
 * weft_error_text() tells more. What a call gives is stored where its pointers say, and only if it
 * has not failed, but for what "Errors" says. No call ends the process, and none waits for ever:
 * what waits for a process that dies ends in an error that names it.
 *
 * Handles (pointers to weft_job, weft_endpoint, weft_context, weft_region, weft_joined,
 * weft_group, weft_message, weft_plan) are checked numbers, nothing can be read through them. One
 * that is null or was freed is WEFT_DEAD_HANDLE, also while other threads use or free it; one that
 * is in use is not freed, which is WEFT_BUSY.
 *
 * "Threads: any" means that any thread may make the call at any time, also while others make
 * calls with the same handle.
 *
 * Memory: lengths are bytes, counts are numbers of elements. A pointer may be null where there is
 * nothing to read or fill. Memory must stay, and stay untouched, as long as the call uses it; with
 * calls that start something (weft_i...), until its request has ended.
 *
 * After a fork the child has no part in the job: all calls fail there with WEFT_FORKED, until it
 * executes a program. */

#ifndef WEFT_H
#define WEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Whoever sends first, as the source of a receive.
#define WEFT_ANY_SOURCE UINT32_MAX

/// Every tag, as the bits of a tag that a receive ignores.
#define WEFT_ANY_TAG UINT64_MAX

/// Bytes of a region's handle.
#define WEFT_HANDLE_LEN 32

/// Peers may read the region.
#define WEFT_GET 1

/// Peers may write the region. Numbers are changed with this right, and `WEFT_GET` if they are
/// fetched.
#define WEFT_PUT 2

/// Most axes of an array.
#define WEFT_AXES 4

/// How a call ended. New ones may be added at the end.
typedef enum {
    /// It was done.
    WEFT_OK = 0,
    /// A pointer is null where memory is needed.
    WEFT_NULL = 1,
    /// A handle is null, was freed, or never was one.
    WEFT_DEAD_HANDLE = 2,
    /// Something cannot be freed, as something else, or a call of another thread, uses it.
    WEFT_BUSY = 3,
    /// An argument makes no sense.
    WEFT_BAD_ARGUMENT = 4,
    /// This process was forked off one that uses Weft: it has no endpoints.
    WEFT_FORKED = 5,
    /// The library has an error of its own. It goes on, but please report it.
    WEFT_PANIC = 6,
    /// The operating system refused something.
    WEFT_SYSTEM = 7,
    /// A variable of the environment cannot be read.
    WEFT_SETTING = 8,
    /// The ranks of the job did not find each other.
    WEFT_WIRE_UP = 9,
    /// The rank has the channel open already.
    WEFT_CHANNEL_TAKEN = 10,
    /// A rank cannot be reached, or no link can be used.
    WEFT_UNREACHABLE = 11,
    /// There is no such rank.
    WEFT_UNKNOWN_PEER = 12,
    /// A peer has died, or can no longer be reached.
    WEFT_PEER_DEAD = 13,
    /// A peer has ended in good order.
    WEFT_PEER_CLOSED = 14,
    /// The time is over, and nothing came.
    WEFT_TIMED_OUT = 15,
    /// A message was longer than the memory for it.
    WEFT_TRUNCATED = 16,
    /// The operation was cancelled.
    WEFT_CANCELLED = 17,
    /// A request whose end was told already, or that is none.
    WEFT_NO_REQUEST = 18,
    /// An operation on a region cannot be done: bounds, rights, alignment.
    WEFT_REGION = 19,
    /// A region's owner refused an operation, most often because it was freed.
    WEFT_REFUSED = 20,
    /// A collective operation cannot be done so.
    WEFT_COLLECTIVE = 21,
    /// Another rank does something else, or broadcasts another length.
    WEFT_MISMATCH = 22,
    /// A group cannot be made of these ranks, or its members do not agree.
    WEFT_BAD_GROUP = 23,
    /// The barrier that was entered before is not over.
    WEFT_IN_BARRIER = 24,
    /// A message is of a kind that cannot be taken here, or was taken back.
    WEFT_BAD_MESSAGE = 25,
    /// A plan for the exchange of boundaries cannot be built, or not be used so.
    WEFT_HALO = 26,
} weft_status;

/// What an exchange does about cells where ghost layers of two axes or more meet.
typedef enum {
    /// The cheaper one of the next two, by the number of messages. This is so unless another is
    /// asked for.
    WEFT_CORNERS_AUTO = 0,
    /// The axes take turns, and what came by one goes on by the next.
    WEFT_CORNERS_TURNS = 1,
    /// Messages from all who have them.
    WEFT_CORNERS_AT_ONCE = 2,
    /// What those cells hold is unspecified: for stencils that look along the axes only.
    WEFT_CORNERS_NO = 3,
} weft_corners;

/// A process's end of its ways to the others of its job, without matching: messages are built and
/// read where the device has them.
typedef struct weft_context weft_context;

/// A process's end of all its ways to the others of its job: tagged messages, regions, groups.
typedef struct weft_endpoint weft_endpoint;

/// Some ranks of a job, for barriers, broadcasts, and messages in one order for all.
typedef struct weft_group weft_group;

/// A process's place in its job, and its connection to the launcher.
typedef struct weft_job weft_job;

/// One end of two joined buffers. What is written moves to the other end, and a flag wakes the
/// other side: it is seen there after all that any thread had written before it, and after earlier
/// flags.
typedef struct weft_joined weft_joined;

/// A message that `weft_mprobe` took out of the matching: nobody else can receive it.
typedef struct weft_message weft_message;

/// A plan for the exchange of boundaries: first it is described, then built, then used.
typedef struct weft_plan weft_plan;

/// Memory of this process that peers may reach.
typedef struct weft_region weft_region;

/// What a message says of itself.
typedef struct {
    /// Its tag.
    uint64_t tag;
    /// Bytes that it has; a receive into less memory is `WEFT_TRUNCATED`.
    uint64_t len;
    /// Who sent it.
    uint32_t source;
} weft_envelope;

/// An operation that was started. Its numbers are Weft's: all zero where there is none, as after
/// the call that told its end. A copy is the same request, and only one of them is told the end.
typedef struct {
    /// Which endpoint's.
    uint64_t endpoint;
    /// Which operation of it.
    uint64_t operation;
} weft_request;

/// What peers reach a region by: plain bytes, the same on every machine, to be sent to them in any
/// message. It says what may be done, and gives no right by itself.
typedef struct {
    /// The handle.
    uint8_t bytes[WEFT_HANDLE_LEN];
} weft_region_handle;

/// What a handle says.
typedef struct {
    /// Bytes of the region.
    uint64_t len;
    /// The region's owner.
    uint32_t rank;
    /// `WEFT_GET`, `WEFT_PUT`, or both.
    int rights;
} weft_handle_info;

/// A peer's put with a value has been done.
typedef struct {
    /// The value that it gave along.
    uint64_t value;
    /// The first byte that it wrote.
    uint64_t offset;
    /// Bytes that it wrote.
    uint64_t len;
    /// Who.
    uint32_t source;
} weft_notice;

/// The type of a number, in the byte order of the machine.
typedef int weft_scalar;

/// What is done with a number `t` of a region, an operand `a`, and for the last ones a comparand
/// `c`. Reductions take those up to `WEFT_BIT_XOR`, but no difference.
typedef int weft_op;

/// Who is beyond a face, an edge or a corner.
typedef struct {
    /// -1, 0 or 1 along each axis, the slowest first; 0 along axes that are not used.
    int8_t direction[WEFT_AXES];
    /// Whose cells these are. A rank may be its own neighbour.
    uint32_t rank;
} weft_neighbour;

/// One axis of a local array.
typedef struct {
    /// Cells of this process's own.
    size_t cells;
    /// Ghost layers before them, which the lower neighbour's last cells are copied to.
    size_t low;
    /// Ghost layers behind them, which the upper neighbour's first cells are copied to.
    size_t high;
} weft_axis;

/// `int8_t`
#define WEFT_I8 1

/// `uint8_t`
#define WEFT_U8 2

/// `int16_t`
#define WEFT_I16 3

/// `uint16_t`
#define WEFT_U16 4

/// `int32_t`
#define WEFT_I32 5

/// `uint32_t`
#define WEFT_U32 6

/// `int64_t`
#define WEFT_I64 7

/// `uint64_t`
#define WEFT_U64 8

/// `__int128`
#define WEFT_I128 9

/// `unsigned __int128`
#define WEFT_U128 10

/// `float`
#define WEFT_F32 11

/// `double`
#define WEFT_F64 12

/// The lesser of `t` and `a`.
#define WEFT_MIN 1

/// The greater.
#define WEFT_MAX 2

/// `t + a`; whole numbers wrap around.
#define WEFT_SUM 3

/// `t * a`; whole numbers wrap around.
#define WEFT_PRODUCT 4

/// `t - a`; whole numbers wrap around.
#define WEFT_DIFFERENCE 5

/// 1 if either is not zero, else 0.
#define WEFT_LOGICAL_OR 6

/// 1 if both are not zero, else 0.
#define WEFT_LOGICAL_AND 7

/// 1 if exactly one is not zero, else 0.
#define WEFT_LOGICAL_XOR 8

/// `t | a`, of whole numbers.
#define WEFT_BIT_OR 9

/// `t & a`, of whole numbers.
#define WEFT_BIT_AND 10

/// `t ^ a`, of whole numbers.
#define WEFT_BIT_XOR 11

/// `t`: nothing is changed; operands are not looked at, and may be null.
#define WEFT_READ 12

/// `a`
#define WEFT_WRITE 13

/// `a` if `c == t`
#define WEFT_SWAP_IF_EQUAL 14

/// `a` if `c != t`
#define WEFT_SWAP_IF_NOT_EQUAL 15

/// `a` if `c <= t`
#define WEFT_SWAP_IF_LESS_OR_EQUAL 16

/// `a` if `c < t`
#define WEFT_SWAP_IF_LESS 17

/// `a` if `c >= t`
#define WEFT_SWAP_IF_GREATER_OR_EQUAL 18

/// `a` if `c > t`
#define WEFT_SWAP_IF_GREATER 19

/// `a` in the bits that are set in `c`, `t` in the others.
#define WEFT_SWAP_MASKED 20

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// The text of the last error of this thread: what failed, why, and what to do. Empty before the
/// first; valid until the thread's next call that fails.
///
/// Threads: each has its own.
const char *weft_error_text(void);

/// The name of a status, as in "WEFT_OK"; "WEFT_?" for what is none.
///
/// Threads: any.
const char *weft_status_name(int status);

/// The version of the library, as in "0.2.0".
///
/// Threads: any.
const char *weft_version(void);

/// Joins the job that the environment speaks of: under `weft run`, mpiexec or srun; without a
/// launcher the process is a job of its own, of one rank. All ranks must call it, once. Waits for
/// the others, for at most 60 s in each of its steps (the variable for that is in the page of
/// environment variables).
///
/// Errors: `WEFT_WIRE_UP`, `WEFT_SETTING`.
/// Threads: any.
weft_status weft_job_from_env(weft_job **job);

/// A job of one rank, whatever the environment says.
///
/// Errors: `WEFT_WIRE_UP`.
/// Threads: any.
weft_status weft_job_single(weft_job **job);

/// This process's number in the job, from 0.
///
/// Threads: any.
weft_status weft_job_rank(weft_job *job, uint32_t *rank);

/// Ranks in the job.
///
/// Threads: any.
weft_status weft_job_size(weft_job *job, uint32_t *size);

/// Says goodbye to the launcher: some take a process that ends without that for a crashed one.
/// Endpoints that were opened go on, but it is best called after the last of them was freed.
///
/// Errors: `WEFT_BUSY` while another thread uses the job.
/// Threads: any.
weft_status weft_job_free(weft_job *job);

/// Opens an endpoint on a channel of a job with all its ranks. All ranks must call it, with the
/// same channel and in the same order. A job may have several endpoints, on different channels.
/// The variables of the environment are heeded.
///
/// Errors: `WEFT_CHANNEL_TAKEN`, `WEFT_UNREACHABLE`, `WEFT_WIRE_UP`, `WEFT_SETTING`,
/// `WEFT_SYSTEM`.
/// Threads: any; others that use the job wait.
weft_status weft_endpoint_open(weft_job *job, uint16_t channel, weft_endpoint **endpoint);

/// This process's number among the endpoint's ranks, from 0.
///
/// Threads: any.
weft_status weft_endpoint_rank(weft_endpoint *endpoint, uint32_t *rank);

/// How many ranks there are, this one included.
///
/// Threads: any.
weft_status weft_endpoint_size(weft_endpoint *endpoint, uint32_t *size);

/// Makes progress; `done` (which may be null) says whether something was done. There is no need to
/// call it: other calls make progress, and Weft's own thread where there are none.
///
/// Threads: any.
weft_status weft_progress(weft_endpoint *endpoint, bool *done);

/// What the devices and links have done so far, as text: a line "name number" for each counter,
/// cut off where `room` bytes are full, and with a zero byte at its end if there is room for any.
/// `len` (which may be null) is told how many bytes all of it has, without the zero byte.
///
/// Threads: any.
weft_status weft_counters(weft_endpoint *endpoint, char *into, size_t room_len, size_t *len);

/// Closes an endpoint in good order: waits until what was sent has arrived, as long as the others
/// live, for 5 s if they do not take it. Operations that were started and not waited for end with
/// it, and their memory is the caller's again.
///
/// Errors: `WEFT_BUSY` while there are regions, joined buffers, groups or messages of the endpoint,
/// or calls of other threads that use it.
/// Threads: any.
weft_status weft_endpoint_free(weft_endpoint *endpoint);

/// Opens a context on a channel of a job with all its ranks, as `weft_endpoint_open` opens an
/// endpoint. A channel is a context's or an endpoint's.
///
/// Errors: as for `weft_endpoint_open`.
/// Threads: any; others that use the job wait.
weft_status weft_context_open(weft_job *job, uint16_t channel, weft_context **context);

/// This process's number among the context's ranks, from 0.
///
/// Threads: any, while no message is in hand.
weft_status weft_context_rank(weft_context *context, uint32_t *rank);

/// How many ranks there are, this one included.
///
/// Threads: any, while no message is in hand.
weft_status weft_context_size(weft_context *context, uint32_t *size);

/// Bytes of the longest message to rank `peer`.
///
/// Threads: any, while no message is in hand.
weft_status weft_context_message_max(weft_context *context, uint32_t peer, size_t *len);

/// Takes `len` bytes of the device's memory for a message to rank `peer`; waits while there are
/// none. The message is then in hand: its bytes, which mean nothing yet, are filled at `*memory`,
/// and `weft_context_commit` sends it, or `weft_context_release` gives it back unsent. Meanwhile
/// the context does nothing else, and no other call can use it.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_UNKNOWN_PEER`, `WEFT_BAD_MESSAGE` (longer than
/// `weft_context_message_max`), `WEFT_BUSY` while a message is in hand.
/// Threads: any, one at a time; what is in hand belongs to the thread that got it.
weft_status weft_context_reserve(weft_context *context, uint32_t peer, size_t len, void **memory);

/// As `weft_context_reserve`, without waiting: where there is no memory now, `*memory` becomes
/// null, and nothing is in hand.
///
/// Errors: as for `weft_context_reserve`.
/// Threads: as for `weft_context_reserve`.
weft_status weft_context_try_reserve(weft_context *context,
                                     uint32_t peer,
                                     size_t len,
                                     void **memory);

/// Sends what `weft_context_reserve` gave, with a tag that the receiver sees. Its memory is not the
/// program's any more.
///
/// Errors: `WEFT_BAD_MESSAGE` where nothing is in hand, or a message that was received.
/// Threads: the one that reserved it.
weft_status weft_context_commit(weft_context *context, uint64_t tag);

/// Gives back what is in hand: a message that was read, or memory that was reserved and is not
/// sent.
///
/// Errors: `WEFT_BAD_MESSAGE` where nothing is in hand.
/// Threads: the one that got it.
weft_status weft_context_release(weft_context *context);

/// Sends a copy of `len` bytes to rank `peer`, with a tag that the receiver sees.
///
/// Errors: as for `weft_context_reserve`.
/// Threads: any, one at a time, while no message is in hand.
weft_status weft_context_send(weft_context *context,
                              uint32_t peer,
                              uint64_t tag,
                              const void *from,
                              size_t len);

/// Receives the next message, from whomever; waits for it. It is then in hand: `*from` is where its
/// bytes can be read (never null), and `envelope` (which may be null) tells its sender, tag and
/// length; `weft_context_release` gives it back. Meanwhile the context does nothing else: peers
/// that send are kept waiting, so what is worked on for long is better copied out.
///
/// Errors: `WEFT_PEER_DEAD`, once for each peer that dies; `WEFT_PEER_CLOSED` when the last of the
/// others has ended in good order; `WEFT_BUSY` while a message is in hand.
/// Threads: any, one at a time; what is in hand belongs to the thread that got it.
weft_status weft_context_recv(weft_context *context, const void **from, weft_envelope *envelope);

/// As `weft_context_recv`, waiting for at most `timeout_ns`.
///
/// Errors: as for `weft_context_recv`, and `WEFT_TIMED_OUT`.
/// Threads: as for `weft_context_recv`.
weft_status weft_context_recv_timeout(weft_context *context,
                                      uint64_t timeout_ns,
                                      const void **from,
                                      weft_envelope *envelope);

/// As `weft_context_recv`, without waiting: where no message is there, `*from` becomes null, and
/// nothing is in hand.
///
/// Errors: as for `weft_context_recv`.
/// Threads: as for `weft_context_recv`.
weft_status weft_context_try_recv(weft_context *context,
                                  const void **from,
                                  weft_envelope *envelope);

/// Hands everything that waits for company to the medium now.
///
/// Threads: any, one at a time, while no message is in hand.
weft_status weft_context_flush(weft_context *context);

/// Closes a context in good order: waits until what was sent has arrived, as long as the others
/// live, for 5 s if they do not take it.
///
/// Errors: `WEFT_BUSY` while a message is in hand, or another thread is in a call with it.
/// Threads: any.
weft_status weft_context_free(weft_context *context);

/// Sends `len` bytes to rank `peer`, with a tag; waits until they may be used again, which for a
/// large message is when the receiver has taken it.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`, `WEFT_UNKNOWN_PEER`.
/// Threads: any.
weft_status weft_send(weft_endpoint *endpoint,
                      uint32_t peer,
                      uint64_t tag,
                      const void *message,
                      size_t len);

/// Receives a message into the start of `into`, which has room for `len` bytes; waits for it. It
/// comes from rank `source_rank` (or `WEFT_ANY_SOURCE`), and its tag is `tag` but for the bits that
/// are set in `ignore` (0: none; `WEFT_ANY_TAG`: all). Messages of one rank are received in the
/// order in which they were sent. `envelope` (which may be null) is told what the message is.
///
/// Errors: `WEFT_TRUNCATED` (then `envelope` is told, too), `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`.
/// Threads: any.
weft_status weft_recv(weft_endpoint *endpoint,
                      uint32_t source_rank,
                      uint64_t tag,
                      uint64_t ignore,
                      void *into,
                      size_t len,
                      weft_envelope *envelope);

/// As `weft_recv`, for at most `timeout_ns` nanoseconds.
///
/// Errors: as for `weft_recv`, and `WEFT_TIMED_OUT`: then nothing was received.
/// Threads: any.
weft_status weft_recv_timeout(weft_endpoint *endpoint,
                              uint32_t source_rank,
                              uint64_t tag,
                              uint64_t ignore,
                              void *into,
                              size_t len,
                              uint64_t timeout_ns,
                              weft_envelope *envelope);

/// Starts to send: the message must stay as it is until the request has ended.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`, `WEFT_UNKNOWN_PEER`; then nothing was started.
/// Threads: any.
weft_status weft_isend(weft_endpoint *endpoint,
                       uint32_t peer,
                       uint64_t tag,
                       const void *message,
                       size_t len,
                       weft_request *request);

/// Starts to receive as `weft_recv` does: nobody may touch the memory until the request has ended.
///
/// Threads: any.
weft_status weft_irecv(weft_endpoint *endpoint,
                       uint32_t source_rank,
                       uint64_t tag,
                       uint64_t ignore,
                       void *into,
                       size_t len,
                       weft_request *request);

/// Whether a request has ended, and how; makes progress. If it has, `done` is true, the request is
/// none any more, and `envelope` (which may be null) is told what was received; for operations that
/// receive nothing it is left as it is, or told something of no use.
///
/// Errors: the operation's own, with `done` true: `WEFT_TRUNCATED`, `WEFT_PEER_DEAD`,
/// `WEFT_CANCELLED`, ... `WEFT_NO_REQUEST`.
/// Threads: any; of those that ask for the end of one request, one is told.
weft_status weft_test(weft_request *request, bool *done, weft_envelope *envelope);

/// Waits for a request's end, which is told as by `weft_test`.
///
/// Errors: as for `weft_test`.
/// Threads: any; of those that wait for one request, one is told.
weft_status weft_wait(weft_request *request, weft_envelope *envelope);

/// Waits for the ends of `count` requests; those that are none are passed over. `envelopes` (which
/// may be null) has as many places.
///
/// Errors: the first one, after all have ended.
/// Threads: any; as for `weft_wait`.
weft_status weft_wait_all(weft_request *requests, size_t count, weft_envelope *envelopes);

/// Cancels an operation that has not begun to take effect: a receive without a message, a send that
/// the receiver has not seen. Whether or not it could be cancelled, it ends, and is to be waited
/// for. `cancelled` (which may be null) says whether it was.
///
/// Errors: `WEFT_NO_REQUEST`.
/// Threads: any.
weft_status weft_cancel(weft_request *request, bool *cancelled);

/// Says that nobody will ask how an operation ended. It goes on, and its memory must stay until it
/// has ended all the same: for operations on regions that is until the next flush, for others as
/// soon as the program knows it by itself. The request is none any more.
///
/// Errors: `WEFT_NO_REQUEST`.
/// Threads: any.
weft_status weft_detach(weft_request *request);

/// Waits for a message that fits (as for `weft_recv`), and tells what it is; it stays.
///
/// Errors: `WEFT_PEER_DEAD` or `WEFT_PEER_CLOSED` when no such message can come any more.
/// Threads: any.
weft_status weft_probe(weft_endpoint *endpoint,
                       uint32_t source_rank,
                       uint64_t tag,
                       uint64_t ignore,
                       weft_envelope *envelope);

/// As `weft_probe`, but does not wait: `found` says whether there is such a message now. Makes
/// progress.
///
/// Threads: any.
weft_status weft_iprobe(weft_endpoint *endpoint,
                        uint32_t source_rank,
                        uint64_t tag,
                        uint64_t ignore,
                        bool *found,
                        weft_envelope *envelope);

/// Takes the oldest message that fits (as for `weft_recv`) out of the matching, if one has arrived;
/// otherwise `message` becomes null. It is to be received by `weft_mrecv`, by which it is freed.
///
/// Threads: any.
weft_status weft_mprobe(weft_endpoint *endpoint,
                        uint32_t source_rank,
                        uint64_t tag,
                        uint64_t ignore,
                        weft_message **message,
                        weft_envelope *envelope);

/// Receives a message that `weft_mprobe` took out, into the start of `into`, which has room for
/// `len` bytes; with less room than it has, what is beyond is lost. The handle is dead from then
/// on.
///
/// Errors: as for `weft_recv`.
/// Threads: any; of those that receive one message, one does.
weft_status weft_mrecv(weft_message *message, void *into, size_t len, weft_envelope *envelope);

/// Registers `len` bytes of memory that Weft allocates: zeroed, and reached by peers of the same
/// node with one plain copy. `allowed` is `WEFT_GET`, `WEFT_PUT`, or both. The owner uses it by
/// `weft_region_read` and `weft_region_write`.
///
/// Errors: `WEFT_SYSTEM` when memory is short, `WEFT_REGION` without any right.
/// Threads: any.
weft_status weft_region_allocate(weft_endpoint *endpoint,
                                 size_t len,
                                 int allowed,
                                 weft_region **region);

/// Registers memory of the program, which must stay until the region has been freed. Its bytes
/// change while the program does something else: it looks there after a notice, or after what else
/// tells it that a peer's operation has ended.
///
/// Errors: `WEFT_REGION` without any right, `WEFT_NULL`.
/// Threads: any.
weft_status weft_region_register(weft_endpoint *endpoint,
                                 void *memory,
                                 size_t len,
                                 int allowed,
                                 weft_region **region);

/// Gives what peers reach the region by.
///
/// Threads: any.
weft_status weft_handle_of(weft_region *region, weft_region_handle *name);

/// Tells what a handle says, if it is one.
///
/// Errors: `WEFT_REGION` for bytes that are no handle.
/// Threads: any.
weft_status weft_handle_read(const weft_region_handle *name, weft_handle_info *info);

/// Copies `len` bytes of the own region, from byte `offset` on, whatever its rights. Bytes that a
/// peer writes in this moment may be old or new.
///
/// Errors: `WEFT_REGION` if they are not all inside.
/// Threads: any.
weft_status weft_region_read(weft_region *region, uint64_t offset, void *into, size_t len);

/// Copies `len` bytes to the own region, from byte `offset` on, whatever its rights.
///
/// Errors: `WEFT_REGION` if they would not all be inside.
/// Threads: any.
weft_status weft_region_write(weft_region *region, uint64_t offset, const void *from, size_t len);

/// The oldest notice of the region that was not taken yet, if there is one: `found` says so. Makes
/// progress.
///
/// Threads: any; each notice is given once.
weft_status weft_region_try_notice(weft_region *region, bool *found, weft_notice *notice);

/// As `weft_region_try_notice`, but waits for one.
///
/// Errors: `WEFT_PEER_DEAD` or `WEFT_PEER_CLOSED` when the last of the others is gone.
/// Threads: any; each notice is given once.
weft_status weft_region_wait_notice(weft_region *region, weft_notice *notice);

/// As `weft_region_wait_notice`, for at most `timeout_ns` nanoseconds.
///
/// Errors: as for `weft_region_wait_notice`, and `WEFT_TIMED_OUT`.
/// Threads: any; each notice is given once.
weft_status weft_region_wait_notice_timeout(weft_region *region,
                                            uint64_t timeout_ns,
                                            weft_notice *notice);

/// Drops a region: from then on no byte of it is read or written for peers, whose operations end in
/// `WEFT_REFUSED`. For registered memory it waits for pieces that peers are moving in this moment.
///
/// Errors: `WEFT_BUSY` while another thread uses it, as in a wait for a notice.
/// Threads: any.
weft_status weft_region_free(weft_region *region);

/// Writes `len` bytes to a region of some rank, from byte `offset` of it on; waits until they are
/// there.
///
/// Errors: `WEFT_REGION` (bounds, rights; nothing was sent), `WEFT_REFUSED` (the owner's word: most
/// often the region was freed), `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`.
/// Threads: any.
weft_status weft_put(weft_endpoint *endpoint,
                     const weft_region_handle *to,
                     uint64_t offset,
                     const void *from,
                     size_t len);

/// As `weft_put`; then the region's owner has a notice with `value`.
///
/// Errors: as for `weft_put`; `WEFT_REFUSED` also if the owner leaves 65536 notices.
/// Threads: any.
weft_status weft_put_with(weft_endpoint *endpoint,
                          const weft_region_handle *to,
                          uint64_t offset,
                          const void *from,
                          size_t len,
                          uint64_t value);

/// Reads `len` bytes of a region, from byte `offset` of it on; waits for them.
///
/// Errors: as for `weft_put`.
/// Threads: any.
weft_status weft_get(weft_endpoint *endpoint,
                     const weft_region_handle *from,
                     uint64_t offset,
                     void *into,
                     size_t len);

/// Starts what `weft_put` does: the bytes must stay as they are until the request has ended.
/// Operations that were started are not ordered: start after a fence what must be done later.
///
/// Errors: as for `weft_put`; what the owner refuses is told by the request's end.
/// Threads: any.
weft_status weft_iput(weft_endpoint *endpoint,
                      const weft_region_handle *to,
                      uint64_t offset,
                      const void *from,
                      size_t len,
                      weft_request *request);

/// Starts what `weft_put_with` does, as `weft_iput`.
///
/// Errors: as for `weft_iput`.
/// Threads: any.
weft_status weft_iput_with(weft_endpoint *endpoint,
                           const weft_region_handle *to,
                           uint64_t offset,
                           const void *from,
                           size_t len,
                           uint64_t value,
                           weft_request *request);

/// Starts what `weft_get` does: nobody may touch the memory until the request has ended.
///
/// Errors: as for `weft_iput`.
/// Threads: any.
weft_status weft_iget(weft_endpoint *endpoint,
                      const weft_region_handle *from,
                      uint64_t offset,
                      void *into,
                      size_t len,
                      weft_request *request);

/// Waits until all operations on regions of rank `peer` that were started have ended: what they
/// have written is there.
///
/// Errors: how the first operation failed whose request was detached. Others tell their own.
/// Threads: any; what other threads start meanwhile is not waited for.
weft_status weft_flush(weft_endpoint *endpoint, uint32_t peer);

/// As `weft_flush`, for all ranks.
///
/// Errors: as for `weft_flush`.
/// Threads: any; as for `weft_flush`.
weft_status weft_flush_all(weft_endpoint *endpoint);

/// Has what is started on regions of rank `peer` from now on be done after all that was started
/// before. Waits for less than `weft_flush`: for what later operations could overtake, which
/// is puts whose bytes the peer fetches and gets; and not at all where there are none.
///
/// Threads: any; what other threads start meanwhile is not waited for.
weft_status weft_fence(weft_endpoint *endpoint, uint32_t peer);

/// Joins `len` bytes of memory that Weft allocates, zeroed, with such memory of rank `peer`, which
/// makes the same call with this rank and the same `number`; its `len` may differ. Waits for it.
/// The number tells pairs apart that join the same two ranks.
///
/// Errors: `WEFT_SYSTEM` when memory is short; `WEFT_UNKNOWN_PEER`, `WEFT_PEER_DEAD`,
/// `WEFT_PEER_CLOSED`.
/// Threads: any; several with the same peer need different numbers.
weft_status weft_join(weft_endpoint *endpoint,
                      uint32_t peer,
                      uint32_t number,
                      size_t len,
                      weft_joined **joined);

/// Gives the bytes of the other end.
///
/// Threads: any.
weft_status weft_joined_peer_len(weft_joined *joined, uint64_t *len);

/// Copies `len` bytes from `from` into this end, from byte `offset` of it on.
///
/// Errors: `WEFT_REGION` if they would not all be inside.
/// Threads: any.
weft_status weft_joined_fill(weft_joined *joined, uint64_t offset, const void *from, size_t len);

/// Copies `len` bytes of this end, from byte `offset` on, to `into`.
///
/// Errors: `WEFT_REGION` if they are not all inside.
/// Threads: any.
weft_status weft_joined_look(weft_joined *joined, uint64_t offset, void *into, size_t len);

/// Starts to move `len` bytes of this end, from byte `from` on, to byte `to` of the other one.
/// They must not be changed before the next flag has been given, or a `weft_joined_flush`. What is
/// written between two flags is unordered.
///
/// Errors: `WEFT_REGION` if they are not all inside, here or there; `WEFT_PEER_DEAD`,
/// `WEFT_PEER_CLOSED`.
/// Threads: any.
weft_status weft_joined_write(weft_joined *joined, uint64_t from, uint64_t to, size_t len);

/// Gives the other side a flag, with a value. Waits for long writes that it could overtake.
///
/// Errors: as for `weft_joined_write`; `WEFT_REFUSED` for a long write if the other end was freed.
/// Threads: any.
weft_status weft_joined_flag(weft_joined *joined, uint64_t value);

/// Waits until all that was written is there, and all flags.
///
/// Errors: how the first of them failed.
/// Threads: any; what other threads write meanwhile is not waited for.
weft_status weft_joined_flush(weft_joined *joined);

/// The value of the other side's oldest flag that was not taken yet, if there is one: `found` says
/// so. Makes progress.
///
/// Threads: any; each flag is given once.
weft_status weft_joined_try_flag(weft_joined *joined, bool *found, uint64_t *value);

/// As `weft_joined_try_flag`, but waits for one.
///
/// Errors: `WEFT_PEER_DEAD` or `WEFT_PEER_CLOSED` when the other side is gone.
/// Threads: any; each flag is given once.
weft_status weft_joined_wait_flag(weft_joined *joined, uint64_t *value);

/// As `weft_joined_wait_flag`, for at most `timeout_ns` nanoseconds.
///
/// Errors: as for `weft_joined_wait_flag`, and `WEFT_TIMED_OUT`.
/// Threads: any; each flag is given once.
weft_status weft_joined_wait_flag_timeout(weft_joined *joined,
                                          uint64_t timeout_ns,
                                          uint64_t *value);

/// Drops this end: what the other side writes from then on ends in `WEFT_REFUSED`.
///
/// Errors: `WEFT_BUSY` while another thread uses it, as in a wait for a flag.
/// Threads: any.
weft_status weft_joined_free(weft_joined *joined);

/// Adds the number at `number` to one of a region, at byte `offset`, in one step; what it was goes
/// to `former`.
///
/// Errors: as for `weft_fetch_and_op`.
/// Threads: any.
weft_status weft_fetch_add(weft_endpoint *endpoint,
                           const weft_region_handle *at,
                           uint64_t offset,
                           weft_scalar scalar,
                           const void *number,
                           void *former);

/// Sets a number of a region to `desired` if it is `expected`, in one step; what it was goes to
/// `former`.
///
/// Errors: as for `weft_fetch_and_op`.
/// Threads: any.
weft_status weft_compare_swap(weft_endpoint *endpoint,
                              const weft_region_handle *at,
                              uint64_t offset,
                              weft_scalar scalar,
                              const void *expected,
                              const void *desired,
                              void *former);

/// Changes a row of `count` numbers of a region, from byte `offset` on, each in one step with
/// respect to all such operations; what they were goes to `former`. `offset` is a multiple of a
/// number's size, and there are 512 of them at most.
///
/// Errors: as for `weft_put`; `WEFT_REGION` also for what is not aligned, too many, or no operation
/// for such numbers, or one that compares; `WEFT_BAD_ARGUMENT` for a type or operation that is
/// none.
/// Threads: any.
weft_status weft_fetch_and_op(weft_endpoint *endpoint,
                              const weft_region_handle *at,
                              uint64_t offset,
                              weft_op op,
                              weft_scalar scalar,
                              size_t count,
                              const void *operands,
                              void *former);

/// As `weft_fetch_and_op`, with a comparand for each number, for operations that compare.
///
/// Errors: as for `weft_fetch_and_op`.
/// Threads: any.
weft_status weft_compare_and_op(weft_endpoint *endpoint,
                                const weft_region_handle *at,
                                uint64_t offset,
                                weft_op op,
                                weft_scalar scalar,
                                size_t count,
                                const void *comparands,
                                const void *operands,
                                void *former);

/// As `weft_fetch_and_op`, without what the numbers were.
///
/// Errors: as for `weft_fetch_and_op`.
/// Threads: any.
weft_status weft_accumulate(weft_endpoint *endpoint,
                            const weft_region_handle *at,
                            uint64_t offset,
                            weft_op op,
                            weft_scalar scalar,
                            size_t count,
                            const void *operands);

/// Starts what `weft_fetch_and_op` does: the operands are copied, but nobody may touch `former`
/// until the request has ended.
///
/// Errors: as for `weft_fetch_and_op`; what the owner refuses is told by the request's end.
/// Threads: any.
weft_status weft_ifetch_and_op(weft_endpoint *endpoint,
                               const weft_region_handle *at,
                               uint64_t offset,
                               weft_op op,
                               weft_scalar scalar,
                               size_t count,
                               const void *operands,
                               void *former,
                               weft_request *request);

/// Starts what `weft_compare_and_op` does: comparands and operands are copied, but nobody may touch
/// `former` until the request has ended.
///
/// Errors: as for `weft_ifetch_and_op`.
/// Threads: any.
weft_status weft_icompare_and_op(weft_endpoint *endpoint,
                                 const weft_region_handle *at,
                                 uint64_t offset,
                                 weft_op op,
                                 weft_scalar scalar,
                                 size_t count,
                                 const void *comparands,
                                 const void *operands,
                                 void *former,
                                 weft_request *request);

/// Starts what `weft_accumulate` does: the operands are copied.
///
/// Errors: as for `weft_ifetch_and_op`.
/// Threads: any.
weft_status weft_iaccumulate(weft_endpoint *endpoint,
                             const weft_region_handle *at,
                             uint64_t offset,
                             weft_op op,
                             weft_scalar scalar,
                             size_t count,
                             const void *operands,
                             weft_request *request);

/// Waits until all ranks have come here.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`: then no barrier of this endpoint ends any more;
/// `WEFT_IN_BARRIER` while another thread is in one.
/// Threads: any, one at a time.
weft_status weft_barrier(weft_endpoint *endpoint);

/// Gives the `count` numbers at `data` of rank `root` to all.
///
/// All ranks must call the same collective operations in the same order, with the same root, count,
/// type and operation. If one dies, the others end in an error; what their memory has in it then is
/// unspecified.
///
/// Errors: `WEFT_COLLECTIVE`, `WEFT_BAD_ARGUMENT`, `WEFT_NULL` (nothing was sent); `WEFT_MISMATCH`,
/// `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`.
/// Threads: any, in the same order at all ranks.
weft_status weft_broadcast(weft_endpoint *endpoint,
                           uint32_t root,
                           void *data,
                           size_t count,
                           weft_scalar scalar);

/// Combines the `count` numbers at `data` of all ranks, one by one, into those of rank `root`; what
/// the others have in theirs afterwards is unspecified. The order of operands is the same in every
/// run.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
weft_status weft_reduce(weft_endpoint *endpoint,
                        uint32_t root,
                        weft_op op,
                        void *data,
                        size_t count,
                        weft_scalar scalar);

/// Combines the `count` numbers at `data` of all ranks, one by one, into those of all.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
weft_status weft_allreduce(weft_endpoint *endpoint,
                           weft_op op,
                           void *data,
                           size_t count,
                           weft_scalar scalar);

/// Combines the numbers at `from` of all ranks, one by one, and gives each rank its block of the
/// result: rank i the `count` numbers from i times `count` on. So `from` has as many blocks as
/// there are ranks, and `block` has one.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
weft_status weft_reduce_scatter(weft_endpoint *endpoint,
                                weft_op op,
                                const void *from,
                                void *block,
                                size_t count,
                                weft_scalar scalar);

/// Brings each rank's `block` of `count` numbers to rank `root`, whose `into` has them in the order
/// of ranks; at the others `into` is not looked at.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
weft_status weft_gather(weft_endpoint *endpoint,
                        uint32_t root,
                        const void *block,
                        void *into,
                        size_t count,
                        weft_scalar scalar);

/// Gives each rank its block of `count` numbers of rank `root`'s `from`, into `block`; at the
/// others `from` is not looked at.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
weft_status weft_scatter(weft_endpoint *endpoint,
                         uint32_t root,
                         const void *from,
                         void *block,
                         size_t count,
                         weft_scalar scalar);

/// Brings each rank's `block` of `count` numbers to all ranks, whose `into` has them in the order
/// of ranks.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
weft_status weft_allgather(weft_endpoint *endpoint,
                           const void *block,
                           void *into,
                           size_t count,
                           weft_scalar scalar);

/// Gives each rank its block of `count` numbers of `from`; `into` has a block of each, in the order
/// of ranks.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
weft_status weft_alltoall(weft_endpoint *endpoint,
                          const void *from,
                          void *into,
                          size_t count,
                          weft_scalar scalar);

/// Makes a group of the `count` ranks at `ranks`, which get their ranks in the group by their
/// places: 0, 1, ... This process must be among them. All members make it, from the same list; of
/// groups of one list, in the same order. Nothing is sent.
///
/// Errors: `WEFT_BAD_GROUP`, `WEFT_SETTING`.
/// Threads: any; groups of one list, one thread at a time.
weft_status weft_group_new(weft_endpoint *endpoint,
                           const uint32_t *ranks,
                           size_t count,
                           weft_group **group);

/// Makes the group of all ranks.
///
/// Errors: as for `weft_group_new`.
/// Threads: as for `weft_group_new`.
weft_status weft_group_all(weft_endpoint *endpoint, weft_group **group);

/// This process's rank in the group.
///
/// Threads: any.
weft_status weft_group_rank(weft_group *group, uint32_t *rank);

/// How many members the group has.
///
/// Threads: any.
weft_status weft_group_size(weft_group *group, uint32_t *size);

/// Enters a barrier, and waits until all members have entered it.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED` (a member is gone, or has left the group: no
/// barrier of it ends any more), `WEFT_IN_BARRIER`, `WEFT_BAD_GROUP`.
/// Threads: any, one at a time.
weft_status weft_group_barrier(weft_group *group);

/// Enters a barrier, and goes on at once; to be followed by `weft_group_wait`, or by
/// `weft_group_test` until that says that it is over.
///
/// Errors: as for `weft_group_barrier`.
/// Threads: any, one at a time.
weft_status weft_group_arrive(weft_group *group);

/// Waits until all members have entered the barrier that this one entered last.
///
/// Errors: as for `weft_group_barrier`.
/// Threads: any.
weft_status weft_group_wait(weft_group *group);

/// Whether all members have entered the barrier that this one entered last; makes progress.
///
/// Errors: as for `weft_group_barrier`.
/// Threads: any.
weft_status weft_group_test(weft_group *group, bool *over);

/// Gives the `len` bytes at `data` of the member with rank `root` in the group to all members, by
/// multicast where the network can. All call it with the same root and length, and their broadcasts
/// in the same order.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED` if the root is gone; `WEFT_MISMATCH`,
/// `WEFT_BAD_GROUP`.
/// Threads: any, in the same order at all members.
weft_status weft_group_broadcast(weft_group *group, uint32_t root, void *data, size_t len);

/// Sends a message of at most 1 GiB to all members, this one included, which deliver it in the
/// group's order; waits while too many are under way.
///
/// Errors: `WEFT_BAD_GROUP` if it is too long; `WEFT_PEER_DEAD` with this process's own number if
/// others have found it gone.
/// Threads: any.
weft_status weft_group_cast(weft_group *group, const void *message, size_t len);

/// Copies the next message in the group's order into the start of `into`, which has room for `room`
/// bytes; waits for it. `sender` (which may be null) is told its sender's rank in the group, `len`
/// (too) how many bytes it has. All members deliver the same messages in the same order, and must
/// go on taking them: one that does not stops the others in the end.
///
/// Errors: `WEFT_TRUNCATED` if it is longer, then nothing was copied, and the next call gives the
/// same message; `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED` when all others are gone and nothing is under
/// way.
/// Threads: any; others that deliver wait.
weft_status weft_group_deliver(weft_group *group,
                               void *into,
                               size_t room,
                               uint32_t *sender,
                               size_t *len);

/// As `weft_group_deliver`, but does not wait: `found` says whether there was a message. Makes
/// progress.
///
/// Errors: as for `weft_group_deliver`; with `WEFT_TRUNCATED`, `found` is true.
/// Threads: any; others that deliver wait.
weft_status weft_group_try_deliver(weft_group *group,
                                   bool *found,
                                   void *into,
                                   size_t room,
                                   uint32_t *sender,
                                   size_t *len);

/// Leaves the group, in good order: waits for a barrier that was entered, for 5 s at most. The
/// other members are told.
///
/// Errors: `WEFT_BUSY` while another thread uses it.
/// Threads: any.
weft_status weft_group_free(weft_group *group);

/// Begins a plan for a grid of processes: `processes` and `periodic` have a value for each of so
/// many axes, the slowest first. Ranks are numbered row by row; an axis that is periodic ends where
/// it begins. All ranks of the job make the plan, with the same arrays and stages in the same
/// order.
///
/// Errors: `WEFT_HALO`.
/// Threads: any.
weft_status weft_plan_grid(weft_endpoint *endpoint,
                           size_t axes,
                           const uint32_t *processes,
                           const bool *periodic,
                           weft_plan **plan);

/// Begins a plan with `count` neighbours, which are named one by one, along so many axes. As for
/// `weft_plan_grid` else.
///
/// Errors: `WEFT_HALO`.
/// Threads: any.
weft_status weft_plan_neighbours(weft_endpoint *endpoint,
                                 size_t axes,
                                 const weft_neighbour *neighbours,
                                 size_t count,
                                 weft_plan **plan);

/// Says what to do about corners: one of `weft_corners`.
///
/// Errors: `WEFT_BAD_ARGUMENT`, `WEFT_HALO` if the plan is built.
/// Threads: any; others that use the plan wait.
weft_status weft_plan_corners(weft_plan *plan, int corners);

/// Adds an array with so many axes, the slowest first, and cells of `unit` bytes. It begins at
/// `memory`, with its first ghost cell, and stays until the plan has been freed; where `memory` is
/// null, Weft allocates it, zeroed, until then: neighbours in the node copy straight from that, so
/// it is the fastest. `strides` has the bytes from a cell to the next along each axis; null: there
/// are no gaps. Gives the array's number for stages, and its memory; either may be null.
///
/// Between the start of a stage and its end the program does not change cells that neighbours get,
/// nor use ghost cells. In memory of its own it must not: they may be sent at any time.
///
/// Errors: `WEFT_HALO` for a layout that makes no sense, or if the plan is built; `WEFT_SYSTEM`.
/// Threads: any; others that use the plan wait.
weft_status weft_plan_array(weft_plan *plan,
                            void *memory,
                            size_t axes,
                            const weft_axis *layers,
                            size_t unit,
                            const size_t *strides,
                            int *array,
                            void **allocated);

/// Adds a stage, which exchanges these `count` arrays together, and gives its number.
///
/// Errors: `WEFT_HALO` for numbers that are no arrays, or if the plan is built.
/// Threads: any; others that use the plan wait.
weft_status weft_plan_stage(weft_plan *plan, const int *arrays, size_t count, int *stage);

/// Builds the plan with all other ranks: what each sends is compared with what its neighbour
/// expects. If it fails, it fails at all ranks, and the plan can only be freed.
///
/// Errors: `WEFT_HALO`, of which `weft_error_text` tells what both sides have; `WEFT_PEER_DEAD`.
/// Threads: one at a time on an endpoint, as with collective operations.
weft_status weft_plan_build(weft_plan *plan);

/// Begins a stage: the boundaries of its arrays are on their way to the neighbours.
///
/// Errors: `WEFT_HALO` if it is under way already; `WEFT_PEER_DEAD`, after which the plan is of no
/// use any more.
/// Threads: any; others that use the plan wait.
weft_status weft_plan_start(weft_plan *plan, int stage);

/// Goes on with a stage, and says whether it has ended, as one that was not started has.
///
/// Errors: `WEFT_PEER_DEAD`, after which the plan is of no use any more.
/// Threads: any; others that use the plan wait.
weft_status weft_plan_test(weft_plan *plan, int stage, bool *has_ended);

/// Waits until a stage has ended: the ghost layers of its arrays hold what the neighbours had when
/// they started it.
///
/// Errors: as for `weft_plan_test`.
/// Threads: any; others that use the plan wait.
weft_status weft_plan_wait(weft_plan *plan, int stage);

/// As `weft_plan_wait`, for at most `timeout_ns`.
///
/// Errors: as for `weft_plan_wait`, and `WEFT_TIMED_OUT`: then it is still under way.
/// Threads: any; others that use the plan wait.
weft_status weft_plan_wait_timeout(weft_plan *plan, int stage, uint64_t timeout_ns);

/// Begins a stage and waits for its end.
///
/// Errors: as for `weft_plan_start`.
/// Threads: any; others that use the plan wait.
weft_status weft_plan_exchange(weft_plan *plan, int stage);

/// Frees a plan, built or not, and the memory that Weft has allocated for its arrays. What is under
/// way is given up; memory of the program is its own again when this returns.
///
/// Errors: `WEFT_BUSY` while another thread uses it.
/// Threads: any.
weft_status weft_plan_free(weft_plan *plan);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WEFT_H */
