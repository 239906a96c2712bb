//! The `nacre` command. A command line names first the kind of thing and then the action, for
//! example `object put`.
//!
//! Exit status: 0 the command succeeded, 1 it failed, 2 the command line was wrong, 130 or 143
//! SIGINT or SIGTERM ended it early.
//!
//! Results go to standard output, with `--json` as one JSON document a line. Everything else goes
//! to standard error.

#[cfg(test)]
mod command_page_tests;
mod commands;
mod demo;
mod entries;
#[cfg(test)]
mod fuzz_tests;
mod help;
#[cfg(test)]
mod help_tests;
mod lines;
mod listing;
mod otlp;
mod row;
mod span_tree;
mod versioned;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::builder::{OsStringValueParser, TypedValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use nacre::{Cluster, ClusterFile, Spans, traced};
use nacre_clock::{Random, SystemClock};
use nacre_object::{Error, Result};
use nacre_terminal::failure::{self, fail};
use nacre_terminal::{engine, input, out, reader, signals, usage};

use crate::commands::{
    balancer, brados, ceph, class, entity, events, init, log, map, node, object, pool, program,
    resource, route, salvage, scrub, slo, status, trace, up,
};
use crate::out::{Out, Sizes};

/// The threads of a request free memory that other threads have allocated. glibc's allocator takes
/// a lock for each such piece, so nacre uses another allocator (docs/append-latency.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The cluster's folder if none is named.
const DEFAULT_CLUSTER: &str = "nacre-data";

/// A programmable storage system
#[derive(Debug, Parser)]
#[command(name = "nacre", version, propagate_version = true)]
struct Arguments {
    #[command(flatten)]
    place: ClusterOptions,
    /// Print JSON, one document a line
    #[arg(long, global = true)]
    json: bool,
    /// Print sizes in bytes, not rounded to KiB, MiB or GiB
    #[arg(long, global = true)]
    bytes: bool,
    /// Print on standard error how long each step of the command took, on every node
    #[arg(long, global = true)]
    trace: bool,
    #[command(subcommand)]
    command: Command,
}

/// Which cluster is meant
#[derive(Debug, clap::Args)]
struct ClusterOptions {
    /// The cluster's folder
    #[arg(
        long,
        global = true,
        env = "NACRE_CLUSTER",
        default_value = DEFAULT_CLUSTER,
        value_name = "DIR",
        value_parser = path_or_nothing()
    )]
    cluster: PathBuf,
    /// Connect with this identity file; the cluster's folder is then not needed. Commands that need
    /// no running cluster, such as `init` and `up`, refuse this option and ignore NACRE_IDENTITY
    #[arg(
        long,
        global = true,
        env = "NACRE_IDENTITY",
        value_name = "FILE",
        value_parser = path_or_nothing()
    )]
    identity: Option<PathBuf>,
}

/// Accepts every path, including the empty path of an empty environment variable, see
/// [`ClusterOptions::settled`].
fn path_or_nothing() -> ValueParser {
    OsStringValueParser::new().map(PathBuf::from).into()
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a cluster's folder, with keys and certificates if the cluster listens on the network
    Init(init::InitArguments),
    /// Run a cluster in the foreground until interrupted
    Up(up::UpArguments),
    /// Run a demonstration: writers append to a shared log while nodes are killed; then every
    /// record is checked
    Demo(demo::DemoArguments),
    /// Show the cluster's nodes: which are up, what they run and how much they store
    Status,
    /// Read all data of every node and report damage; exit status 1 if there is any
    Scrub(scrub::ScrubArguments),
    /// Copy the readable part of a damaged storage folder into a new folder
    Salvage(salvage::SalvageArguments),
    /// Show the cluster log: version changes, faults of programs and other events
    Events(events::EventsArguments),
    /// Show traces of requests: how long each step took, on every node
    Trace(trace::TraceArguments),
    #[command(subcommand)]
    Ceph(ceph::CephCommand),
    #[command(subcommand)]
    Entity(entity::EntityCommand),
    #[command(subcommand)]
    Object(object::ObjectCommand),
    #[command(subcommand)]
    Pool(pool::PoolCommand),
    #[command(subcommand)]
    Class(class::ClassCommand),
    #[command(subcommand)]
    Brados(brados::BradosCommand),
    #[command(subcommand)]
    Program(program::ProgramCommand),
    #[command(subcommand)]
    Map(map::MapCommand),
    #[command(subcommand)]
    Log(log::LogCommand),
    #[command(subcommand)]
    Resource(resource::ResourceCommand),
    #[command(subcommand)]
    Balancer(balancer::BalancerCommand),
    #[command(subcommand)]
    Slo(slo::SloCommand),
    #[command(subcommand)]
    Route(route::RouteCommand),
    /// Run one node of a cluster, or manage one node; `nacre up` runs all nodes
    Node(node::NodeArguments),
}

