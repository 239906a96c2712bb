//! Checks every entry of the tables in key order, and every payload they refer to. This is the last
//! stage of a scrub.
//!
//! Checksums find damaged entries. Missing entries are found through other entries that mention
//! them: a head has the number of slots and attributes, a value names its payloads, and a record or
//! a reference names the owner of a payload. Each entry is also looked up by its key, as a read
//! does it. A look-up uses filters and the reading in key order does not, so the look-up finds a
//! damaged filter that hides entries.

use std::collections::{HashMap, HashSet};

use nacre_object::{Error, Result};

use super::owners::{Owner, Owners, Whose};
use super::stretch::{Entries, Stretch, successor};
use super::{Damage, ScrubCursor, ScrubStep};
use crate::core::Core;
use crate::entry::head::Head;
use crate::entry::key::{self, ALL_HEADS, Key, Kind, NodeId};
use crate::entry::value::{NamedIn, Piece, Value};
use crate::journal::payload_reader::PayloadReader;
use crate::journal::released_payloads::SegmentReleases;
use crate::journal::segment::file_name;
use crate::tables::TableSnapshot;
use crate::upkeep::payload_owners::PayloadOwners;

pub(super) fn step(core: &Core, from: &[u8]) -> Result<ScrubStep> {
    // The pin is older than the snapshot, so it keeps whatever the snapshot refers to.
    let _pin = core.segments.pin();
    let (unsettled, applied) =
        (core.journal.first_unapplied().segment, core.read_barrier.applied());
    let tables = core.tables.snapshot_with_deferred();
    let durable = core.journal.durable();
    let mut walk = Walk {
        core,
        tables: &tables,
        unsettled,
        durable,
        is_exact: applied == durable,
        step: ScrubStep::default(),
        found: Vec::new(),
        stretches: Vec::new(),
        hidden: HashSet::new(),
        last_extent: None,
        counted: None,
    };
    walk.run(from);
    Ok(walk.finish())
}

/// Damage that was found. The affected object is not known yet.
struct Finding {
    whose: Whose,
    place: String,
    problem: String,
}

struct Walk<'a> {
    core: &'a Core,
    tables: &'a TableSnapshot,
    /// The first journal segment with groups that are newer than the snapshot of the tables.
    unsettled: u32,
    /// The last group that was synced when the snapshot was taken.
    durable: u64,
    /// Whether the snapshot has all groups up to `durable`, and no later one.
    is_exact: bool,
    step: ScrubStep,
    found: Vec<Finding>,
    stretches: Vec<Stretch>,
    /// Objects and nodes with an entry that a look-up does not find. Only the first such entry of
    /// each is reported.
    hidden: HashSet<Whose>,
    /// The last extent seen, and where it ends.
    last_extent: Option<(NodeId, u64)>,
    /// The segment whose live bytes (bytes that entries refer to) were counted last, and the count
    /// for each shard. The counts are `None` if some entry that may refer to the segment could not
    /// be read.
    counted: Option<(u32, Option<HashMap<u16, i64>>)>,
}

