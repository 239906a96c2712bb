//! Every bound of the protocol, with its reason.

use std::time::Duration;

use nacre_object::limits::{
    MAX_NOTIFY_BYTES, MAX_OPS, MAX_REPLY_BYTES, MAX_REPLY_ENTRIES, MAX_REQUEST_BYTES,
};

/// The version of the protocol that this crate speaks.
pub const PROTOCOL_VERSION: u32 = 1;

/// The largest encoded message: the largest payload of a request or reply, and as many bytes again
/// for framing. A list of map entries with keys of one byte needs more framing than payload.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// The sender closes a batch once it is this long. The batch then holds hundreds of small messages,
/// which share the cost of sending it. A longer batch would only delay its first message.
pub const BATCH_BYTES: usize = 64 * 1024;
/// The most bytes that a message needs in a batch in addition to its body: for its ids, its
/// kind and its trace span.
pub const MESSAGE_FRAME_BYTES: usize = 256;
/// The largest batch that a receiver accepts. It is larger than [`BATCH_BYTES`], because the sender
/// may append one message of any size to a batch that is nearly full.
pub const MAX_BATCH_BYTES: usize = MAX_MESSAGE_BYTES + MESSAGE_FRAME_BYTES + BATCH_BYTES;
/// The most messages in a received batch. Without this bound, a batch of empty messages could
/// decode into gigabytes. A full batch of the smallest requests has a quarter as many messages.
pub const MAX_BATCH_MESSAGES: usize = 16 * 1024;

/// How many bytes of requests a client may have in flight on a session; further callers wait.
/// Messages whose callers gave up count too, until they are sent. The bound is large enough to keep
/// a node busy over any local connection.
pub const CLIENT_BUDGET_BYTES: usize = 32 * 1024 * 1024;
/// A request that is smaller than this counts as this many bytes of the budget. So the bound on
/// bytes also bounds the number of requests in flight, to 8,192.
pub const REQUEST_COST_BYTES: usize = 4 * 1024;
/// A client opens a second session with the node when this many bytes of requests (eight small
/// requests) are in flight. With fewer requests, sharing batches saves more time than overlapping
/// the work of client and node.
pub const SECOND_SESSION_BYTES: usize = 8 * REQUEST_COST_BYTES;
/// How long one attempt to connect may take before it counts as failed.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The default deadline of a request. Long enough for a node to restart and recover.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// The pause between the first two attempts to connect. The pause doubles with each further
/// attempt, up to [`BACKOFF_MAX`].
pub const BACKOFF_MIN: Duration = Duration::from_millis(5);
/// The longest pause between two attempts to connect. Once a node is up again, clients connect
/// within this time.
pub const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// The time between two checks of deadlines. A request may fail this long after its deadline.
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(10);

/// The number of connections of one server. Each costs two buffers and a file descriptor.
pub const MAX_CONNECTIONS: usize = 4096;
/// The most connections without a running request, whether before the handshake or idle. If there
/// are more, the server closes the connection that has been idle longest, so that silent peers
/// cannot keep clients out.
pub const MAX_IDLE_CONNECTIONS: usize = 1024;
/// The number of sessions of one server. Each client process has one or two sessions.
pub const MAX_SESSIONS: usize = 4096;
/// The most sessions of one entity. The limit keeps an entity from taking the sessions that others
/// need.
pub const MAX_ENTITY_SESSIONS: usize = 1024;
/// The most HTTP/2 streams of one connection. A session is one stream, and each unary call uses
/// another.
pub const MAX_STREAMS: u32 = 64;
/// The most requests of one session in flight in the server. At this number the server stops
/// reading requests of the session.
pub const MAX_UNDER_WAY: usize = 4096;
/// The most memory for the requests of one session in flight in the server. Above it the server
/// starts no further request of the session. Clients of this crate never have that much in flight.
pub const MAX_UNDER_WAY_BYTES: usize = 64 * 1024 * 1024;
/// The most memory for the running unary calls of one entity. Each call counts as at least
/// [`REQUEST_COST_BYTES`] until it has ended, even if its client no longer waits for it. Beyond the
/// limit, further calls wait to begin. Once the waiting calls have as many bytes as this limit, the
/// server refuses calls.
pub const MAX_CALLS_BYTES: usize = MAX_UNDER_WAY_BYTES;
/// The most unary calls of one entity that have not ended. The limit is needed because each call
/// may have its own connection, and one entity must leave connections to others.
pub const MAX_ENTITY_CALLS: usize = 1024;
/// The most watches of one session.
pub const MAX_WATCHES: usize = 1024;
/// The bytes of unread replies at which the server starts no further message of the session, even
/// in the middle of a batch. The client must read some replies within [`STALL_TIMEOUT`], or the
/// server ends its session.
pub const REPLIES_WAITING_BYTES: usize = 8 * 1024 * 1024;
/// The bytes of unread replies at which the session stops completely: even running requests do not
/// go on until the client reads. More than [`REPLIES_WAITING_BYTES`] can wait, because requests
/// that were already in flight are still answered.
pub const MAX_REPLIES_WAITING_BYTES: usize = 64 * 1024 * 1024;
/// How long a client may read nothing while more than [`REPLIES_WAITING_BYTES`] of replies wait for
/// it. Once the client has finished sending, this also applies while fewer bytes wait. After this
/// time the server ends the session. A client that reads one message in that time keeps its
/// session.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The length of a part of a message. Once an operator has set the speed of a node's link with
/// `nacre slo link`, large messages are sent in parts. A small message then waits for one part at
/// most. On a link of 1 Gbit/s a part takes a quarter of a millisecond.
pub const PART_BYTES: usize = 32 * 1024;
/// The most tenants with an outgoing queue (a *lane*) of their own in one session. Further tenants
/// share the last lane.
pub const MAX_SESSION_LANES: usize = 64;
/// Once this many tenants share a node's link, further tenants together get the share of one
/// tenant. A tenant with a promise or a weight always has its own share.
pub const MAX_LINK_TENANTS: usize = 256;
/// How many messages of one session may be incomplete at a time. A message is incomplete while the
/// receiver has some parts of it, but not the last. A sender has at most one such message in each
/// lane.
pub const MAX_INCOMPLETE_MESSAGES: usize = MAX_SESSION_LANES;
/// The most memory for the incomplete messages of one session. It is as much as for its requests in
/// flight.
pub const MAX_INCOMPLETE_BYTES: usize = MAX_UNDER_WAY_BYTES;
/// The longest time for which the server stops reading a session whose tenant must wait for the
/// link. It is short compared with [`STALL_TIMEOUT`], so that the client does not take the node for
/// dead.
pub const MAX_READ_PAUSE: Duration = Duration::from_secs(1);
/// The same limit as [`MAX_READ_PAUSE`], for a session that has read messages of several tenants.
/// It is shorter, because all these tenants wait while the server does not read the session.
pub const MAX_SHARED_READ_PAUSE: Duration = Duration::from_millis(5);