impl ClusterOptions {
    /// Checks the global options, and treats an empty environment variable as one that is not set.
    ///
    /// # Errors
    /// `Invalid` if the command line gives an empty path, or an identity to a command that takes
    /// none.
    fn settled(mut self, command: &Command, matches: &ArgMatches) -> Result<Self> {
        let is_asked_for = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        if is_asked_for("identity") && !command.takes_identity() {
            return Err(Error::invalid(format!("`nacre {}` takes no identity", verbs_of(matches)))
                .hint("leave --identity out: the command needs no running cluster"));
        }
        let is_empty = |path: &PathBuf| path.as_os_str().is_empty();
        if is_empty(&self.cluster) {
            if is_asked_for("cluster") {
                return Err(Error::invalid("the value of --cluster is empty; it must be a folder"));
            }
            self.cluster = DEFAULT_CLUSTER.into();
        }
        if self.identity.as_ref().is_some_and(is_empty) {
            if is_asked_for("identity") {
                return Err(Error::invalid("the value of --identity is empty; it must be a file"));
            }
            self.identity = None;
        }
        Ok(self)
    }

    fn cluster_file(&self) -> Result<ClusterFile> {
        match &self.identity {
            Some(identity) => ClusterFile::of_identity(identity),
            None => ClusterFile::read(&self.cluster),
        }
    }
}

impl Command {
    /// Whether the command sends requests to a running cluster, so that they can be traced.
    fn is_traceable(&self) -> bool {
        match self {
            Self::Brados(command) => command.asks_a_cluster(),
            Self::Program(command) => command.asks_a_cluster(),
            Self::Balancer(command) => command.asks_a_cluster(),
            Self::Scrub(scrub) => scrub.offline.is_none(),
            Self::Node(node) => node.asks_a_cluster(),
            Self::Init(_) | Self::Up(_) | Self::Salvage(_) | Self::Demo(_) | Self::Ceph(_) => false,
            Self::Slo(command) => command.asks_a_cluster(),
            _ => true,
        }
    }

    /// Whether the command creates files that hold a cluster's data, in this process or in
    /// processes that it starts. These files are for their owner alone. Other commands create only
    /// files that the user asks for, with the modes of the user's umask.
    fn keeps_data(&self) -> bool {
        match self {
            Self::Init(_) | Self::Up(_) | Self::Node(_) | Self::Salvage(_) => true,
            Self::Scrub(scrub) => scrub.offline.is_some(),
            Self::Demo(_) => true,
            Self::Program(command) => matches!(command, program::ProgramCommand::Test(_)),
            _ => false,
        }
    }

    /// Whether the command connects to a running cluster with an identity.
    fn takes_identity(&self) -> bool {
        match self {
            Self::Brados(command) => command.may_ask_a_cluster(),
            Self::Ceph(command) => matches!(command, ceph::CephCommand::Forget(_)),
            _ => self.is_traceable(),
        }
    }
}

