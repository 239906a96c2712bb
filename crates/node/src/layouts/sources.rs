//! Makes the two versions of a class that lead from one layout of its rows to another. This module
//! is pure.
//!
//! Both versions read rows in the old and in the new location. The *bridge* writes rows to the old
//! location, the *target* writes them to the new one. The bridge is live on all nodes before the
//! target is live on any node. So each node can always read what the others write. After a rollback
//! to the bridge, all rows move back to the old location.

use nacre_brados::layout::LayoutError;
use nacre_brados::limits::MAX_FORMER_LAYOUTS;
use nacre_brados::{Compiled, Layout, compile, with_layout};
use nacre_object::{Error, Result};

/// The sources of the two versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sources {
    /// The layout before, as a program names it.
    pub former: String,
    pub bridge: String,
    pub target: String,
}

impl Sources {
    /// Makes the two versions for a class whose active source is `source`. `is_settled` says that
    /// all objects of the class are in its present layout.
    ///
    /// # Errors
    /// `Invalid` if the layout is impossible for the program or is its present layout, or if the
    /// class would have too many former layouts.
    pub fn of(source: &str, wanted: &str, is_settled: bool) -> Result<Self> {
        let layout: Layout = wanted
            .parse()
            .map_err(|error: LayoutError| Error::invalid(format!("{wanted}: {error}")))?;
        let compiled = compiled(source)?;
        let program = &compiled.analysis.program;
        let present = program.layout();
        let layout = layout.with_stripes(present.stripes);
        if layout == present {
            return Err(Error::invalid(format!("the class already has the layout {layout}"))
                .hint("choose another: `nacre brados layouts` lists them"));
        }
        let others = program.former_layouts().filter(|former| !is_settled && **former != layout);
        let others: Vec<Layout> = others.cloned().collect();
        if others.len() >= MAX_FORMER_LAYOUTS {
            return Err(Error::invalid(format!("the class has {} former layouts", others.len()))
                .hint("first wait until all its objects have the present layout"));
        }
        let knowing = |former: &Layout| [std::slice::from_ref(former), &others].concat();
        let bridge = with_layout(source, &present, &knowing(&layout));
        let target = with_layout(source, &layout, &knowing(&present));
        for source in [&bridge, &target] {
            self::compiled(source)?;
        }
        Ok(Self { former: present.to_string(), bridge, target })
    }
}

/// Compiles a source.
pub(super) fn compiled(source: &str) -> Result<Compiled> {
    nacre_brados::is_brados(source)
        .then(|| compile(source))
        .ok_or_else(|| {
            Error::invalid("the class is not in Brados")
                .hint("choose a class in Brados: only those have layouts")
        })?
        .map_err(|errors| {
            let reason = errors.to_string();
            Error::invalid(reason).hint("`nacre brados layouts` lists what is possible")
        })
}

#[cfg(test)]
pub(super) mod tests {
    use nacre_brados::{LayoutSignatures, Whereabouts};

    use super::*;

    pub const KV: &str = "state do
  table :kv, [:at:int] => [:value:bytes]
  interface input, :put, [:at:int, :value:bytes]
end
bloom do
  kv <+- put
end
";

    fn layouts(source: &str) -> (String, Vec<String>) {
        let program = compiled(source).unwrap().analysis.program;
        let former = program.former_layouts().map(Layout::to_string).collect();
        (program.layout().to_string(), former)
    }

    #[test]
    fn bridge_and_target_each_read_what_the_other_writes() {
        let sources = Sources::of(KV, "kv: slots(64)", true).unwrap();
        assert_eq!(layouts(&sources.bridge), ("map".into(), vec!["kv: slots(64)".into()]));
        assert_eq!(layouts(&sources.target), ("kv: slots(64)".into(), vec!["map".into()]));
        assert_eq!(sources.former, "map");
        let [plain, bridge, target] = [KV, &sources.bridge, &sources.target]
            .map(|source| LayoutSignatures::of(&compiled(source).unwrap()));
        assert!(plain.overlap(&bridge) && bridge.overlap(&target));
        let entry =
            |marks: &LayoutSignatures| format!("{marks:?}").split('"').nth(1).unwrap().to_owned();
        let (in_map, in_slots) = (entry(&bridge), entry(&target));
        assert_eq!(target.whereabouts(in_slots.as_bytes()), Whereabouts::Settled);
        assert_eq!(target.whereabouts(in_map.as_bytes()), Whereabouts::Elsewhere);
        assert_eq!(plain.whereabouts(in_slots.as_bytes()), Whereabouts::Foreign);
        let between = format!("m{}rest", &in_slots[1..]);
        assert_eq!(target.whereabouts(between.as_bytes()), Whereabouts::Elsewhere);
        assert_eq!(target.whereabouts(b""), Whereabouts::Foreign);
    }

    #[test]
    fn a_source_reads_former_layouts_until_all_objects_have_the_present_one() {
        let first = Sources::of(KV, "kv: slots(64)", true).unwrap().target;
        let unsettled = Sources::of(&first, "kv: appended(map)", false).unwrap();
        let (_, former) = layouts(&unsettled.target);
        assert_eq!(former, ["kv: slots(64)", "map"]);
        let settled = Sources::of(&first, "kv: appended(map)", true).unwrap();
        assert_eq!(layouts(&settled.target).1, ["kv: slots(64)"]);
        let back = Sources::of(&first, "map", false).unwrap();
        assert_eq!(layouts(&back.target), ("map".into(), vec!["kv: slots(64)".into()]));
    }

    #[test]
    fn an_impossible_layout_is_refused() {
        for (source, wanted, reason) in [
            (KV, "map", "already has the layout map"),
            (KV, "kv: slots(1)", "slots(1)"),
            (KV, "vk: slots(64)", "vk"),
            ("function f() end objclass.register(f)", "map", "not in Brados"),
        ] {
            let error = Sources::of(source, wanted, true).unwrap_err();
            assert!(error.to_string().contains(reason), "{wanted}: {error}");
        }
    }
}
