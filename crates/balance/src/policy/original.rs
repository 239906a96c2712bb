//! The original policy of CephFS (Mantle, table 1): a hook that a policy leaves out is the original's.
//!
//! `programs/balancer/cephfs_hybrid.lua` is the same policy as a program. A test compares the two.

use super::hook_name::HookName;

/// What a unit's load is.
const METALOAD: &str = "IRD + 2*IWR + READDIR + 2*FETCH + 4*STORE";

/// What a rank's load is.
const MDSLOAD: &str =
    r#"0.8*MDSs[i]["auth"] + 0.2*MDSs[i]["all"] + MDSs[i]["req"] + 10*MDSs[i]["q"]"#;

/// Load moves away from ranks that have more than the average.
const WHEN: &str = r#"if MDSs[whoami]["load"] > total/#MDSs then"#;

/// The ranks furthest above the average send to the ranks furthest below it.
const WHERE: &str = r#"
  local average = total / #MDSs
  local exporters, importers = {}, {}
  for i = 1, #MDSs do
    local distance = MDSs[i]["load"] - average
    if distance > 0 then
      exporters[#exporters + 1] = { rank = i, left = distance }
    elseif distance < 0 then
      importers[#importers + 1] = { rank = i, left = -distance }
    end
  end
  local function is_larger(a, b)
    if a.left ~= b.left then return a.left > b.left end
    return a.rank < b.rank
  end
  table.sort(exporters, is_larger)
  table.sort(importers, is_larger)
  local from, to = 1, 1
  while exporters[from] and importers[to] do
    local amount = math.min(exporters[from].left, importers[to].left)
    -- Loads are measured with noise, so only 0.8 of the distance is sent (mds_bal_need_min).
    if exporters[from].rank == whoami and amount >= 0.01 then
      targets[importers[to].rank] = 0.8 * amount
    end
    exporters[from].left = exporters[from].left - amount
    importers[to].left = importers[to].left - amount
    if exporters[from].left <= 0 then from = from + 1 end
    if importers[to].left <= 0 then to = to + 1 end
  end
"#;

/// The selectors by which the original chooses units.
pub(crate) const HOWMUCH: [&str; 1] = ["big_first"];

/// The original's hook, in the dialect of the paper.
pub(crate) fn text_of(hook: HookName) -> &'static str {
    match hook {
        HookName::Metaload => METALOAD,
        HookName::Mdsload => MDSLOAD,
        HookName::When => WHEN,
        HookName::Where => WHERE,
        HookName::Howmuch => r#"{"big_first"}"#,
        HookName::Placement | HookName::Mode => "nil",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_hybrid_policy_is_the_original() {
        let shipped = include_str!("../../../../programs/balancer/cephfs_hybrid.lua");
        let hooks = [HookName::Metaload, HookName::Mdsload, HookName::When, HookName::Where];
        for hook in hooks {
            assert!(shipped.contains(text_of(hook)), "{hook} differs");
        }
    }
}
