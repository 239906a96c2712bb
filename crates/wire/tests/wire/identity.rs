//! Tests of identities over the wire: a connection proves which entity connects, and the node
//! checks each message by the entity's rights at that time.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use nacre_clock::SystemClock;
use nacre_conformance::{MemoryStore, TestClasses};
use nacre_object::{
    Capabilities, Demand, EntityName, Error, ErrorKind, Guard, ListPage, ListRequest, NodeName, Op,
    Peer, Reply, Request, Result, Standing, Store, TenantName, Watch, WatchEvent,
};
use nacre_wire::{
    Authority, Endpoint, Identity, Listener, RemoteStore, Server, Session, SessionOptions, Usage,
};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType,
};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::harness::{
    LONG, Node, SocketFolder, TestService, ask, connect, eventually, object, request, told,
};

fn entity(name: &str) -> EntityName {
    EntityName::new(name).unwrap()
}

/// A guard that admits the peers that a test names, with the rights that it names.
#[derive(Debug)]
struct Doorman {
    /// The only entities that are admitted.
    guest: Identity,
    /// Whether the guest may write.
    may_write: Arc<watch::Sender<bool>>,
    /// Whether the guest may stay.
    may_stay: Arc<watch::Sender<bool>>,
}

#[derive(Debug)]
struct Guest {
    entity: EntityName,
    may_write: watch::Receiver<bool>,
    may_stay: watch::Receiver<bool>,
}

#[async_trait]
impl Guard for Doorman {
    async fn admit(&self, peer: &Peer) -> Result<Arc<dyn Standing>> {
        let expected = Peer::Certified {
            entity: self.guest.entity().clone(),
            fingerprint: self.guest.fingerprint(),
        };
        if *peer != expected || !*self.may_stay.borrow() {
            return Err(Error::denied("not on the list").hint("ask the host"));
        }
        Ok(Arc::new(Guest {
            entity: self.guest.entity().clone(),
            may_write: self.may_write.subscribe(),
            may_stay: self.may_stay.subscribe(),
        }))
    }
}

impl Standing for Guest {
    fn entity(&self) -> &EntityName {
        &self.entity
    }

    fn tenant(&self) -> TenantName {
        TenantName::new("guests").unwrap()
    }

    fn allow(&self, demand: Demand<'_>) -> Result<()> {
        match demand {
            Demand::Request(request)
                if request.ops.iter().any(Op::is_write) && !*self.may_write.borrow() =>
            {
                Err(Error::denied("guests only look"))
            }
            // A caller without the right to write receives no events.
            Demand::Watch(_) if !*self.may_write.borrow() => Err(Error::denied("guests are deaf")),
            _ => Ok(()),
        }
    }

    fn ended(&self) -> BoxFuture<'static, ()> {
        let mut may_stay = self.may_stay.clone();
        async move {
            let _ = may_stay.wait_for(|may_stay| !may_stay).await;
        }
        .boxed()
    }
}

/// A store that reports the entity of each request.
#[derive(Debug)]
struct Witness {
    inner: MemoryStore,
    seen: watch::Sender<Vec<String>>,
}

impl Witness {
    fn new() -> Arc<Self> {
        let inner = MemoryStore::new(Arc::new(TestClasses), Arc::new(SystemClock::default()));
        Arc::new(Self { inner, seen: watch::Sender::default() })
    }
}