impl Walk<'_> {
    fn run(&mut self, from: &[u8]) {
        for entry in Entries::from(self.tables, from) {
            match entry {
                Ok((key, stored)) => {
                    self.step.entries += 1;
                    self.step.bytes += (key.len() + stored.len()) as u64;
                    self.look_at(&key, &stored);
                    if self.step.is_full() {
                        self.step.next = Some(ScrubCursor::entries(successor(&key)));
                        return;
                    }
                }
                Err(stretch) => {
                    // Finding the end of the stretch was enough work for one step.
                    self.step.next = Some(ScrubCursor::entries(stretch.to.as_slice()));
                    self.stretches.push(stretch);
                    return;
                }
            }
        }
    }

    fn look_at(&mut self, key: &Key, stored: &[u8]) {
        let Some(kind) = Kind::of(key) else {
            let place = format!("entry {key:02x?}");
            let problem = "the key of this entry is not one that the engine writes".to_owned();
            return self.found.push(Finding { whose: Whose::Nobody, place, problem });
        };
        if let Kind::Head(object) = &kind {
            self.step.objects.push(object.clone());
        }
        let value = match Value::decode(key, stored) {
            Ok(value) => value,
            Err(error) => return self.find(&kind, error.message()),
        };
        let checked = match &kind {
            Kind::Head(_) | Kind::Snapshot(..) => self.check_head(&value),
            Kind::Extent { node, offset } => self.check_extent(*node, *offset, &value),
            Kind::Reference { segment, offset, owner } => {
                self.check_reference(*segment, *offset, owner)
            }
            Kind::Live { segment, shard } => self.check_live(*segment, *shard, &value),
            _ => Ok(()),
        };
        if let Err(error) = checked {
            self.find(&kind, error.message());
        }
        self.look_up(&kind, key);
        for piece in value.pieces() {
            self.check_piece(&kind, key, piece);
        }
    }

    fn look_up(&mut self, kind: &Kind<'_>, key: &Key) {
        let whose = Whose::of(kind);
        if whose == Whose::Nobody || self.hidden.contains(&whose) {
            return;
        }
        if let Err(error) = self.tables.get(key) {
            self.find(kind, error.message());
            self.hidden.insert(whose);
        }
    }

    fn find(&mut self, kind: &Kind<'_>, problem: &str) {
        let (whose, place) = (Whose::of(kind), describe(kind));
        self.found.push(Finding { whose, place, problem: problem.to_owned() });
    }

    /// Checks that an object has as many entries for small appends and attributes as its head says.
    /// If the stream is stored in the head, checks that the stream has no extents.
    fn check_head(&self, value: &Value) -> Result<()> {
        let head = Head::decode(&value.clone().into_inline()?)?;
        let content = &head.content;
        if let Some(node) = content.stream {
            let has_extents = || self.tables.prefix(&key::extent_prefix(node)).next().is_some();
            if content.whole.is_some() && has_extents() {
                return Err(Error::corrupt("the stream is both in the head and in extents"));
            }
            let mut tail = 0;
            for slot in 0..content.tail_slots {
                let missing =
                    || Error::corrupt(format!("slot {slot} of the stream's tail is missing"));
                tail += self.tables.get(&key::slot(node, slot))?.ok_or_else(missing)?.len();
            }
            if content.tail_slots > 0 && content.tail_start + tail != content.size {
                return Err(Error::corrupt("the slots of the stream's tail do not reach its end"));
            }
        }
        if let Some(node) = content.attributes {
            let mut attributes = 0;
            for entry in self.tables.prefix(&key::attribute_prefix(node)) {
                entry?;
                attributes += 1;
            }
            if attributes != content.attribute_count {
                let expected = content.attribute_count;
                let text =
                    format!("the object has {attributes} attributes, but its head says {expected}");
                return Err(Error::corrupt(text));
            }
        }
        Ok(())
    }

    fn check_extent(&mut self, node: NodeId, offset: u64, value: &Value) -> Result<()> {
        let end = offset.saturating_add(value.len());
        let last = self.last_extent.replace((node, end));
        match last {
            Some((last_node, last_end)) if last_node == node && last_end > offset => {
                Err(Error::corrupt("an extent overlaps the one before it"))
            }
            _ => Ok(()),
        }
    }

    fn check_reference(&self, segment: u32, offset: u32, owner: &[u8]) -> Result<()> {
        // An unreadable owner is reported when the walk reaches it.
        let Ok(value) = self.tables.get(owner) else { return Ok(()) };
        let pieces = value.iter().flat_map(Value::pieces);
        let named = pieces.filter(|piece| piece.named_in == NamedIn::Reference);
        let mut addresses = named.filter_map(|piece| piece.source.address());
        if addresses.any(|address| (address.segment, address.offset) == (segment, offset)) {
            return Ok(());
        }
        Err(Error::corrupt(
            "the entry that should refer to this payload is missing or does not refer to it",
        ))
    }

    /// Checks the stored count of a segment's live bytes, that is, bytes that entries refer to. A
    /// wrong count is dangerous, because a segment whose counts are 0 is freed. While the segment
    /// is being written, its records may be newer than the snapshot of the tables. Such a segment
    /// is checked only while nothing is being written.
    fn check_live(&mut self, segment: u32, shard: u16, value: &Value) -> Result<()> {
        let stored = value.clone().into_inline()?;
        if segment >= self.unsettled && !self.is_exact {
            return Ok(());
        }
        if self.counted.as_ref().is_none_or(|(counted, _)| *counted != segment) {
            self.counted = Some((segment, self.count_live(segment)));
        }
        let Some((_, Some(counts))) = &self.counted else { return Ok(()) };
        let live = counts.get(&shard).copied().unwrap_or_default();
        if *stored == live.to_le_bytes() {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "the count of live bytes is wrong: entries refer to {live} bytes of {}",
            file_name(segment)
        )))
    }

    /// Counts, for each shard, the bytes of a segment that its entries refer to. Returns `None` if
    /// something cannot be read. Damage in the segment's records is reported here; damage in an
    /// entry is reported when the scrub reaches the entry.
    fn count_live(&mut self, segment: u32) -> Option<HashMap<u16, i64>> {
        // Releases in memory must not hide damage, so they are not used.
        let inventory =
            self.core.inventory(segment, self.durable, SegmentReleases::default()).ok()?;
        if let Some(damage) = inventory.damage {
            let place = damage.object().unwrap_or_default().to_owned();
            let problem = damage.message().to_owned();
            self.found.push(Finding { whose: Whose::Nobody, place, problem });
            return None;
        }
        self.step.entries += inventory.named.len() as u64;
        let mut counts = HashMap::new();
        for owner in PayloadOwners::find(self.tables, segment, inventory).ok()? {
            let owner = owner.ok()?;
            if let Some(node) = key::node_of(&owner.key) {
                *counts.entry(node.shard()).or_default() += owner.bytes as i64;
            }
        }
        Some(counts)
    }

    fn check_piece(&mut self, kind: &Kind<'_>, owner: &[u8], piece: &Piece) {
        let Some(address) = piece.source.address().copied() else { return };
        let mut buffer = vec![0; piece.take as usize];
        self.step.bytes += u64::from(address.length);
        let mut payloads = PayloadReader::new(&self.core.segments);
        let problem = match payloads.read_pieces(std::slice::from_ref(piece), &mut buffer) {
            Err(error) => error.message().to_owned(),
            // If the record does not name this owner, the count of live bytes shows that.
            Ok(()) if piece.named_in == NamedIn::Record => return,
            Ok(()) => {
                let reference = key::reference(address.segment, address.offset, owner);
                match self.tables.get(&reference) {
                    Ok(None) => "the reference that keeps this payload is missing".to_owned(),
                    // An unreadable reference is reported when the walk reaches it.
                    _ => return,
                }
            }
        };
        let file = file_name(address.segment);
        let place = format!("{} in {file} at byte {}", describe(kind), address.offset);
        self.found.push(Finding { whose: Whose::of(kind), place, problem });
    }

    /// Finds the objects that the damage belongs to, and reports it.
    fn finish(mut self) -> ScrubStep {
        let node = |finding: &Finding| match finding.whose {
            Whose::Node(node) => Some(node),
            _ => None,
        };
        let nodes: HashSet<_> = self.found.iter().filter_map(node).collect();
        let owners = Owners::find(self.tables, &nodes, &self.stretches);
        for Finding { whose, place, problem } in self.found {
            let owner = match whose {
                Whose::Owner(owner) => Some(owner),
                Whose::Node(node) => owners.of_nodes.get(&node).cloned(),
                Whose::Nobody => None,
            };
            self.step.add(damage(owner, place, problem));
        }
        for (stretch, owners) in self.stretches.into_iter().zip(owners.of_stretches) {
            let place = describe_stretch(&stretch);
            self.step.add(Damage::of_store(place, stretch.problem.clone()));
            for owner in owners {
                self.step.add(damage(
                    Some(owner),
                    "part of the object".into(),
                    stretch.problem.clone(),
                ));
            }
        }
        self.step
    }
}

