//! Computes how many rows an object can have at most in its byte stream. Code that examines objects
//! without calling their class uses this.

use super::legality::Stored;
use super::stream::{Slots, Stream, divide};
use crate::compile::Compiled;

/// How many rows an object in the present layout can have at most outside the map, if its byte
/// stream has `stream_bytes`. Counts every slot of a table or an index that begins within the
/// stream, whether or not it has a row.
pub fn most_rows_in_stream(compiled: &Compiled, stream_bytes: u64) -> u64 {
    let program = &compiled.analysis.program;
    let stored = Stored::new(program, &compiled.plan.views);
    // A layout that cannot be divided was refused.
    let Stream { slots, .. } = divide(&stored, &program.layout()).unwrap_or_default();
    slots.iter().map(|(_, slots)| slots.begun(stream_bytes)).sum()
}

impl Slots {
    /// How many of them begin before the end of the stream.
    fn begun(&self, stream_bytes: u64) -> u64 {
        let own = stream_bytes.saturating_sub(u64::from(self.base));
        own.div_ceil(u64::from(self.width)).min(u64::from(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::compile;
    use crate::layout::{Layout, with_layout};

    const PROGRAM: &str = "state do
  table :log, [:at:int] => [:data:bytes]
  table :other, [:at:int] => [:data:bytes]
  interface input, :write, [:at:int, :data:bytes]
end
bloom do
  log <+- write
  other <+- write
end
";

    fn most_rows(layout: &str, stream_bytes: u64) -> u64 {
        let layout: Layout = layout.parse().unwrap();
        let compiled = compile(&with_layout(PROGRAM, &layout, &[])).unwrap();
        most_rows_in_stream(&compiled, stream_bytes)
    }

    #[test]
    fn a_stream_has_at_most_as_many_rows_as_slots_that_it_reaches() {
        for (layout, stream_bytes, rows) in [
            ("map", 1_000_000, 0),
            ("log: slots(64)", 0, 0),
            ("log: slots(64)", 1, 1),
            ("log: slots(64)", 64_000, 1000),
            // Appended rows do not count, but the slots of their index in the stream do.
            ("log: appended(map)", 1_000_000, 0),
            ("log: appended(stream, 100)", 1600, 100),
            ("log: appended(stream, 100)", 1_000_000, 100),
            ("log: slots(64, 10), other: slots(32)", 640 + 32, 11),
        ] {
            assert_eq!(most_rows(layout, stream_bytes), rows, "{layout}, {stream_bytes} bytes");
        }
    }
}
