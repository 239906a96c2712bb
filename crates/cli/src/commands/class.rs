//! `nacre class …`: methods of objects.

use std::path::PathBuf;

use bytes::Bytes;
use clap::Subcommand;
use nacre::{
    CallReply, ClassCall, Cluster, DeadLetters, DeadMessage, OutboxPage, Striped, WaitingMessage,
};
use nacre_brados::shown_reply;
use nacre_object::{ClassName, Error, MethodName, ObjectId, Result};
use serde_json::json;

use crate::input::{Input, read_text};
use crate::out::{Out, json_bytes, table, utc};
use crate::row::{Row, row_as_json, show_rows, show_striped};
use crate::versioned::Versioned;

/// Run methods of classes on objects
#[derive(Debug, Subcommand)]
pub enum ClassCommand {
    /// Run a method of a class on an object; prints its output
    Call {
        object: ObjectId,
        /// The class; with @VERSION, the call is refused if another version is active
        #[arg(value_name = "CLASS[@VERSION]")]
        class: Versioned<ClassName>,
        method: MethodName,
        #[command(flatten)]
        input: Input,
        /// The row of a request to a class in Brados, as JSON, such as `["key", 7, null]`; prints
        /// the rows of the reply
        #[arg(long, value_name = "JSON", conflicts_with_all = ["input", "input_file"])]
        row: Option<Row>,
        /// Read the row from a file; `-` is standard input
        #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "input_file", "row"])]
        row_file: Option<PathBuf>,
        /// Call the method on each stripe of the object that the row concerns. Use it for a class
        /// in Brados that divides its objects into stripes, which are objects too
        #[arg(long, conflicts_with_all = ["input", "input_file", "class_version"])]
        striped: bool,
        /// The version, as CLASS@VERSION says it
        #[arg(long, hide = true)]
        class_version: Option<u64>,
    },
    /// Show the messages that an object has sent to other objects and that are not delivered
    Outbox { object: ObjectId },
    /// Deliver messages again that could not be delivered; first remove the cause of the failure
    Resend {
        object: ObjectId,
        /// Numbers of the messages, as `nacre class outbox` shows them
        #[arg(required_unless_present = "all")]
        numbers: Vec<u64>,
        /// Deliver all of the object's messages again that could not be delivered
        #[arg(long, conflicts_with = "numbers")]
        all: bool,
    },
    /// Convert an object to the present layout of its Brados class; clients can use the object
    /// meanwhile
    ///
    /// A layout says whether rows are stored in an object's map, byte stream or attributes.
    Migrate { object: ObjectId, class: ClassName },
    /// Run a function of a Lua script on an object, without storing the script; prints status and
    /// output
    Eval {
        object: ObjectId,
        /// The file with the script, in the form that Ceph's object class cls_lua takes
        #[arg(long, value_name = "FILE")]
        script: PathBuf,
        /// The registered function to run; if it is empty, only the script's top level runs
        #[arg(long, default_value = "")]
        handler: String,
        #[command(flatten)]
        input: Input,
    },
}

/// Runs one of them.
pub async fn run(command: ClassCommand, cluster: &Cluster, out: Out) -> Result<()> {
    match command {
        ClassCommand::Call { object, class, method, row, row_file, striped: true, .. } => {
            let row = row_given(row, row_file)?.ok_or_else(|| {
                Error::invalid("--striped needs a row").hint("give a row with --row or --row-file")
            })?;
            call_striped(cluster, &object, class, &method, &row, out).await
        }
        ClassCommand::Call {
            object, class, method, input, row, row_file, class_version, ..
        } => {
            let row = row_given(row, row_file)?;
            let input = match &row {
                Some(row) => row.encoded(),
                None => input.bytes()?,
            };
            let (class, version) = class.or(class_version)?;
            let call = ClassCall { class, method, version, input };
            let reply = cluster.object(&object).await?.call_version(call).await?;
            match row {
                Some(_) => show_rows(&reply, out),
                None => show(&reply, out),
            }
        }
        ClassCommand::Outbox { object } => {
            show_outbox(&cluster.object(&object).await?.outbox().await?, out)
        }
        ClassCommand::Resend { object, numbers, .. } => {
            let letters = match numbers.is_empty() {
                true => DeadLetters::All,
                false => DeadLetters::Numbered(numbers.into_iter().collect()),
            };
            let resent = cluster.object(&object).await?.resend(&letters).await?;
            out.show(&json!({ "resent": resent }), || format!("{resent} messages wait again"))
        }
        ClassCommand::Migrate { object, class } => migrate(cluster, &object, class, out).await,
        ClassCommand::Eval { object, script, handler, input } => {
            let script = read_text(&script)?;
            let object = cluster.object(&object).await?;
            match object.eval(&script, &handler, input.bytes()?).await {
                Ok(reply) => show_eval(reply.status, &reply.output, out),
                Err(error) if error.has_own_status() || error.fault().is_some() => {
                    failed(&error, out)
                }
                Err(error) => Err(error),
            }
        }
    }
}

