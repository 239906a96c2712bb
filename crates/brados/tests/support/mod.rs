//! A compiled class on an object in memory.

#![allow(dead_code, reason = "each suite uses a part")]

pub mod generator;
pub mod reference;

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use nacre_brados::layout::Choices;
use nacre_brados::{Layout, OWN_OBJECT, Step, Value, compile, shown_reply, with_layout};
use nacre_calls::{OutputRows, decode_reply, encode_request};
use nacre_calls::{decode_answers, encode_batch};
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::MemoryStore;
use nacre_object::{
    ClassCall, ClassName, Error, ListRequest, MethodName, Op, OpResult, Request, Result, Status,
    Store,
};
use nacre_program::Budget;

const CLASS: &str = "program";
/// Lua code that is put before a class. It reduces `objclass` to what stock `cls_lua` has: the
/// functions that generated classes call, and the names of errors.
const WITHOUT_EXTENSIONS: &str = "local objclass = (function() local stock = {} \
    for name, value in pairs(objclass) do \
    if name == string.upper(name) then stock[name] = value end end \
    for _, name in ipairs({ 'register', 'stat', 'read', 'write', 'write_full', 'getxattr', \
    'setxattr', 'map_get_val', 'map_set_val', 'map_remove_key', 'map_get_keys', 'map_get_vals' }) do \
    stock[name] = objclass[name] end return stock end)() ";
/// Bounds in the generated Lua on what one step does, and the small values that replace them. With
/// the small values, a few rows already need several steps.
const BOUNDS: [(&str, &str); 3] = [
    ("local STEP_ROWS, STEP_BYTES = 512, 1048576", "local STEP_ROWS, STEP_BYTES = 1, 64"),
    ("local OWN_PAGE, OWN_BYTES = 64, 1048576", "local OWN_PAGE, OWN_BYTES = 1, 64"),
    ("local SLOT_GROUP, SLOT_CHUNK = 64, 65536", "local SLOT_GROUP, SLOT_CHUNK = 2, 20"),
];
/// Two widths of slots in bytes. The first is too small for some rows, the second is large enough
/// for most.
pub const SLOT_BYTES: [u32; 2] = [12, 64];

/// An object with a program's class.
pub struct Subject {
    store: MemoryStore,
    classes: Arc<ClassRuntime>,
    version: Cell<u64>,
    is_stock: bool,
}

/// The legal layouts of a program, `most` of them at most, evenly from among all.
pub fn layouts(source: &str, most: usize) -> Vec<Layout> {
    let Ok(compiled) = compile(source) else { return vec![Layout::default()] };
    let layouts = Choices::of(&compiled, &SLOT_BYTES).layouts;
    let step = layouts.len().div_ceil(most).max(1);
    layouts.into_iter().step_by(step).collect()
}

/// A program in its legal layouts, `most` of them at most.
pub fn in_layouts(source: &str, most: usize) -> Vec<String> {
    let layouts = layouts(source, most).into_iter();
    layouts.map(|layout| with_layout(source, &layout, &[])).collect()
}

/// The class of a program.
///
/// # Panics
/// If the program does not compile.
fn class_of(source: &str) -> String {
    let compiled = compile(source).unwrap_or_else(|errors| {
        panic!("{}\n{source}", errors.render("program", source));
    });
    compiled.class.lua
}

/// Replaces the bounds in a class by small ones. A few rows then need as many steps as many rows do
/// with the real bounds.
fn in_small_steps(mut lua: String) -> String {
    for (bound, small) in BOUNDS {
        lua = lua.replace(bound, small);
    }
    lua
}

/// The bounds, replaced by [`Subject::becomes_slow`], that do not occur in the class of a program.
pub fn bounds_missing(source: &str) -> Vec<&'static str> {
    let lua = class_of(source);
    BOUNDS.into_iter().map(|(bound, _)| bound).filter(|bound| !lua.contains(bound)).collect()
}

impl Subject {
    /// A new object with the class of a program; the object does not exist in the store yet.
    ///
    /// # Panics
    /// If the program does not compile, or if its class does not load.
    pub fn new(source: &str) -> Self {
        Self::of_class(source)
    }

    /// As [`Subject::new`], but without nacre's additions to `objclass`.
    pub fn on_stock(source: &str) -> Self {
        let mut subject = Self::of_class(&format!("{WITHOUT_EXTENSIONS}{}", class_of(source)));
        subject.is_stock = true;
        subject
    }

