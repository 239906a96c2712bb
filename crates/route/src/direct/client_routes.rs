//! `ClientRoutes`: the switch of a client for the objects of one home. It decides which reads go
//! straight to the node that keeps the bytes, and what to ask the home.

use std::sync::Arc;
use std::time::Duration;

use nacre_object::{NodeName, ObjectId, Op, Request, Result};

use super::message::{DirectRules, Permit};
use crate::fast_hash::FastHashMap;
use crate::limits::{DIRECT_LEASE, MAX_CLIENT_PERMITS};
use crate::model::{Io, Operation, Span, Touch};
use crate::rules::RuleTable;

/// How long the rules of a home are used before the client asks for them again.
const RULES_AGE: Duration = Duration::from_secs(5);
/// How long a permit is used. Then the next read asks for a new one.
const PERMIT_AGE: Duration = Duration::from_secs(5);
/// After a refusal, the client asks about an object again when this time has passed.
const REFUSAL_AGE: Duration = Duration::from_secs(1);

const _: () = assert!(PERMIT_AGE.as_millis() < DIRECT_LEASE.as_millis());

/// The rules of a home that allow direct reads, and the permits for its objects.
#[derive(Debug, Default)]
pub struct ClientRoutes {
    table: RuleTable,
    /// When the client asked for the rules last; `None` before the first time.
    rules_asked: Option<Duration>,
    objects: FastHashMap<ObjectId, OfObject>,
}

/// What the client knows about the bytes of an object.
#[derive(Debug)]
struct OfObject {
    /// From where to read, and when the client asked for that.
    source: Option<(Duration, Arc<DirectSource>)>,
    /// When the client asked last.
    asked: Duration,
    /// Whether the answer is still missing.
    is_asking: bool,
}

/// From where a client may read bytes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectSource {
    /// The node that keeps the bytes.
    pub node: NodeName,
    /// The object that keeps the bytes there.
    pub kept_in: ObjectId,
    /// The home's permit.
    pub permit: Permit,
}

impl DirectSource {
    fn of(permit: Permit) -> Result<Self> {
        Ok(Self { node: NodeName::new(&permit.node)?, kept_in: permit.kept_in.parse()?, permit })
    }
}

/// What a client does with a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextRead {
    /// Reads through the home.
    Home,
    /// Reads through the home, and asks it for its rules.
    HomeAskRules,
    /// Reads through the home, and asks it where the bytes are.
    HomeAskWhere,
    /// Reads at the node that keeps the bytes.
    Direct(Arc<DirectSource>),
}

impl ClientRoutes {
    /// What the client does with a request that only reads this range.
    pub fn read(&mut self, now: Duration, request: &Request, span: Span) -> NextRead {
        if self.rules_asked.is_none_or(|asked| now >= asked + RULES_AGE) {
            self.rules_asked = Some(now);
            return NextRead::HomeAskRules;
        }
        let object = &request.header.object;
        if self.table.is_empty() || !self.is_routed(request, span) {
            return NextRead::Home;
        }
        if let Some(known) = self.objects.get_mut(object) {
            if let Some((asked, source)) = &known.source
                && now < *asked + PERMIT_AGE
                && source.permit.covers(span)
            {
                return NextRead::Direct(Arc::clone(source));
            }
            if known.is_asking || now < known.asked + REFUSAL_AGE {
                return NextRead::Home;
            }
            (known.asked, known.is_asking) = (now, true);
            return NextRead::HomeAskWhere;
        }
        if self.objects.len() >= MAX_CLIENT_PERMITS {
            self.objects.clear();
        }
        let asking = OfObject { source: None, asked: now, is_asking: true };
        self.objects.insert(object.clone(), asking);
        NextRead::HomeAskWhere
    }

    /// Whether a rule that allows direct reads is about writes of these bytes.
    fn is_routed(&self, request: &Request, span: Span) -> bool {
        let touch = Touch { operation: Operation::Write, span: Some(span) };
        let io = Io::of(&request.header, None, None, touch);
        let segments = self.table.route(&io).unwrap_or_default();
        segments.iter().any(|segment| segment.rule.is_some())
    }

    /// The home has answered which rules allow direct reads.
    pub fn note_rules(&mut self, rules: &DirectRules) {
        self.table = RuleTable::default();
        for rule in rules.parsed() {
            // One rule too many costs only direct reads.
            let _ = self.table.insert(vec![rule]);
        }
    }

    /// The home has answered where the bytes of an object are, or has refused to.
    pub fn note_where(&mut self, object: &ObjectId, permit: Option<Permit>) {
        if let Some(known) = self.objects.get_mut(object) {
            known.is_asking = false;
            let source = permit.and_then(|permit| DirectSource::of(permit).ok());
            known.source = source.map(|source| (known.asked, Arc::new(source)));
        }
    }

    /// A node has not served a direct read. So the permit is not used any more.
    pub fn refused(&mut self, object: &ObjectId, token: u64) {
        if let Some(known) = self.objects.get_mut(object)
            && known.source.as_ref().is_some_and(|(_, source)| source.permit.token == token)
        {
            known.source = None;
        }
    }