#[async_trait]
impl Store for Witness {
    async fn submit(&self, request: Request) -> Result<Reply> {
        let header = &request.header;
        let seen = format!("{} {}", header.source, header.tenant);
        self.seen.send_modify(|all| all.push(seen));
        self.inner.submit(request).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.inner.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
}

/// A node behind TLS with a doorman.
struct House {
    authority: Authority,
    authority_key: String,
    guest: Identity,
    may_write: Arc<watch::Sender<bool>>,
    may_stay: Arc<watch::Sender<bool>>,
    witness: Arc<Witness>,
    server: Server,
    endpoint: Endpoint,
}

impl House {
    async fn open() -> Self {
        let (authority, authority_key) = Authority::create().unwrap();
        let own = authority.issue(&entity("node.a"), Usage::Node).unwrap();
        let guest = authority.issue(&entity("guest"), Usage::Client).unwrap();
        let may_write = Arc::new(watch::Sender::new(true));
        let may_stay = Arc::new(watch::Sender::new(true));
        let witness = Witness::new();
        let doorman = Doorman {
            guest: guest.clone(),
            may_write: may_write.clone(),
            may_stay: may_stay.clone(),
        };
        let server = Server::builder(NodeName::new("a").unwrap(), 1)
            .store(witness.clone())
            .watch(Arc::new(witness.inner.clone()))
            .service("test", TestService::new())
            .guard(Arc::new(doorman))
            .build();
        let any = Endpoint::tls("127.0.0.1:0").unwrap();
        let listener = Listener::default().and_tls(&any, &own).await.unwrap();
        let endpoint = listener.endpoints().remove(0);
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener, std::future::pending()).await });
        Self { authority, authority_key, guest, may_write, may_stay, witness, server, endpoint }
    }

    async fn connect(&self, identity: &Identity) -> Result<Session> {
        let options = SessionOptions {
            identity: Some(identity.clone()),
            node: Some(NodeName::new("a").unwrap()),
            patience: std::time::Duration::from_millis(300),
            ..SessionOptions::default()
        };
        Session::connect(self.endpoint.clone(), options).await
    }
}