    /// An object with a class in either language.
    pub fn of_class(lua: &str) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let classes = Arc::new(ClassRuntime::new(Budget::default(), clock.clone()));
        let store = MemoryStore::new(classes.clone(), clock);
        let subject = Self { store, classes, version: Cell::new(0), is_stock: false };
        subject.install(lua);
        subject
    }

    fn install(&self, lua: &str) {
        self.version.set(self.version.get() + 1);
        let name = ClassName::new(CLASS).unwrap();
        if let Err(error) = self.classes.install(&ClassProgram::new(name, self.version.get(), lua))
        {
            panic!("{error}\n{lua}");
        }
    }

    /// Another program takes the object over.
    pub fn becomes(&self, source: &str) {
        match self.is_stock {
            true => self.becomes_class(&class_of(source)),
            false => self.install(source),
        }
    }

    /// Gives the object the class of another program, with small bounds on what one step does.
    pub fn becomes_slow(&self, source: &str) {
        self.becomes_class(&in_small_steps(class_of(source)));
    }

    fn becomes_class(&self, lua: &str) {
        let before = if self.is_stock { WITHOUT_EXTENSIONS } else { "" };
        self.install(&format!("{before}{lua}"));
    }

    /// Does one step of a migration. Returns whether there is more to do.
    pub fn migrate(&self) -> bool {
        let reply = self.call("layout_migrate", &[]).expect("an object can be migrated");
        match &reply[..] {
            [(name, rows)] if name == "layout" => rows[0][0] == Value::text("moving"),
            other => panic!("{other:?}"),
        }
    }

    /// The reply of a method.
    pub fn call(&self, method: &str, row: &[Value]) -> Result<Vec<OutputRows>> {
        let output = self.call_raw(method, encode_request(row))?;
        Ok(decode_reply(&output).expect("a class replies well-formed"))
    }

    /// The reply of a method of another object.
    pub fn call_on(&self, object: &str, method: &str, row: &[Value]) -> Result<Vec<OutputRows>> {
        let results = self.transact_on(object, vec![call(method, encode_request(row))])?;
        match &results[..] {
            [OpResult::Called(reply)] => {
                Ok(decode_reply(&reply.output).expect("it is well-formed"))
            }
            other => panic!("a call answered {other:?}"),
        }
    }

    /// Delivers the messages that objects have sent, and the messages that these cause. Does what
    /// the courier (the part of a node that delivers messages) does when nothing fails.
    pub fn deliver(&self) {
        while let Some((object, key, message)) = self.first_message() {
            // Before it who sent it, after its length.
            let message = &message[1 + usize::from(message[0])..];
            let outputs = decode_reply(message).expect("a message is well-formed");
            let (channel, row) = (&*outputs[0].0, &outputs[0].1[0]);
            let remove = Op::MapRemove { keys: vec![key] };
            self.transact_on(&object, vec![remove]).unwrap();
            match (channel, &row[..]) {
                ("remove_object", _) => {
                    self.transact_on(&object, vec![Op::Remove]).unwrap();
                }
                ("notify", _) => {}
                (_, [Value::Bytes(object), _, Value::Bytes(method), row @ ..]) => {
                    let [object, method] = [object, method].map(|name| text_of(name));
                    self.call_on(object, method, row).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// A message that waits in any object.
    fn first_message(&self) -> Option<(String, Bytes, Bytes)> {
        let pool = "data".parse().unwrap();
        let list = ListRequest { pool, after: None, prefix: String::new(), limit: 100 };
        let names = block_on(self.store.list(list)).unwrap().names;
        names.into_iter().find_map(|name| {
            let prefix = Bytes::from_static(b">");
            let first = Op::MapRange { after: Bytes::new(), prefix, limit: 1 };
            match self.transact_on(name.as_str(), vec![first]).unwrap().remove(0) {
                OpResult::Range(range) => range
                    .entries
                    .into_iter()
                    .next()
                    .map(|entry| (name.to_string(), entry.key, entry.value)),
                other => panic!("{other:?}"),
            }
        })
    }

    /// What came of a line of a script.
    pub fn step(&self, step: &Step) -> Result<Vec<OutputRows>> {
        if step.is_delivery() {
            self.deliver();
            return Ok(vec![]);
        }
        self.call_on(&step.object, &step.method, &step.row)
    }

    /// The output of a method for any input.
    pub fn call_raw(&self, method: &str, input: Vec<u8>) -> Result<Bytes> {
        match self.submit(call(method, input))? {
            OpResult::Called(reply) => Ok(reply.output),
            other => panic!("a call answered {other:?}"),
        }
    }

    /// Writes the object's bytes, in one transaction after a method.
    pub fn write_after(&self, method: &str, row: &[Value], data: &'static [u8]) -> Result<()> {
        let write = Op::Write { offset: 0, data: data.into() };
        self.transact(vec![call(method, encode_request(row)), write]).map(|_| ())
    }

    /// Writes the object's bytes.
    pub fn write(&self, data: &'static [u8]) {
        self.submit(Op::Write { offset: 0, data: data.into() }).unwrap();
    }

    /// Leaves the object no bytes.
    pub fn empty_stream(&self) {
        self.submit(Op::Truncate { size: 0 }).unwrap();
    }

    /// How many bytes the object has.
    pub fn size(&self) -> u64 {
        match self.submit(Op::Stat) {
            Ok(OpResult::Stat(stat)) => stat.size,
            _ => 0,
        }
    }

    fn submit(&self, op: Op) -> Result<OpResult> {
        Ok(self.transact(vec![op])?.remove(0))
    }

    fn transact(&self, ops: Vec<Op>) -> Result<Vec<OpResult>> {
        self.transact_on(OWN_OBJECT, ops)
    }

    fn transact_on(&self, object: &str, ops: Vec<Op>) -> Result<Vec<OpResult>> {
        let request = Request::new(format!("data/{object}").parse().unwrap(), ops)?;
        Ok(block_on(self.store.submit(request))?.results)
    }

    /// The keys of the object's map.
    pub fn keys(&self) -> Vec<Bytes> {
        self.entries().into_iter().map(|(key, _)| key).collect()
    }

    fn entries(&self) -> Vec<(Bytes, Bytes)> {
        let all = Op::MapRange { after: Bytes::new(), prefix: Bytes::new(), limit: u32::MAX };
        match self.submit(all) {
            Ok(OpResult::Range(range)) => {
                range.entries.into_iter().map(|entry| (entry.key, entry.value)).collect()
            }
            _ => vec![],
        }
    }

    /// All contents of the object: its map, its stream and its attributes.
    pub fn content(&self) -> (Vec<(Bytes, Bytes)>, Option<OpResult>, Option<OpResult>) {
        let stream = self.submit(Op::Read { offset: 0, length: u64::MAX }).ok();
        (self.entries(), stream, self.submit(Op::GetAttributes).ok())
    }
}

fn text_of(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap()
}

fn call(method: &str, input: Vec<u8>) -> Op {
    Op::Call(ClassCall {
        class: ClassName::new(CLASS).unwrap(),
        method: MethodName::new(method).unwrap(),
        version: None,
        input: input.into(),
    })
}

/// The outcome of a request: its status, and its reply or error.
pub type Outcome = (Status, Vec<u8>);

/// What requests of a method come to.
pub fn one_by_one(subject: &Subject, method: &str, rows: &[Vec<Value>]) -> Vec<Outcome> {
    let outcome = |row: &Vec<Value>| match subject.call_raw(method, encode_request(row)) {
        Ok(output) => (0, output.to_vec()),
        Err(error) => (error.status(), error.message().as_bytes().to_vec()),
    };
    rows.iter().map(outcome).collect()
}

/// As [`one_by_one`], but sends the requests as one batch.
///
/// # Panics
/// If that fails as a whole.
pub fn as_a_batch(subject: &Subject, method: &str, rows: &[Vec<Value>]) -> Vec<Outcome> {
    let requests: Vec<_> = rows.iter().map(|row| encode_request(row)).collect();
    let input = encode_batch(u32::MAX, &requests).to_vec();
    let output = subject.call_raw(&format!("{method}.batch"), input).expect("none is torn");
    let answers = decode_answers(output, rows.len()).unwrap();
    answers.into_iter().map(|answer| (answer.status, answer.output.to_vec())).collect()
}

/// The outcome of a request, in the words of test scripts.
pub fn shown(outcome: &Result<Vec<OutputRows>>) -> String {
    match outcome {
        Ok(outputs) => shown_reply(outputs),
        Err(error) => failure(error),
    }
}

fn failure(error: &Error) -> String {
    error.kind().as_str().to_owned()
}

/// The cases of a data file. Each case has a name after `== `, and two strings that a line of
/// dashes separates.
pub fn cases(text: &str) -> Vec<(String, String, String)> {
    let parts = text.split("\n== ").skip(1);
    parts
        .map(|part| {
            let (name, rest) = part.split_once('\n').unwrap_or((part, ""));
            let (program, expected) = rest.split_once("---\n").unwrap_or((rest, ""));
            (name.to_owned(), program.to_owned(), expected.to_owned())
        })
        .collect()
}

/// Bytes as digits, two each.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of such digits.
pub fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}
