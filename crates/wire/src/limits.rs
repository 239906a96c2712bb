//! Every bound of the protocol, with its reason.

use std::time::Duration;

use nacre_object::limits::{
    MAX_NOTIFY_BYTES, MAX_OPS, MAX_REPLY_BYTES, MAX_REPLY_ENTRIES, MAX_REQUEST_BYTES,
};

/// The version of the protocol spoken here.
pub const PROTOCOL_VERSION: u32 = 1;

/// One message, encoded: the largest payload a request or reply may carry and as much again for
/// what surrounds it (a map of one-byte keys is mostly framing).
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// A batch is closed once it is this long. It holds hundreds of small messages, so what a batch
/// costs by itself is spread thin; longer ones only delay their first message.
pub const BATCH_BYTES: usize = 64 * 1024;
/// What a message has in a batch besides its body: numbers, a kind, a span.
pub const MESSAGE_FRAME_BYTES: usize = 256;
/// A batch that is received: one message may come on top of a batch that is nearly full.
pub const MAX_BATCH_BYTES: usize = MAX_MESSAGE_BYTES + MESSAGE_FRAME_BYTES + BATCH_BYTES;
/// Messages in a batch that is received, so that a batch of empty ones cannot unfold into
/// gigabytes. A full batch of the smallest requests has a quarter of this.
pub const MAX_BATCH_MESSAGES: usize = 16 * 1024;

/// Bytes of requests a client keeps under way on a session, those included that nobody waits for any more and
/// that are not sent yet; callers past it wait. Enough to keep a node busy over any local connection.
pub const CLIENT_ROOM_BYTES: usize = 32 * 1024 * 1024;
/// What a request counts for at least, so that the bound on bytes bounds the number, too: 8,192.
pub const REQUEST_COST_BYTES: usize = 4 * 1024;
/// Requests under way on a session, by these costs, from which on a client has a second one with the
/// node: eight small ones. With fewer, their answers share batches better than they overlap.
pub const LANE_BYTES: usize = 8 * REQUEST_COST_BYTES;
/// How long a client tries to connect before it counts as failed.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What a request may take if nothing else is said. Long enough for a node to restart and recover.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// The rest between the first two attempts to connect; it doubles with each further one...
pub const BACKOFF_MIN: Duration = Duration::from_millis(5);
/// ...up to this, so that a node that is back is found within a second.
pub const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// How often deadlines are looked at, and so how late an expired one may be noticed.
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(10);