fn main() -> ExitCode {
    let parsed = help::explained(Arguments::command()).try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (mut arguments, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage::tell(&error),
    };
    if arguments.command.keeps_data() {
        nacre_files::restrict_process();
    }
    let sizes = if arguments.bytes { Sizes::Exact } else { Sizes::Rounded };
    let out = Out::new(arguments.json).with_sizes(sizes);
    arguments.place = match arguments.place.settled(&arguments.command, &matches) {
        Ok(place) => place,
        Err(error) => return ExitCode::from(fail(&error, out)),
    };
    failure::run(out, async || match arguments.trace {
        true => run_traced(arguments, &verbs_of(&matches), out).await,
        false => run(arguments, out).await,
    })
}

/// The names of a command: `log append`.
fn verbs_of(matches: &ArgMatches) -> String {
    let mut verbs = Vec::new();
    let mut matches = matches;
    while let Some((verb, below)) = matches.subcommand() {
        verbs.push(verb);
        matches = below;
    }
    verbs.join(" ")
}

/// Runs a command as one trace, and shows that trace, also if the command failed.
async fn run_traced(arguments: Arguments, verbs: &str, out: Out) -> Result<()> {
    if !arguments.command.is_traceable() {
        return Err(Error::invalid(format!("`nacre {verbs}` cannot be traced"))
            .hint("use --trace with a command that sends requests to a running cluster"));
    }
    let file = arguments.place.cluster_file()?;
    let spans = Spans::new(Arc::new(SystemClock::default()), Random::from_system());
    let mut span = spans.begin("command");
    span.field("command", verbs);
    let trace_id = span.trace().id();
    let result = traced(Some(&span), run(arguments, out)).await;
    drop(span);
    trace::show(&file, trace_id, spans.of(trace_id), out).await?;
    result
}

async fn run(arguments: Arguments, out: Out) -> Result<()> {
    let folder = &arguments.place.cluster;
    let cluster_file = || arguments.place.cluster_file();
    let connect = async || Cluster::reach(&cluster_file()?);
    match arguments.command {
        Command::Up(up) => up::run(up, folder, out).await,
        Command::Demo(demo) => demo::run(demo, out).await,
        Command::Node(node) => node::run(node, folder, connect, out).await,
        Command::Ceph(command) => ceph::run(command, cluster_file, out).await,
        Command::Init(init) => init::run(&init, folder, out),
        Command::Status => status::run(&cluster_file()?, out).await,
        Command::Trace(trace) => trace::run(trace, &cluster_file()?, out).await,
        Command::Scrub(scrub) => match (&scrub.offline, scrub.remove_stray.as_deref()) {
            (Some(folder), _) => salvage::examine(folder, out),
            (None, Some([target, object])) => {
                scrub::remove_stray(&cluster_file()?, target, object, out).await
            }
            (None, _) => scrub::run(&cluster_file()?, out).await,
        },
        Command::Salvage(salvage) => salvage::run(&salvage, out),
        Command::Entity(command) => entity::run(command, &cluster_file()?, out).await,
        Command::Events(events) => events::run(events, &connect().await?, out).await,
        Command::Object(command) => object::run(command, &connect().await?, out).await,
        Command::Pool(command) => pool::run(command, &cluster_file()?, out).await,
        Command::Class(command) => class::run(command, &connect().await?, out).await,
        Command::Brados(command) => brados::run(command, cluster_file, out).await,
        Command::Program(command) => program::run(command, connect, out).await,
        Command::Map(command) => map::run(command, &connect().await?, out).await,
        Command::Log(command) => log::run(command, &connect().await?, out).await,
        Command::Resource(command) => resource::run(command, &connect().await?, out).await,
        Command::Balancer(command) => balancer::run(command, connect, out).await,
        Command::Route(command) => route::run(command, cluster_file, out).await,
        Command::Slo(command) => slo::run(command, cluster_file, out).await,
    }
}
