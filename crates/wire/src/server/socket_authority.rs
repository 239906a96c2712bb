//! Corrects the invalid `:authority` header that gRPC libraries send over Unix sockets.
//!
//! A library that connects to `unix:/run/x.sock` sends that path as `:authority`, raw or as
//! `%2Frun%2Fx.sock` (gRPC's C core since 1.57, grpc-java, grpc-swift). RFC 3986 does not allow
//! such an authority, and the library h2 would reset the stream. The node ignores the authority. So
//! on Unix sockets this module replaces each forbidden byte by `-` before h2 sees it.
//!
//! **Invariant:** the bytes of an `:authority` change, but never their number. So client and server
//! still compute the same entry sizes in HPACK's table (RFC 7541, section 4). If the module cannot
//! parse a connection, it passes the connection's bytes on unchanged.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The length of the connection preface that an HTTP/2 client sends first.
const PREFACE_BYTES: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
const FRAME_HEADER_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
/// The length of the priority fields at the start of a HEADERS frame.
const PRIORITY_BYTES: usize = 5;
/// The name of the header field to change. Clients send either its index in HPACK's static table or
/// this string.
const AUTHORITY: &[u8] = b":authority";
const AUTHORITY_INDEX: u8 = 1;
/// No client sends a longer HPACK integer.
const MAX_INTEGER_SHIFT: u32 = 28;

/// A connection over a Unix socket.
#[derive(Debug)]
pub(super) struct SocketAuthority<S> {
    stream: S,
    frames: Frames,
}

impl<S> SocketAuthority<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, frames: Frames::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SocketAuthority<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.frames.pass(&mut buffer.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SocketAuthority<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The frames of a connection, as far as they have come.
#[derive(Debug)]
struct Frames {
    /// How many bytes to pass on before the next frame's header, or before this frame's block of
    /// header fields.
    skip: usize,
    /// The header of the frame that begins next.
    header: [u8; FRAME_HEADER_BYTES],
    header_filled: usize,
    /// How many bytes of the block of headers are left in this frame.
    block_left: usize,
    block: Block,
    is_understood: bool,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            skip: PREFACE_BYTES,
            header: [0; FRAME_HEADER_BYTES],
            header_filled: 0,
            block_left: 0,
            block: Block::Field,
            is_understood: true,
        }
    }
}

impl Frames {
    fn pass(&mut self, mut bytes: &mut [u8]) {
        while self.is_understood && !bytes.is_empty() {
            let taken;
            if self.skip > 0 {
                taken = self.skip.min(bytes.len());
                self.skip -= taken;
            } else if self.block_left > 0 {
                taken = self.block_left.min(bytes.len());
                self.block_left -= taken;
                self.pass_block(&mut bytes[..taken]);
            } else {
                taken = 1;
                self.header[self.header_filled] = bytes[0];
                self.header_filled += 1;
                if self.header_filled == FRAME_HEADER_BYTES {
                    self.begin_frame();
                }
            }
            bytes = &mut bytes[taken..];
        }
    }

    fn begin_frame(&mut self) {
        self.header_filled = 0;
        let [high, middle, low, kind, flags, ..] = self.header;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        let before = match kind {
            HEADERS if flags & PADDED != 0 => {
                self.is_understood = false;
                return;
            }
            HEADERS => {
                self.block = Block::Field;
                if flags & PRIORITY != 0 { PRIORITY_BYTES } else { 0 }
            }
            CONTINUATION => 0,
            _ => length,
        };
        self.skip = before.min(length);
        self.block_left = length - self.skip;
    }

    fn pass_block(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            match self.block.after(byte) {
                Some(next) => self.block = next,
                None => {
                    self.is_understood = false;
                    return;
                }
            }
        }
    }
}

/// What the next byte of a block of headers is (RFC 7541, sections 5 and 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    /// The first byte of a field.
    Field,
    /// The next byte belongs to the index of a field. After the index comes a string of the kind
    /// `followed`; if `followed` is `None`, the next field comes.
    Index { followed: Option<Text> },
    /// The first byte of a string's length.
    Length(Text),
    /// A further byte of a string's length.
    MoreLength { length: usize, shift: u32, text: Text },
    /// A byte of the string.
    Text { left: usize, text: Text },
}

/// The meaning of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    /// The name of a field. The number says how many bytes so far equal those of [`AUTHORITY`];
    /// `None` after a difference.
    Name(Option<usize>),
    Value,
    Authority,
}

impl Block {
    /// Returns the state after a byte, and may change the byte. Returns `None` if the block of
    /// header fields is malformed.
    fn after(self, byte: &mut u8) -> Option<Self> {
        Some(match self {
            Self::Field => Self::after_field(*byte),
            Self::Index { followed } if *byte & 0x80 != 0 => Self::Index { followed },
            Self::Index { followed } => followed.map_or(Self::Field, Self::Length),
            Self::Length(text) => {
                let is_huffman = *byte & 0x80 != 0;
                let text = if is_huffman { text.unreadable() } else { text };
                match *byte & 0x7f {
                    0x7f => Self::MoreLength { length: 0x7f, shift: 0, text },
                    length => Self::of_text(length.into(), text),
                }
            }
            Self::MoreLength { length, shift, text } => {
                if shift > MAX_INTEGER_SHIFT {
                    return None;
                }
                let length = length + (usize::from(*byte & 0x7f) << shift);
                match *byte & 0x80 {
                    0 => Self::of_text(length, text),
                    _ => Self::MoreLength { length, shift: shift + 7, text },
                }
            }
            Self::Text { left, text } => {
                if text == Text::Authority && !is_of_authority(*byte) {
                    *byte = b'-';
                }
                Self::of_text(left - 1, text.with(*byte))
            }
        })
    }

