//! Translates a policy from the dialect of the Mantle paper, which nacre's nodes run, into one
//! chunk of Lua in Ceph's dialect. `nacre balancer cephfs push` uses it, so metadata servers can
//! run the same policies.
//!
//! The chunk first defines the names of the Mantle paper in terms of Ceph's names. Then it executes
//! the policy's source, and runs `mdsload`, `when` and `where`. It returns an entry for each rank.
//!
//! Ceph itself measures and chooses the units, and keeps no state between ticks. So some parts of a
//! policy have no effect on Ceph; [`Translation::losses`] lists them.
//!
//! **Invariant:** a policy without losses sends the same loads to the same ranks in both dialects,
//! given the same loads.

use nacre_object::Result;

use super::generate::{decide_of, mdsload_of, without_preamble};
use super::hook_name::HookName;
use super::hooks::{HookForm, Hooks};
use super::mapped_script::MappedSource;
use super::{Policy, original};
use crate::{Dialect, Mode};

/// A policy that Ceph can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translation {
    /// The chunk.
    pub source: String,
    /// What the policy loses, each in a sentence.
    pub losses: Vec<String>,
}

/// The beginning of each translated chunk. It defines the names of the Mantle paper in terms of
/// Ceph's names. It also defines `math` and `table`, which Ceph does not give to policies.
const PRELUDE: &str = r#"--!mantle
-- Made by nacre from a policy in the dialect of the Mantle paper. Do not edit: change the policy, and push it again.
local nacre_mds, nacre_count = mds, 0
for _ in pairs(nacre_mds) do nacre_count = nacre_count + 1 end
local MDSs, targets, total = {}, {}, 0
for nacre_rank = 1, nacre_count do
  local nacre_from = nacre_mds[nacre_rank - 1]
  MDSs[nacre_rank] = {
    auth = nacre_from["auth.meta_load"], all = nacre_from["all.meta_load"], cpu = nacre_from["cpu_load_avg"],
    mem = 0, q = nacre_from["queue_len"], req = nacre_from["req_rate"], labels = {}, capacity = 1, node = "",
  }
end
local mds, whoami = MDSs, whoami + 1
local authmetaload, allmetaload = MDSs[whoami].auth, MDSs[whoami].all
local function max(a, b) if a > b then return a end return b end
local function min(a, b) if a < b then return a end return b end
local Max, Min = max, min
local math = {
  max = max, min = min, huge = 1 / 0,
  floor = function(x) return x // 1 end, ceil = function(x) return -(-x // 1) end,
  abs = function(x) if x < 0 then return -x end return x end,
}
local table = {
  insert = function(list, value) list[#list + 1] = value end,
  sort = function(list, is_before)
    is_before = is_before or function(a, b) return a < b end
    for at = 2, #list do
      local value, to = list[at], at
      while to > 1 and is_before(value, list[to - 1]) do list[to] = list[to - 1] to = to - 1 end
      list[to] = value
    end
  end,
}
-- Ceph keeps nothing between ticks.
local function WRstate() end
local function RDstate() return nil end
local WRState, RDState = WRstate, RDstate
local function nacre_policy()
"#;

/// What follows the source.
const AFTER_SOURCE: &str = "\nend\nnacre_policy()\n";

/// The end of each translated chunk: it computes the loads of the ranks and the decision, and
/// returns an entry for each rank. As in the Mantle paper, an entry for this rank itself voids all
/// entries.
const POSTLUDE: &str = r#"
for nacre_rank = 1, nacre_count do
  MDSs[nacre_rank].load = nacre_mdsload(nacre_rank)
  total = total + MDSs[nacre_rank].load
end
if nacre_when() and nacre_where then nacre_where() end
for nacre_rank in pairs(targets) do
  if not MDSs[nacre_rank] then error("targets[" .. nacre_rank .. "]: there is no such rank") end
end
local nacre_result, nacre_is_void = {}, targets[whoami] ~= nil
for nacre_rank = 1, nacre_count do
  nacre_result[nacre_rank - 1] = not nacre_is_void and targets[nacre_rank] or 0
end
return nacre_result
"#;

/// Translates a policy. One in Ceph's dialect stays as it is.
///
/// # Errors
/// Those of [`Policy::compile`].
pub fn translate(name: &str, version: u64, source: &str) -> Result<Translation> {
    if Dialect::of(source) == Dialect::Ceph {
        return Ok(Translation { source: source.to_owned(), losses: vec![] });
    }
    Policy::compile(name, version, source)?;
    let hooks = Policy::read_hooks(name, version, source)?;
    let mut script = MappedSource::default();
    script.append(&mdsload_of(&hooks.mdsload));
    script.append(&decide_of(&hooks.when, &hooks.where_, source));
    let source = &without_preamble(source);
    let chunk = [PRELUDE, source.as_str(), AFTER_SOURCE, script.text(), POSTLUDE].concat();
    Ok(Translation { source: chunk, losses: losses(&hooks, source) })
}

fn losses(hooks: &Hooks, source: &str) -> Vec<String> {
    let code: String = source.lines().map(without_comment).collect::<Vec<_>>().join("\n");
    let mentions = |words: &[&str]| words.iter().any(|word| code.contains(word));
    let is_set = |form: &HookForm| !matches!(form, HookForm::Original);
    let is_big_first = |form: &HookForm| match form {
        HookForm::Text { text, .. } => text == original::text_of(HookName::Howmuch),
        HookForm::Original => true,
        HookForm::Function => code.contains(r#"howmuch = { "big_first" }"#),
    };
    let is_original_metaload = matches!(&hooks.metaload, HookForm::Text { text, .. }
        if text == original::text_of(HookName::Metaload));
    let losses = [
        (
            is_set(&hooks.metaload) && !is_original_metaload,
            "metaload: metadata servers weigh what they serve in their own way",
        ),
        (
            !is_big_first(&hooks.howmuch),
            "howmuch: metadata servers choose themselves what moves, the biggest first",
        ),
        (
            mentions(&["WRstate", "RDstate", "WRState", "RDState"]),
            "state: `RDstate()` always gives nil, and `WRstate()` keeps nothing",
        ),
        (
            HookName::Placement.line_in(source).is_some(),
            "placement: metadata servers ask no policy what may move where",
        ),
        (hooks.mode == Mode::Proxy, "mode: metadata servers send clients on"),
        (
            mentions(&["\"mem\"", ".mem", "labels", "capacity", "node"]),
            "mem, labels, capacity and node of a rank: 0, none, 1 and an empty string",
        ),
    ];
    losses.into_iter().filter(|(is_lost, _)| *is_lost).map(|(_, what)| what.to_owned()).collect()
}

/// The part of a line before its comment. A `--` within a string also counts as the beginning of a
/// comment. Then the search for parts that Ceph cannot express misses the words after it.
fn without_comment(line: &str) -> &str {
    line.split("--").next().unwrap_or_default()
}