    /// The client has sent another request than a read. After anything but a plain write, the object
    /// may have another version at its home, so direct replies would have an old one.
    pub fn note_request(&mut self, request: &Request) {
        let keeps_version = |op: &Op| !op.is_write() || matches!(op, Op::Write { .. });
        if !request.ops.iter().all(keeps_version) {
            self.objects.remove(&request.header.object);
        }
    }

    /// The home has answered a request with this version of the object.
    pub fn note_version(&mut self, object: &ObjectId, version: u64) {
        if let Some(known) = self.objects.get_mut(object)
            && let Some((_, source)) = &mut known.source
            && source.permit.version < version
        {
            Arc::make_mut(source).permit.version = version;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn span(start: u64, end: u64) -> Span {
        Span::new(start, end).unwrap()
    }

    fn read(object: &str) -> Request {
        Request::new(object.parse().unwrap(), vec![Op::Read { offset: 0, length: 4 }]).unwrap()
    }

    fn permit(token: u64) -> Permit {
        Permit {
            node: "n1".to_owned(),
            kept_in: "nacre.routed/x".to_owned(),
            spans: vec![(0, 10)],
            version: 3,
            token,
        }
    }

    /// A client that knows a rule about `data/*`, asked for at [`NOW`].
    fn client() -> ClientRoutes {
        let mut routes = ClientRoutes::default();
        assert_eq!(routes.read(NOW, &read("data/x"), span(0, 4)), NextRead::HomeAskRules);
        let rules = DirectRules { rules: vec!["* w data/* -> home".to_owned(), "x".to_owned()] };
        routes.note_rules(&rules);
        routes
    }

    fn with_permit(token: u64) -> ClientRoutes {
        let mut routes = client();
        assert_eq!(routes.read(NOW, &read("data/x"), span(0, 4)), NextRead::HomeAskWhere);
        routes.note_where(&"data/x".parse().unwrap(), Some(permit(token)));
        routes
    }

    fn token_of(next: NextRead) -> Option<u64> {
        match next {
            NextRead::Direct(source) => Some(source.permit.token),
            _ => None,
        }
    }

    #[test]
    fn a_client_reads_directly_only_what_a_rule_is_about_and_a_permit_covers() {
        let mut routes = with_permit(7);
        assert_eq!(token_of(routes.read(NOW, &read("data/x"), span(0, 4))), Some(7));
        assert_eq!(routes.read(NOW, &read("data/x"), span(8, 12)), NextRead::Home);
        assert_eq!(routes.read(NOW, &read("other/x"), span(0, 4)), NextRead::Home);
    }

    #[test]
    fn a_client_asks_once_for_an_object_and_again_a_while_after_a_refusal() {
        let mut routes = client();
        let object = "data/x".parse().unwrap();
        assert_eq!(routes.read(NOW, &read("data/x"), span(0, 4)), NextRead::HomeAskWhere);
        assert_eq!(routes.read(NOW, &read("data/x"), span(0, 4)), NextRead::Home);
        routes.note_where(&object, None);
        assert_eq!(routes.read(NOW, &read("data/x"), span(0, 4)), NextRead::Home);
        let later = NOW + REFUSAL_AGE;
        assert_eq!(routes.read(later, &read("data/x"), span(0, 4)), NextRead::HomeAskWhere);
    }

    #[test]
    fn a_permit_that_is_old_or_was_refused_is_not_used() {
        let mut routes = with_permit(7);
        routes.refused(&"data/x".parse().unwrap(), 6);
        assert_eq!(token_of(routes.read(NOW, &read("data/x"), span(0, 4))), Some(7));
        routes.refused(&"data/x".parse().unwrap(), 7);
        assert_eq!(routes.read(NOW, &read("data/x"), span(0, 4)), NextRead::Home);

        let mut routes = with_permit(7);
        let old = NOW + PERMIT_AGE;
        assert_eq!(routes.read(old, &read("data/x"), span(0, 4)), NextRead::HomeAskRules);
        assert_eq!(routes.read(old, &read("data/x"), span(0, 4)), NextRead::HomeAskWhere);
    }

    #[test]
    fn replies_never_have_a_version_before_one_that_the_client_has_seen() {
        let object: ObjectId = "data/x".parse().unwrap();
        let version =
            |routes: &mut ClientRoutes| match routes.read(NOW, &read("data/x"), span(0, 4)) {
                NextRead::Direct(source) => Some(source.permit.version),
                _ => None,
            };
        let mut routes = with_permit(7);
        assert_eq!(version(&mut routes), Some(3));
        routes.note_version(&object, 5);
        routes.note_version(&object, 4);
        assert_eq!(version(&mut routes), Some(5));
        let write = |op| Request::new(object.clone(), vec![op]).unwrap();
        routes.note_request(&write(Op::Write { offset: 0, data: "a".into() }));
        assert_eq!(version(&mut routes), Some(5));
        routes.note_request(&write(Op::Truncate { size: 1 }));
        assert_eq!(version(&mut routes), None);
    }

    #[test]
    fn a_client_remembers_a_bounded_number_of_objects() {
        let mut routes = client();
        for number in 0..2 * MAX_CLIENT_PERMITS {
            routes.read(NOW, &read(&format!("data/{number}")), span(0, 4));
            assert!(routes.objects.len() <= MAX_CLIENT_PERMITS);
        }
    }
}
