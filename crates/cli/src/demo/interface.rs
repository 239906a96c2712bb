//! The storage interface that the demo's log runs on.

use bytes::Bytes;
use nacre::{
    LOG_BRADOS_CLASS, LOG_BRADOS_SOURCE, LOG_PROGRAM_SOURCE, LogOptions, ProgramId, ProgramKind,
    log_program,
};
use nacre_brados::Value;
use nacre_calls::{decode_reply, encode_request};
use nacre_object::Result;

/// The method that version 2 of the interface has and version 1 has not.
pub(super) const ADDED_METHOD: &str = "revision";
/// The method, in Luau.
const ADDED_LUAU: &str = "
function revision(input, output)
  output:append(\"2\")
end
objclass.register(revision, \"readonly\")
";
/// The method, as relations.
const ADDED_RELATIONS: &str = "
state do
  interface input, :revision, [:unused:int?]
  interface output, :revised, [] => [:number:int]
end

bloom :revision do
  revised <= revision{|r| [2]}
end
";

/// What the log's storage interface is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Interface {
    /// The program programs/class/log.brados, in Brados, nacre's language of relations
    Brados,
    /// The program programs/class/log.lua, in Lua
    Luau,
}

impl Interface {
    /// The program.
    pub fn program(self) -> ProgramId {
        match self {
            Self::Luau => log_program(),
            Self::Brados => {
                let name = LOG_BRADOS_CLASS.parse().expect("a literal");
                ProgramId::new(ProgramKind::Class, name)
            }
        }
    }

    /// Its source.
    pub fn source(self) -> &'static str {
        match self {
            Self::Luau => LOG_PROGRAM_SOURCE,
            Self::Brados => LOG_BRADOS_SOURCE,
        }
    }

    /// The source of version 2.
    pub fn second_source(self) -> String {
        let added = if self == Self::Luau { ADDED_LUAU } else { ADDED_RELATIONS };
        format!("{}{added}", self.source())
    }

    /// A log on it.
    pub fn log_options(self) -> Result<LogOptions> {
        Ok(LogOptions { class: self.program().name.as_str().parse()?, ..LogOptions::default() })
    }

    /// What the added method is asked.
    pub fn question(self) -> Bytes {
        match self {
            Self::Luau => Bytes::new(),
            Self::Brados => encode_request(&[Value::Nil]).into(),
        }
    }

    /// Whether the added method answered this.
    pub fn is_answer(self, output: &[u8]) -> bool {
        match self {
            Self::Luau => output == b"2",
            Self::Brados => {
                let expected = ("revised".to_owned(), vec![vec![Value::Int(2)]]);
                decode_reply(output).is_ok_and(|outputs| outputs == [expected])
            }
        }
    }
}
