//! A proxy for tests that can cut connections or stop passing bytes.

use std::sync::Mutex;

use nacre_wire::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Passes bytes between clients and a node, until the test cuts it.
pub struct Proxy {
    wire: watch::Sender<Wire>,
    accepting: Mutex<JoinHandle<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wire {
    /// Whether bytes pass.
    alive: bool,
    /// Connections older than this are closed.
    cuts: u64,
}

impl Proxy {
    pub fn start(front: &Endpoint, back: &Endpoint) -> Self {
        let listener = UnixListener::bind(front.path().unwrap()).unwrap();
        let back = back.path().unwrap().to_owned();
        let wire = watch::Sender::new(Wire { alive: true, cuts: 0 });
        let state = wire.clone();
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                // Without a node behind it, the client sees its connection closed.
                let Ok(node) = UnixStream::connect(&back).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_node, to_node) = node.into_split();
                tokio::spawn(pass(from_client, to_node, state.subscribe()));
                tokio::spawn(pass(from_node, to_client, state.subscribe()));
            }
        });
        Self { wire, accepting: Mutex::new(accepting) }
    }

    /// Closes every connection. New ones are accepted.
    pub fn cut(&self) {
        self.wire.send_modify(|wire| wire.cuts += 1);
    }

    /// Sets whether bytes pass. If not, neither client nor node notices at once.
    pub fn set_alive(&self, alive: bool) {
        self.wire.send_modify(|wire| wire.alive = alive);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.lock().unwrap().abort();
        self.cut();
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut wire: watch::Receiver<Wire>) {
    let since = wire.borrow().cuts;
    let mut watching = wire.clone();
    let forward = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            if wire.wait_for(|wire| wire.alive).await.is_err() {
                break;
            }
            if to.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = forward => {}
        _ = watching.wait_for(|wire| wire.cuts > since) => {}
    }
}