/// Connections of one server. Each costs two buffers and a file descriptor.
pub const MAX_CONNECTIONS: usize = 4096;
/// Connections on which nothing is asked: not greeted yet, or idle. Past it the one that has been so
/// longest gives way, so that those who never say anything keep nobody out.
pub const MAX_IDLE_CONNECTIONS: usize = 1024;
/// Sessions of one server. A client has one a process, or two.
pub const MAX_SESSIONS: usize = 4096;
/// Sessions of one entity, so that one that opens ever more leaves room for the others.
pub const MAX_ENTITY_SESSIONS: usize = 1024;
/// HTTP/2 streams of one connection: a session, and some unary calls beside it.
pub const MAX_STREAMS: u32 = 64;
/// Requests of one session under way in the server. Past it the session is read no further.
pub const MAX_UNDER_WAY: usize = 4096;
/// What they may take in memory when another is begun. A client of ours never has so much under way.
pub const MAX_UNDER_WAY_BYTES: usize = 64 * 1024 * 1024;
/// What unary calls of one entity may take in memory, [`REQUEST_COST_BYTES`] each at least, until they have
/// ended, not until they are answered. Past it as much again waits its turn, and what comes then is refused: as much
/// as a session has under way.
pub const MAX_CALLS_BYTES: usize = MAX_UNDER_WAY_BYTES;
/// Unary calls of one entity that have not ended: each may have a connection of its own, and those of one
/// entity must leave some to others.
pub const MAX_ENTITY_CALLS: usize = 1024;
/// Watches of one session.
pub const MAX_WATCHES: usize = 1024;
/// Replies waiting to be read by the client. Past it nothing new of its session is begun: not another
/// message of a batch, either; and the client takes some of them within [`STALL_TIMEOUT`] or loses its session.
pub const REPLIES_WAITING_BYTES: usize = 8 * 1024 * 1024;
/// Replies waiting to be read by the client, when what was begun before went on to end. Past it
/// the session stops altogether, what was begun included, until the client reads.
pub const MAX_REPLIES_WAITING_BYTES: usize = 64 * 1024 * 1024;
/// How long a client may take nothing while more than [`REPLIES_WAITING_BYTES`] wait for it, or anything when it
/// asks no more; then its session is ended. One that takes a message in that time keeps it, however slowly it reads.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection may take until something is asked on it, how long it may be idle
/// afterwards, and how long a session may take from its request to its hello.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to hear that its connection is closed, once nothing is going on on it.
pub const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a server that was told to stop lets begun requests finish.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long accepting rests when the machine is out of descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The flow-control window of a session: what the other end may send before it is read. Several
/// times what fits in the sockets between them.
pub const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// The same for a connection, so that unary calls do not wait for a session that stands still.
pub const CONNECTION_WINDOW_BYTES: u32 = 2 * STREAM_WINDOW_BYTES;
/// The largest HTTP/2 frame: a full batch goes out in one.
pub const MAX_FRAME_BYTES: u32 = 128 * 1024;
/// A host's name, as the domain name system limits it.
pub const MAX_HOST_BYTES: usize = 253;
/// A Unix socket's path, as the kernel takes it (`sun_path` has 108 bytes with the final NUL). One in a deeper
/// folder is reached through a descriptor of the folder.
pub const MAX_SOCKET_PATH_BYTES: usize = 107;
/// The name of a Unix socket in such a folder.
pub const MAX_SOCKET_NAME_BYTES: usize = 80;
/// What comes before that name, with the largest descriptor there is.
const FOLDER_PREFIX_BYTES: usize = "/proc/self/fd/2147483647/".len();

const _: () = assert!(FOLDER_PREFIX_BYTES + MAX_SOCKET_NAME_BYTES <= MAX_SOCKET_PATH_BYTES);
const _: () = assert!(2 * MAX_REQUEST_BYTES <= MAX_MESSAGE_BYTES);
const _: () = assert!(2 * MAX_REPLY_BYTES <= MAX_MESSAGE_BYTES);
/// What an entry of a reply has in its message besides key and value: three tags, three lengths.
const MAX_ENTRY_FRAME_BYTES: usize = 3 + 3 * 3;
const _: () = assert!(
    MAX_REPLY_BYTES + MAX_REPLY_ENTRIES * MAX_ENTRY_FRAME_BYTES + MAX_OPS * MESSAGE_FRAME_BYTES
        <= MAX_MESSAGE_BYTES,
    "whatever a transaction answers fits, so it is not done and then refused",
);
const _: () = assert!(MAX_ENTITY_SESSIONS + MAX_ENTITY_CALLS < MAX_CONNECTIONS);
const _: () = assert!(MAX_NOTIFY_BYTES < BATCH_BYTES + MAX_MESSAGE_BYTES);
const _: () = assert!(MAX_MESSAGE_BYTES <= CLIENT_ROOM_BYTES, "any message has room by itself");
const _: () = assert!(LANE_BYTES < CLIENT_ROOM_BYTES);
const _: () = assert!(CLIENT_ROOM_BYTES <= MAX_UNDER_WAY_BYTES);
const _: () = assert!(MAX_MESSAGE_BYTES <= MAX_CALLS_BYTES, "any message has room by itself");
const _: () = assert!(MAX_CALLS_BYTES <= u32::MAX as usize, "a call may have all of it");
const _: () = assert!(MAX_MESSAGE_BYTES <= MAX_REPLIES_WAITING_BYTES);
const _: () = assert!(MAX_IDLE_CONNECTIONS < MAX_CONNECTIONS);
const _: () = assert!(MAX_ENTITY_SESSIONS < MAX_SESSIONS);
const _: () = assert!(BATCH_BYTES < MAX_FRAME_BYTES as usize);