/// The limit for each of three times: from a connection's start to its first request; the
/// connection's idle time after a request; and from the request for a session to the client's
/// hello.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to notice that its idle connection is closed.
pub const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a server that was told to stop waits until its running requests are done.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the server accepts no connection after the machine ran out of file descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The flow-control window of a session: how many bytes the sender may send before the receiver has
/// read them. It is several times as large as the socket buffers on the path.
pub const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// The flow-control window of a connection. It is twice a session's window, so that a session whose
/// client does not read does not block unary calls.
pub const CONNECTION_WINDOW_BYTES: u32 = 2 * STREAM_WINDOW_BYTES;
/// The largest HTTP/2 frame. A full batch fits into one frame.
pub const MAX_FRAME_BYTES: u32 = 128 * 1024;
/// A host's name, as the domain name system limits it.
pub const MAX_HOST_BYTES: usize = 253;
/// The longest path of a Unix socket that the kernel accepts (`sun_path` has 108 bytes with the
/// final NUL). For a longer path, `socket_path` opens the socket's folder and uses a short path
/// through its descriptor.
pub const MAX_SOCKET_PATH_BYTES: usize = 107;
/// The longest name of a Unix socket whose folder is opened in this way.
pub const MAX_SOCKET_NAME_BYTES: usize = 80;
/// The length of the short path before the socket's name, with the largest possible descriptor.
const FOLDER_PREFIX_BYTES: usize = "/proc/self/fd/2147483647/".len();

const _: () = assert!(FOLDER_PREFIX_BYTES + MAX_SOCKET_NAME_BYTES <= MAX_SOCKET_PATH_BYTES);
const _: () = assert!(2 * MAX_REQUEST_BYTES <= MAX_MESSAGE_BYTES);
const _: () = assert!(2 * MAX_REPLY_BYTES <= MAX_MESSAGE_BYTES);
/// The most bytes of framing that an entry of a reply has in addition to key and value: three tags
/// and three lengths.
const MAX_ENTRY_FRAME_BYTES: usize = 3 + 3 * 3;
const _: () = assert!(
    MAX_REPLY_BYTES + MAX_REPLY_ENTRIES * MAX_ENTRY_FRAME_BYTES + MAX_OPS * MESSAGE_FRAME_BYTES
        <= MAX_MESSAGE_BYTES,
    "every reply of a transaction fits, so none is committed and then refused",
);
const _: () = assert!(MAX_ENTITY_SESSIONS + MAX_ENTITY_CALLS < MAX_CONNECTIONS);
const _: () = assert!(MAX_NOTIFY_BYTES < BATCH_BYTES + MAX_MESSAGE_BYTES);
const _: () = assert!(MAX_MESSAGE_BYTES <= CLIENT_BUDGET_BYTES, "any single message fits");
const _: () = assert!(SECOND_SESSION_BYTES < CLIENT_BUDGET_BYTES);
const _: () = assert!(CLIENT_BUDGET_BYTES <= MAX_UNDER_WAY_BYTES);
const _: () = assert!(MAX_MESSAGE_BYTES <= MAX_CALLS_BYTES, "any single message fits");
const _: () = assert!(MAX_CALLS_BYTES <= u32::MAX as usize, "a call may have all of it");
const _: () = assert!(MAX_MESSAGE_BYTES <= MAX_REPLIES_WAITING_BYTES);
const _: () = assert!(MAX_MESSAGE_BYTES <= MAX_INCOMPLETE_BYTES, "any single message fits");
const _: () = assert!(PART_BYTES < BATCH_BYTES);
const _: () = assert!(MAX_READ_PAUSE.as_nanos() < STALL_TIMEOUT.as_nanos());
const _: () = assert!(MAX_IDLE_CONNECTIONS < MAX_CONNECTIONS);
const _: () = assert!(MAX_ENTITY_SESSIONS < MAX_SESSIONS);
const _: () = assert!(BATCH_BYTES < MAX_FRAME_BYTES as usize);
