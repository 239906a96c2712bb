//! What a node says of its switch, in JSON.

use super::copies::{CopiesStatus, CopyWay};
use super::erasure::ErasureStatus;
use serde::{Deserialize, Serialize};

/// A rule on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedRule {
    /// The application that owns the rule.
    pub application: String,
    /// The rule.
    pub rule: String,
    /// How many pieces of IO the rule has decided about since the rules of the switch last changed.
    pub count: u64,
}

/// A program that rules on a node name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedProgram {
    /// Its name.
    pub name: String,
    /// The version that the rules use.
    pub version: u64,
    /// How many IO the program decided about since the node started.
    pub decided: u64,
    /// How many IO failed because the program failed.
    pub failed: u64,
    /// Rules that it has inserted.
    pub inserted_rules: usize,
}

/// A waypoint on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedWaypoint {
    /// Its name.
    pub name: String,
    /// The live version; 0 if none is live.
    pub version: u64,
    /// IO that has passed it since the node started.
    pub passed: u64,
    /// IO that waits in its queue.
    pub waiting: usize,
    /// IO that it has refused.
    pub refused: u64,
    /// IO that failed because the program failed.
    pub faults: u64,
}

/// What a node says of its switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// The target whose objects come by the switch.
    pub target: String,
    /// The term (update number) of the switch's rules; 0 if it never had any.
    pub term: u64,
    /// The epoch of the map `routes` whose rules are installed.
    #[serde(default)]
    pub epoch: u64,
    /// Why the switch has not installed the rules of the latest epoch that the node knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The installed rules, in order.
    pub rules: Vec<AppliedRule>,
    /// The programs that the rules name.
    #[serde(default)]
    pub programs: Vec<AppliedProgram>,
    /// The waypoints that the rules name, or that have done anything.
    #[serde(default)]
    pub waypoints: Vec<AppliedWaypoint>,
    /// Objects of which bytes lie elsewhere.
    pub routed_objects: usize,
    /// Spans of bytes that lie elsewhere.
    pub routed_spans: usize,
    /// Bytes that lie elsewhere.
    pub routed_bytes: u64,
    /// How many IO are in flight.
    pub in_flight: usize,
    /// How many IO the switch holds back at present.
    pub held: usize,
    /// Spans whose write got no answer, so it is unknown whether their bytes arrived.
    pub in_doubt: usize,
    /// Requests of clients since the node started.
    pub requests: u64,
    /// The copies of the target's objects.
    #[serde(default)]
    pub copies: CopiesStatus,
    /// The erasure-coded objects of the target.
    #[serde(default)]
    pub erasure: ErasureStatus,
    /// Permits for direct reads that the switch has given since the node started.
    #[serde(default)]
    pub permits: u64,
    /// Direct reads that the node has served since it started.
    #[serde(default)]
    pub direct_reads: u64,
}

/// The rule that decides about some bytes of an IO, and their destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteWay {
    /// The bytes; nothing if the IO touches none.
    pub span: Option<String>,
    /// The rule; nothing if there is none.
    pub rule: Option<String>,
    /// Its application.
    pub application: Option<String>,
    /// Whether the switch itself made the rule, because reads follow writes.
    pub is_made: bool,
    /// The program that the rule names, with the version that decides, as NAME@VERSION. If the
    /// program has inserted a rule that decides instead, the text of the inserted rule.
    #[serde(default)]
    pub program: Option<String>,
    /// The waypoints that the bytes pass first, each as NAME@VERSION.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waypoints: Vec<String>,
    /// Where the bytes go.
    pub destination: String,
    /// The object that keeps the bytes there, if it is not the object itself.
    pub object: Option<String>,
    /// For a scattered read, the targets among which a rule scatters it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyWay>,
}