fn row_given(row: Option<Row>, file: Option<PathBuf>) -> Result<Option<Row>> {
    match file {
        Some(file) => read_text(&file)?.parse().map(Some),
        None => Ok(row),
    }
}

async fn call_striped(
    cluster: &Cluster,
    object: &ObjectId,
    class: Versioned<ClassName>,
    method: &MethodName,
    row: &Row,
    out: Out,
) -> Result<()> {
    let Versioned { name: class, version: None } = class else {
        return Err(
            Error::invalid("a call with --striped takes no version").hint("leave @VERSION out")
        );
    };
    let Some(striped) = Striped::open(cluster, object, &class).await? else {
        let text = format!("the class {class} does not divide objects among stripes");
        return Err(
            Error::invalid(text).hint("put a line such as `layout stripes: 8` into its source")
        );
    };
    show_striped(&striped.call(method.as_str(), row.values()).await?, out)
}

fn show_outbox(outbox: &OutboxPage, out: Out) -> Result<()> {
    let message = |message: &WaitingMessage| {
        json!({
            "number": message.number,
            "source": message.source,
            "channel": message.channel,
            "row": row_as_json(&message.row),
        })
    };
    let dead = |dead: &DeadMessage| {
        let mut shown = message(&dead.message);
        shown["reason"] = json!(dead.reason);
        shown["at_micros"] = json!(dead.at_micros);
        shown
    };
    let json = json!({
        "waiting": outbox.waiting.iter().map(message).collect::<Vec<_>>(),
        "more": outbox.more,
        "resent": outbox.resent.iter().map(message).collect::<Vec<_>>(),
        "dead": outbox.dead.iter().map(dead).collect::<Vec<_>>(),
    });
    out.show(&json, || outbox_table(outbox))
}

fn outbox_table(outbox: &OutboxPage) -> String {
    let row = |message: &WaitingMessage, state: String| {
        let shown = shown_reply(&[(message.channel.clone(), vec![message.row.clone()])]);
        vec![message.number.to_string(), state, message.source.clone(), shown]
    };
    let dead = outbox.dead.iter().map(|dead| {
        row(&dead.message, format!("given up {}: {}", utc(dead.at_micros), dead.reason))
    });
    let resent = outbox.resent.iter().map(|message| row(message, "waits again".to_owned()));
    let waiting = outbox.waiting.iter().map(|message| row(message, "waits".to_owned()));
    let rows: Vec<_> = dead.chain(resent).chain(waiting).collect();
    let more = if outbox.more { "\nmore wait" } else { "" };
    table(&["number", "state", "sent for", "message"], &rows) + more
}

/// Each step is a transaction. If a migration stops, the next one continues after its last step.
async fn migrate(cluster: &Cluster, object: &ObjectId, class: ClassName, out: Out) -> Result<()> {
    let object = cluster.object(object).await?;
    let mut moved = 0;
    loop {
        let (is_settled, rows) = object.migrate_step(&class, None).await?;
        moved += rows;
        if is_settled {
            return out.show(&json!({ "moved": moved }), || format!("{moved} rows moved"));
        }
    }
}

fn show(reply: &CallReply, out: Out) -> Result<()> {
    if out.is_json() {
        return show_eval(reply.status, &reply.output, out);
    }
    if reply.output.is_empty() {
        return Ok(());
    }
    out.bytes(&reply.output)?;
    if reply.output.ends_with(b"\n") { Ok(()) } else { out.bytes(b"\n") }
}

fn show_eval(status: i32, output: &Bytes, out: Out) -> Result<()> {
    if out.is_json() {
        return out.show(&json!({ "status": status, "output": json_bytes(output) }), String::new);
    }
    out.line(&format!("status {status}"))?;
    if output.is_empty() { Ok(()) } else { out.bytes(output) }
}

/// A script that failed has a status too; the reason goes beside it.
fn failed(error: &Error, out: Out) -> Result<()> {
    show_eval(error.status(), &Bytes::new(), out)?;
    Err(error.clone())
}