fn append(text: &str) -> Request {
    request(text, Op::Append { data: "x".into() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_carries_the_authenticated_entity_not_the_claimed_one() {
    let house = House::open().await;
    let store = RemoteStore::new(house.connect(&house.guest).await.unwrap());
    let mut claims = append("data/a");
    claims.header.source = entity("admin");
    claims.header.tenant = TenantName::new("gold").unwrap();
    store.submit(claims).await.unwrap();
    assert_eq!(*house.witness.seen.borrow(), ["guest guests"]);
    // A client on a Unix socket counts as the user who runs the node, whatever name it claims.
    let folder = SocketFolder::new();
    let node = Node::of_service(&folder.endpoint(), &TestService::new()).await;
    assert_eq!(
        ask(&connect(&node.endpoint).await, "who", "").await.unwrap(),
        "local default client"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_rights_reaches_the_next_message_of_an_open_session() {
    let house = House::open().await;
    let store = RemoteStore::new(house.connect(&house.guest).await.unwrap());
    store.submit(append("data/a")).await.unwrap();
    house.may_write.send_replace(false);
    let error = store.submit(append("data/a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let read = Op::Read { offset: 0, length: 10 };
    store.submit(request("data/a", read)).await.unwrap();
    house.may_write.send_replace(true);
    store.submit(append("data/a")).await.unwrap();
    assert_eq!(house.server.session_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_rights_ends_a_watch_before_its_next_event() {
    let house = House::open().await;
    let store = RemoteStore::new(house.connect(&house.guest).await.unwrap());
    let (id, inner) = (object("data/a"), &house.witness.inner);
    let said = |payload: &'static str| WatchEvent::Notified { payload: payload.into() };
    let mut watch = store.watch(&id).await.unwrap();
    inner.notify(&id, "before".into()).await.unwrap();
    assert_eq!(told(&mut watch).await, Some(said("before")));
    house.may_write.send_replace(false);
    inner.notify(&id, "secret".into()).await.unwrap();
    assert_eq!(told(&mut watch).await, None, "it is over");
    let error = store.watch(&id).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    house.may_write.send_replace(true);
    let mut watch = store.watch(&id).await.unwrap();
    inner.notify(&id, "after".into()).await.unwrap();
    assert_eq!(told(&mut watch).await, Some(said("after")));
    assert_eq!(house.server.session_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_entity_loses_its_sessions_and_gets_no_new_ones() {
    let house = House::open().await;
    let session = house.connect(&house.guest).await.unwrap();
    ask(&session, "echo", "hello").await.unwrap();
    house.may_stay.send_replace(false);
    session.until_connected(false).await;
    eventually("its session is gone", || house.server.session_count() == 0).await;
    let error = house.connect(&house.guest).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("not on the list"), "{error}");
    house.may_stay.send_replace(true);
    session.until_connected(true).await;
    assert_eq!(ask(&session, "echo", "again").await.unwrap(), "again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_valid_only_with_its_key_its_name_and_its_authority() {
    let house = House::open().await;
    // A second identity with the same name has another certificate.
    let namesake = house.authority.issue(&entity("guest"), Usage::Client).unwrap();
    assert_eq!(house.connect(&namesake).await.unwrap_err().kind(), ErrorKind::Denied);
    // Another authority's word is worth nothing here.
    let (other, _) = Authority::create().unwrap();
    let stranger = other.issue(&entity("guest"), Usage::Client).unwrap();
    assert_eq!(house.connect(&stranger).await.unwrap_err().kind(), ErrorKind::Denied);
    // The node refuses a client without a certificate.
    let error = Session::connect(
        house.endpoint.clone(),
        SessionOptions { patience: std::time::Duration::from_millis(300), ..Default::default() },
    )
    .await
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("nacre entity add"), "{error}");
    eventually("none of them is connected", || house.server.connection_count() == 0).await;
}

/// Makes an identity whose certificate, issued by the house's authority, expired long ago.
fn expired_guest(house: &House) -> Identity {
    let mut issuer = CertificateParams::default();
    issuer.distinguished_name = DistinguishedName::new();
    issuer.distinguished_name.push(DnType::CommonName, "nacre authority");
    let issuer = Issuer::new(issuer, KeyPair::from_pem(&house.authority_key).unwrap());
    let mut guest = CertificateParams::default();
    guest.subject_alt_names.push(SanType::URI("nacre:guest".try_into().unwrap()));
    guest.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    guest.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let key = KeyPair::generate().unwrap();
    let mut file = house.guest.to_json();
    file["certificate"] = guest.signed_by(&key, &issuer).unwrap().pem().into();
    file["key"] = key.serialize_pem().into();
    Identity::parse(file.to_string().as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_learns_at_once_what_is_wrong_with_its_certificate() {
    let house = House::open().await;
    let (other, _) = Authority::create().unwrap();
    let stranger = other.issue(&entity("guest"), Usage::Client).unwrap();
    // This client accepts the node's certificate, so only the node can notice that it is a
    // stranger.
    let mut disguised = stranger.to_json();
    disguised["authority"] = house.authority.certificate_pem().into();
    let disguised = Identity::parse(disguised.to_string().as_bytes()).unwrap();
    let expired = expired_guest(&house);
    for (identity, expected) in [
        (&stranger, "the node's certificate is of another authority than this identity"),
        (&disguised, "the node refuses this identity: its certificate is of another authority"),
        (&expired, "the node refuses this identity: its certificate has expired"),
    ] {
        // The node's refusal must not be lost in a race with what the client sends.
        for _ in 0..20 {
            let error = house.connect(identity).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(error.message().contains(expected), "{error}");
        }
    }
    house.connect(&house.guest).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_cannot_pose_as_a_node_nor_one_node_as_another() {
    let house = House::open().await;
    for (name, usage) in [("node.a", Usage::Client), ("node.b", Usage::Node)] {
        let false_node = house.authority.issue(&entity(name), usage).unwrap();
        let any = Endpoint::tls("127.0.0.1:0").unwrap();
        let listener = Listener::default().and_tls(&any, &false_node).await.unwrap();
        let endpoint = listener.endpoints().remove(0);
        let server = Server::builder(NodeName::new("a").unwrap(), 1).build();
        tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
        let options = SessionOptions {
            identity: Some(house.guest.clone()),
            node: Some(NodeName::new("a").unwrap()),
            patience: std::time::Duration::from_millis(300),
            ..SessionOptions::default()
        };
        let error = Session::connect(endpoint, options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_guard_only_the_user_who_runs_the_node_is_admitted() {
    let (authority, _) = Authority::create().unwrap();
    let own = authority.issue(&entity("node.a"), Usage::Node).unwrap();
    let guest = authority.issue(&entity("guest"), Usage::Client).unwrap();
    let any = Endpoint::tls("127.0.0.1:0").unwrap();
    let listener = Listener::default().and_tls(&any, &own).await.unwrap();
    let endpoint = listener.endpoints().remove(0);
    let server = Server::builder(NodeName::new("a").unwrap(), 1).build();
    tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
    let options = SessionOptions {
        identity: Some(guest),
        patience: std::time::Duration::from_millis(300),
        ..SessionOptions::default()
    };
    let error = Session::connect(endpoint, options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_tls_handshake_delays_no_other_client() {
    let house = House::open().await;
    let Some(address) = house.endpoint.to_string().strip_prefix("tls:").map(str::to_owned) else {
        panic!("a TLS endpoint")
    };
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    let session = house.connect(&house.guest).await.unwrap();
    let answer = session.ask("test", "echo", "here".into(), LONG).await.unwrap();
    assert_eq!(answer, "here");
}
