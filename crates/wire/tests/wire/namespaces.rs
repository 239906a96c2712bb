//! Runs the tests of `link` over a real network link: two network namespaces with a pair of virtual
//! devices, which `tc` limits to 40 Mbit/s. Needs root, `ip` and `tc`.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;

use async_trait::async_trait;
use nacre_clock::SystemClock;
use nacre_conformance::MemoryStore;
use nacre_object::{EntityName, Guard, NodeName, Peer, Result, Standing, Unlimited};
use nacre_wire::{
    Authority, Endpoint, Identity, LinkShaper, Listener, Server, Session, SessionOptions, Usage,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::oneshot;

use crate::link::{BULK, read, settings, small_requests_pass, submit, write};

/// The speed that `tc` permits. The stated speed of the link is a little lower.
const RATE: &str = "40mbit";
const SERVER_ADDRESS: &str = "10.203.0.1";
const CLIENT_ADDRESS: &str = "10.203.0.2";

/// Two network namespaces, with a limited link between them.
struct Namespaces {
    server: String,
    client: String,
}

impl Namespaces {
    /// `None` without the rights of root.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let name = |end: &str| format!("nacre-{}-{end}", std::process::id());
        let both = Self { server: name("s"), client: name("c") };
        let (server, client) = (both.server.as_str(), both.client.as_str());
        run("ip", &["netns", "add", server]);
        run("ip", &["netns", "add", client]);
        let pair = ["type", "veth", "peer", "name", "nacre0", "netns", client];
        run("ip", &[&["link", "add", "nacre0", "netns", server][..], &pair].concat());
        for (space, address) in [(server, SERVER_ADDRESS), (client, CLIENT_ADDRESS)] {
            let address = format!("{address}/24");
            run("ip", &["-n", space, "addr", "add", &address, "dev", "nacre0"]);
            run("ip", &["-n", space, "link", "set", "nacre0", "up"]);
            let queue = ["root", "handle", "1:", "htb", "default", "1"];
            run("tc", &[&["-n", space, "qdisc", "add", "dev", "nacre0"][..], &queue].concat());
            let class = ["parent", "1:", "classid", "1:1", "htb", "rate", RATE];
            run("tc", &[&["-n", space, "class", "add", "dev", "nacre0"][..], &class].concat());
        }
        Some(both)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for space in [&self.server, &self.client] {
            let _ = Command::new("ip").args(["netns", "del", space]).status();
        }
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {said}", arguments.join(" "));
}

/// Runs work on a thread of its own in a namespace.
fn within<F: Future<Output = ()>>(
    space: &str,
    work: impl FnOnce() -> F + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let space = File::open(format!("/run/netns/{space}")).unwrap();
    std::thread::spawn(move || {
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work());
    })
}

/// Admits everybody with a certificate.
#[derive(Debug)]
struct Open;

#[async_trait]
impl Guard for Open {
    async fn admit(&self, _: &Peer) -> Result<Arc<dyn Standing>> {
        Ok(Arc::new(Unlimited::local()))
    }
}

/// Serves a store until the test stops it.
async fn serve(
    identity: Identity,
    shaper: Arc<LinkShaper>,
    told: mpsc::Sender<Endpoint>,
    stop: oneshot::Receiver<()>,
) {
    let server = Server::builder(NodeName::new("a").unwrap(), 1)
        .store(Arc::new(MemoryStore::plain()))
        .guard(Arc::new(Open))
        .link(shaper)
        .build();
    let any = Endpoint::tls(&format!("{SERVER_ADDRESS}:0")).unwrap();
    let listener = Listener::default().and_tls(&any, &identity).await.unwrap();
    told.send(listener.endpoints().remove(0)).unwrap();
    let stopped = async {
        let _ = stop.await;
    };
    server.serve(listener, stopped).await.unwrap();
}

#[test]
fn small_requests_pass_beside_bulk_transfers_over_a_limited_link() {
    let Some(spaces) = Namespaces::new() else { return };
    let (authority, _) = Authority::create().unwrap();
    let issue = |name, usage| authority.issue(&EntityName::new(name).unwrap(), usage).unwrap();
    let (node, client) = (issue("node.a", Usage::Node), issue("client", Usage::Client));
    let shaper = Arc::new(LinkShaper::new(Arc::new(SystemClock::default())));
    shaper.set(Some(settings()));
    let (told, endpoint) = mpsc::channel();
    let (stop, stopped) = oneshot::channel();
    let server = within(&spaces.server, move || serve(node, shaper, told, stopped));
    let endpoint = endpoint.recv().unwrap();
    let work = within(&spaces.client, move || async move {
        let options = SessionOptions { identity: Some(client), ..SessionOptions::default() };
        let connect = || Session::connect(endpoint.clone(), options.clone());
        let (one, other) = (connect().await.unwrap(), connect().await.unwrap());
        submit(&one, "bulk/a", write(BULK)).await;
        // On one session, then on one link.
        for small in [&one, &other] {
            small_requests_pass(&one, small, read(BULK)).await;
            small_requests_pass(&one, small, write(BULK)).await;
        }
    });
    let outcome = work.join();
    drop(stop);
    server.join().unwrap();
    outcome.unwrap();
}
