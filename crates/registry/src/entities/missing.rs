//! Finds the smallest grant that would have allowed a denied demand. The hint of the error suggests
//! this grant.

use std::fmt;

use super::grant::Right;
use super::grants::SCRIPTS;
use super::need::Need;

impl Need<'_> {
    /// The smallest grant that covers this need, as it is written.
    pub fn grant(&self) -> String {
        match self {
            Self::Object { right, object } => {
                format!("{} pool={} prefix={}", right.letter(), object.pool, object.name)
            }
            Self::Call { class, method, object, log } => match log {
                Some((log, right)) => format!("{} log={log}", right.letter()),
                None if class.as_str() == SCRIPTS => {
                    format!("rwx pool={} class={SCRIPTS} prefix={}", object.pool, object.name)
                }
                None => format!(
                    "x pool={} class={class} method={method} prefix={}",
                    object.pool, object.name
                ),
            },
            Self::Names { pool, prefix: "" } => format!("r pool={pool}"),
            Self::Names { pool, prefix } => format!("r pool={pool} prefix={prefix}"),
            Self::Map { right, map } => format!("{} map={map}", right.letter()),
            Self::MapNames => "r map=*".to_owned(),
            Self::Program { right, program } => format!("{} program={program}", right.letter()),
            Self::AnyProgram { right } => format!("{} program=KIND/NAME", right.letter()),
            Self::Log { right, log } => format!("{} log={log}", right.letter()),
            Self::LogView { log } => format!("{} log={log}", Right::Read.letter()),
            Self::Service { service, method } => format!("x service={service} method={method}"),
            Self::Events => "r events".to_owned(),
            Self::Admin => "admin".to_owned(),
        }
    }

    /// The key under which repeated denials are counted. All objects of a pool share one key,
    /// because a client may be denied millions of objects.
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Object { right, object } => format!("{} pool={}", right.letter(), object.pool),
            Self::Call { class, object, .. } => format!("x pool={} class={class}", object.pool),
            Self::Names { pool, .. } => format!("r pool={pool}"),
            other => other.grant(),
        }
    }
}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object { right, object } => write!(f, "{} {object}", right.as_str()),
            Self::Call { class, method, object, log } => match log {
                Some((log, right)) => write!(f, "{} the log {log}", right.as_str()),
                None => write!(f, "call {class}.{method} of {object}"),
            },
            Self::Names { pool, prefix: "" } => write!(f, "list pool {pool}"),
            Self::Names { pool, prefix } => write!(f, "list pool {pool} from {prefix:?}"),
            Self::Map { right, map } => write!(f, "{} the map {map}", right.as_str()),
            Self::MapNames => f.write_str("list maps and logs"),
            Self::Program { right, program } => {
                write!(f, "{} the program {program}", right.as_str())
            }
            Self::AnyProgram { right } => write!(f, "{} programs", right.as_str()),
            Self::Log { right, log } => write!(f, "{} the log {log}", right.as_str()),
            Self::LogView { log } => write!(f, "use the log {log}"),
            Self::Service { service, method } => write!(f, "call {service}.{method}"),
            Self::Events => f.write_str("read the cluster log"),
            Self::Admin => f.write_str("administrate"),
        }
    }
}

#[cfg(test)]
mod tests {
    use nacre_object::{ClassName, MethodName, ObjectId};

    use super::*;
    use crate::entities::{Grant, Grants};

    /// Returns the grant that an error suggests for `need`. Panics if this grant does not cover
    /// `need`, or if it also covers the neighbouring need `beside`.
    fn suggested(need: Need<'_>, beside: Need<'_>) -> String {
        let grant = need.grant();
        let grants: Grants = [grant.parse::<Grant>().unwrap()].into_iter().collect();
        assert!(grants.covers(&need), "{grant} suffices");
        assert!(!grants.covers(&beside), "{grant} gives more");
        grant
    }

    #[test]
    fn the_suggested_grant_suffices_and_gives_nothing_else() {
        let object = |text: &str| text.parse::<ObjectId>().unwrap();
        let (one, other) = (object("data/bob/a b"), object("data/bob/c"));
        let reads = |object| Need::Object { right: Right::Read, object };
        assert_eq!(suggested(reads(&one), reads(&other)), "r pool=data prefix=bob/a b");

        let (counter, add) = (ClassName::new("counter").unwrap(), MethodName::new("add").unwrap());
        let reset = MethodName::new("reset").unwrap();
        let call = |method, object| Need::Call { class: &counter, method, object, log: None };
        let grant = "x pool=data class=counter method=add prefix=bob/c";
        assert_eq!(suggested(call(&add, &other), call(&reset, &other)), grant);
        assert_eq!(suggested(call(&add, &other), call(&add, &one)), grant);

        let stripe = object("log/log/orders/0.0.1{orders.0.1.0}");
        let class = ClassName::new("log").unwrap();
        let method = MethodName::new("write").unwrap();
        let of_log = |right| {
            let log = Some(("orders", right));
            Need::Call { class: &class, method: &method, object: &stripe, log }
        };
        let seals = of_log(Right::Write);
        assert_eq!(suggested(of_log(Right::Append), seals), "a log=orders");
        assert_eq!(suggested(of_log(Right::Read), seals), "r log=orders");
        let names = |prefix| Need::Names { pool: "data", prefix };
        assert_eq!(suggested(names("bob/"), names("")), "r pool=data prefix=bob/");
    }

    #[test]
    fn denials_for_objects_of_one_pool_are_counted_together() {
        let objects = ["data/a", "data/b"].map(|text| text.parse::<ObjectId>().unwrap());
        let kinds = objects.each_ref().map(|object| {
            let need = Need::Object { right: Right::Write, object };
            need.kind()
        });
        assert_eq!(kinds[0], kinds[1]);
    }
}