fn damage(owner: Option<Owner>, place: String, problem: String) -> Damage {
    let (object, snapshot) = match owner {
        Some(owner) => (Some(owner.object.to_string()), owner.snapshot.map(|s| s.to_string())),
        None => (None, None),
    };
    Damage { object, snapshot, place, problem, is_repaired: false }
}

fn describe(kind: &Kind<'_>) -> String {
    let text = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
    match kind {
        Kind::Head(_) | Kind::Snapshot(..) => "its head".into(),
        Kind::Extent { offset, .. } => format!("its stream from byte {offset} on"),
        Kind::Slot { slot, .. } => format!("slot {slot} of its stream"),
        Kind::MapEntry { key, .. } => format!("its map's entry {}", text(key)),
        Kind::MapHeader { .. } => "its map's header".into(),
        Kind::Attribute { name, .. } => format!("its attribute {}", text(name)),
        Kind::Reference { segment, offset, .. } => {
            format!("the reference to {} at byte {offset}", file_name(*segment))
        }
        Kind::Live { segment, .. } => format!("a count of live bytes of {}", file_name(*segment)),
        Kind::Garbage => "the mark of a removed stream or map".into(),
        Kind::Applied => "the progress of a shard".into(),
    }
}

/// Describes an unreadable range of keys. If it may hold heads of objects, says between which
/// names.
fn describe_stretch(stretch: &Stretch) -> String {
    if !ALL_HEADS.iter().any(|prefix| stretch.may_hold(prefix)) {
        return "a range of keys in the tables".into();
    }
    let name = |key: &[u8]| String::from_utf8_lossy(key).replace('\0', "/");
    format!("names of objects from {:?} to {:?}", name(&stretch.from), name(&stretch.to))
}