    /// The state after `byte`, the first byte of a field. The byte says the kind of the field and
    /// holds the first bits of the field's index.
    fn after_field(byte: u8) -> Self {
        let (index_bits, is_literal) = match byte {
            0x80.. => (0x7f, false),
            0x40.. => (0x3f, true),
            0x20.. => (0x1f, false),
            _ => (0x0f, true),
        };
        let followed = is_literal.then_some(match byte & index_bits {
            0 => Text::Name(Some(0)),
            AUTHORITY_INDEX => Text::Authority,
            _ => Text::Value,
        });
        match byte & index_bits == index_bits {
            true => Self::Index { followed },
            false => followed.map_or(Self::Field, Self::Length),
        }
    }

    fn of_text(left: usize, text: Text) -> Self {
        match (left, text) {
            (0, Text::Name(Some(matched))) if matched == AUTHORITY.len() => {
                Self::Length(Text::Authority)
            }
            (0, Text::Name(_)) => Self::Length(Text::Value),
            (0, Text::Value | Text::Authority) => Self::Field,
            _ => Self::Text { left, text },
        }
    }
}

impl Text {
    /// Returns the kind for a string in Huffman code, which this module does not read.
    fn unreadable(self) -> Self {
        match self {
            Self::Name(_) => Self::Name(None),
            Self::Value | Self::Authority => Self::Value,
        }
    }

    /// The state after one more byte of the string.
    fn with(self, byte: u8) -> Self {
        match self {
            Self::Name(Some(matched)) if AUTHORITY.get(matched) == Some(&byte) => {
                Self::Name(Some(matched + 1))
            }
            Self::Name(_) => Self::Name(None),
            other => other,
        }
    }
}

/// Whether an authority may contain this byte, that is, whether host names, addresses and ports
/// may.
fn is_of_authority(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(first: u8, value: &str) -> Vec<u8> {
        assert!(value.len() < 0x7f);
        [&[first, value.len() as u8], value.as_bytes()].concat()
    }

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// Makes the bytes of a connection. Its block of header fields has this authority and is
    /// divided over two frames.
    fn connection(authority: &str) -> Vec<u8> {
        let long = "v".repeat(200);
        let mut block = vec![0x83, 0x86, 0x3f, 0x61];
        block.extend(literal(0x41, authority));
        block.extend(literal(0x44, "/nacre.v1.Nacre/Call"));
        for name in [":authority", ":authoritys", ":authorit"] {
            block.extend(literal(0x40, name));
            block.extend(&literal(0, if name == ":authority" { authority } else { "%2F" })[1..]);
        }
        // A new name, with a value whose length takes two bytes.
        block.extend(literal(0x40, "grpc%2Fname"));
        block.extend([0x7f, (200 - 0x7f) as u8]);
        block.extend(long.as_bytes());
        // An index of two bytes, from the dynamic table, then a Huffman-coded authority.
        block.extend([0x7f, 0x01]);
        block.extend(literal(0x00, "a%2Fb")[1..].to_vec());
        block.extend([0x01, 0x82, b'%', b'/']);
        let (front, rest) = block.split_at(9);
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 0, &[0; 6]));
        bytes.extend(frame(HEADERS, PRIORITY, &[&[b'%'; PRIORITY_BYTES], front].concat()));
        bytes.extend(frame(CONTINUATION, 4, rest));
        bytes.extend(frame(0, 0, literal(0x41, "%2Fdata").as_slice()));
        bytes.extend(frame(HEADERS, 4, &literal(0x11, authority)));
        bytes
    }

    #[test]
    fn a_socket_path_becomes_a_valid_authority_and_nothing_else_changes() {
        for (sent, passed) in [
            ("%2Ftmp%2Fx.sock", "-2Ftmp-2Fx.sock"),
            ("/run/ü.sock", "-run---.sock"),
            ("localhost:80", "localhost:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            let (before, after) = (connection(sent), connection(passed));
            // However the bytes arrive.
            for piece in [1, 2, 7, 64, before.len()] {
                let (mut bytes, mut frames) = (before.clone(), Frames::default());
                bytes.chunks_mut(piece).for_each(|chunk| frames.pass(chunk));
                assert_eq!(bytes, after, "{sent} in pieces of {piece}");
                assert!(tonic::codegen::http::uri::Authority::try_from(passed).is_ok());
            }
        }
    }

    #[test]
    fn a_connection_that_the_rewriter_does_not_understand_is_passed_on_unchanged() {
        let mut endless = literal(0x41, "")[..1].to_vec();
        endless.extend([0xff; 12]);
        for odd in [frame(HEADERS, PADDED, b"\x02%%%"), frame(HEADERS, 4, &endless)] {
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            bytes.extend(odd);
            bytes.extend(frame(HEADERS, 4, &literal(0x41, "%2F")));
            let (before, mut frames) = (bytes.clone(), Frames::default());
            frames.pass(&mut bytes);
            assert_eq!(bytes, before);
        }
    }

    #[test]
    fn fuzz_connections_of_which_only_authorities_may_change() {
        let crate_folder = env!("CARGO_MANIFEST_DIR");
        let samples = [connection("%2Ftmp%2Fx.sock")];
        nacre_fuzz::fuzz(crate_folder, "socket_authorities", &samples, |bytes| {
            let (mut passed, mut frames) = (bytes.to_vec(), Frames::default());
            frames.pass(&mut passed);
            let changed = bytes.iter().zip(&passed).filter(|(before, after)| before != after);
            assert!(changed.into_iter().all(|(_, after)| *after == b'-'));
            frames.is_understood
        });
    }
}
