//! The state of the simulated disk: its present content, and the content that is synced and
//! survives a power cut. This module does no IO.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};

use fuser::Errno;
use nacre_clock::Random;

use super::pages::Pages;

pub const ROOT: u64 = 1;
/// The unit that is written whole or not at all.
const SECTOR: u64 = 512;

/// The effect of a planned fault on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails and does nothing.
    Io,
    /// If the call needs disk space, the disk is full.
    Full,
    /// A write takes only half of its bytes.
    Short,
    /// The power is cut: this call and all later ones fail.
    Power,
}

/// Which calls fail. Calls that change something are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub fault: Fault,
    pub first: u64,
    /// The last call that fails.
    pub last: u64,
}

#[derive(Debug)]
pub enum Node {
    File(File),
    Folder(Folder),
}

#[derive(Debug, Default)]
pub struct File {
    pub current: Pages,
    synced: Pages,
    /// Since the last sync, in order.
    unsynced: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write { offset: u64, data: Vec<u8> },
    Length(u64),
}

#[derive(Debug, Default)]
pub struct Folder {
    pub current: BTreeMap<OsString, u64>,
    synced: BTreeMap<OsString, u64>,
    /// Since the last sync, in order.
    unsynced: Vec<Naming>,
}

#[derive(Debug)]
enum Naming {
    Link(OsString, u64),
    Unlink(OsString),
    Move(OsString, OsString, u64),
}

/// A disk.
#[derive(Debug)]
pub struct Volume {
    nodes: HashMap<u64, Node>,
    next: u64,
    /// Nodes with lower numbers are from before the last power cut.
    alive_from: u64,
    calls: u64,
    plan: Option<Plan>,
    /// Whether the planned fault has been met.
    met: bool,
    is_off: bool,
}

impl Default for Volume {
    fn default() -> Self {
        let nodes = HashMap::from([(ROOT, Node::Folder(Folder::default()))]);
        let (calls, plan) = (0, None);
        Self { nodes, next: ROOT + 1, alive_from: 0, calls, plan, met: false, is_off: false }
    }
}

impl Volume {
    pub fn set_plan(&mut self, plan: Option<Plan>) {
        (self.plan, self.calls, self.met) = (plan, 0, false);
    }

    pub fn calls(&self) -> u64 {
        self.calls
    }

    pub fn met_fault(&self) -> bool {
        self.met
    }

    /// Counts a call that changes something. Returns the planned fault if the call must be cut
    /// short.
    fn count(&mut self, needs_room: bool) -> Result<Option<Fault>, Errno> {
        self.calls += 1;
        let calls = self.calls;
        let plan = self.plan.filter(|plan| (plan.first..=plan.last).contains(&calls));
        let Some(plan) = plan else { return Ok(None) };
        match plan.fault {
            Fault::Full if !needs_room => return Ok(None),
            Fault::Power => self.is_off = true,
            _ => {}
        }
        self.met = true;
        match plan.fault {
            Fault::Io | Fault::Power => Err(Errno::EIO),
            Fault::Full => Err(Errno::ENOSPC),
            Fault::Short => Ok(Some(Fault::Short)),
        }
    }

    /// Returns the node. Fails if the power is off, or was cut since the node was opened.
    pub fn node(&mut self, number: u64) -> Result<&mut Node, Errno> {
        if self.is_off || number != ROOT && number < self.alive_from {
            return Err(Errno::EIO);
        }
        self.nodes.get_mut(&number).ok_or(Errno::ENOENT)
    }

    fn file(&mut self, number: u64) -> Result<&mut File, Errno> {
        match self.node(number)? {
            Node::File(file) => Ok(file),
            Node::Folder(_) => Err(Errno::EISDIR),
        }
    }

    fn folder(&mut self, number: u64) -> Result<&mut Folder, Errno> {
        match self.node(number)? {
            Node::Folder(folder) => Ok(folder),
            Node::File(_) => Err(Errno::ENOTDIR),
        }
    }

    pub fn find(&mut self, folder: u64, name: &OsStr) -> Result<u64, Errno> {
        self.folder(folder)?.current.get(name).copied().ok_or(Errno::ENOENT)
    }

    pub fn names(&mut self, folder: u64) -> Result<Vec<(OsString, u64)>, Errno> {
        let names = &self.folder(folder)?.current;
        Ok(names.iter().map(|(name, number)| (name.clone(), *number)).collect())
    }

    pub fn make(&mut self, folder: u64, name: &OsStr, node: Node) -> Result<u64, Errno> {
        self.folder(folder)?;
        self.count(true)?;
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, node);
        let folder_node = self.folder(folder)?;
        folder_node.current.insert(name.to_owned(), number);
        if folder == ROOT {
            // The machine's own folder always survives; its creation is not under test.
            folder_node.synced.insert(name.to_owned(), number);
        } else {
            folder_node.unsynced.push(Naming::Link(name.to_owned(), number));
        }
        Ok(number)
    }

    pub fn remove(&mut self, folder: u64, name: &OsStr) -> Result<(), Errno> {
        let number = self.find(folder, name)?;
        if let Node::Folder(removed) = self.node(number)?
            && !removed.current.is_empty()
        {
            return Err(Errno::ENOTEMPTY);
        }
        self.count(false)?;
        let folder = self.folder(folder)?;
        folder.current.remove(name);
        folder.unsynced.push(Naming::Unlink(name.to_owned()));
        Ok(())
    }

    pub fn rename(
        &mut self,
        folder: u64,
        name: &OsStr,
        to_folder: u64,
        to: &OsStr,
    ) -> Result<(), Errno> {
        if folder != to_folder {
            return Err(Errno::EXDEV);
        }
        let number = self.find(folder, name)?;
        self.count(false)?;
        let folder = self.folder(folder)?;
        folder.current.remove(name);
        folder.current.insert(to.to_owned(), number);
        folder.unsynced.push(Naming::Move(name.to_owned(), to.to_owned(), number));
        Ok(())
    }

    pub fn read(&mut self, number: u64, offset: u64, length: u64) -> Result<Vec<u8>, Errno> {
        Ok(self.file(number)?.current.read(offset, length))
    }

    /// Returns how many bytes were taken.
    pub fn write(&mut self, number: u64, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        self.file(number)?;
        let is_short = self.count(true)? == Some(Fault::Short);
        let taken = if is_short { data.len().div_ceil(2) } else { data.len() };
        let file = self.file(number)?;
        file.current.write(offset, &data[..taken]);
        file.unsynced.push(Change::Write { offset, data: data[..taken].to_vec() });
        Ok(taken)
    }

    pub fn set_len(&mut self, number: u64, length: u64) -> Result<(), Errno> {
        let grows = length > self.file(number)?.current.len();
        self.count(grows)?;
        let file = self.file(number)?;
        file.current.set_len(length);
        file.unsynced.push(Change::Length(length));
        Ok(())
    }

    pub fn sync(&mut self, number: u64) -> Result<(), Errno> {
        self.node(number)?;
        self.count(false)?;
        match self.node(number)? {
            Node::File(file) => {
                file.synced = file.current.clone();
                file.unsynced.clear();
            }
            Node::Folder(folder) => {
                folder.synced = folder.current.clone();
                folder.unsynced.clear();
            }
        }
        Ok(())
    }

    /// Cuts the power, if it is still on, and brings it back. The surviving content of the root's
    /// folder `name` moves to the new folder `to`, and the old folder becomes unusable. Each
    /// unsynced change survives with a probability of `keep` in 8.
    pub fn cut(&mut self, name: &OsStr, to: &OsStr, keep: u64, random: &mut Random) {
        (self.is_off, self.plan) = (false, None);
        self.alive_from = 0;
        let old = self.find(ROOT, name).expect("the folder is there");
        let first = self.next;
        let survivor = self.survivor(old, keep, random);
        let root = self.folder(ROOT).expect("there is a root");
        root.current.remove(name);
        root.current.insert(to.to_owned(), survivor);
        self.alive_from = first;
        // Calls on nodes from before the cut will fail.
        self.nodes.retain(|number, _| *number == ROOT || *number >= first);
    }

    fn survivor(&mut self, number: u64, keep: u64, random: &mut Random) -> u64 {
        let node = match &self.nodes[&number] {
            Node::File(file) => Node::File(file.survivor(keep, random)),
            Node::Folder(folder) => {
                let mut names = folder.survivor(keep, random);
                for number in names.values_mut() {
                    *number = self.survivor(*number, keep, random);
                }
                Node::Folder(Folder { synced: names.clone(), current: names, unsynced: vec![] })
            }
        };
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, node);
        number
    }
}

fn is_kept(keep: u64, random: &mut Random) -> bool {
    random.below(8) < keep
}

impl File {
    fn survivor(&self, keep: u64, random: &mut Random) -> Self {
        let mut content = self.synced.clone();
        let mut length = content.len();
        for change in &self.unsynced {
            match change {
                Change::Length(new) if is_kept(keep, random) => length = *new,
                Change::Length(_) => {}
                Change::Write { offset, data } => {
                    let end = offset + data.len() as u64;
                    if end > length && is_kept(keep, random) {
                        length = end;
                    }
                    for (from, to) in sectors(*offset, end) {
                        if is_kept(keep, random) {
                            content.write(
                                from,
                                &data[(from - offset) as usize..(to - offset) as usize],
                            );
                        }
                    }
                }
            }
        }
        content.set_len(length);
        Self { synced: content.clone(), current: content, unsynced: Vec::new() }
    }
}

impl Folder {
    fn survivor(&self, keep: u64, random: &mut Random) -> BTreeMap<OsString, u64> {
        let mut names = self.synced.clone();
        for naming in self.unsynced.iter().filter(|_| is_kept(keep, random)) {
            match naming {
                Naming::Link(name, number) => drop(names.insert(name.clone(), *number)),
                Naming::Unlink(name) => drop(names.remove(name)),
                Naming::Move(from, to, number) => {
                    names.remove(from);
                    names.insert(to.clone(), *number);
                }
            }
        }
        names
    }
}

/// The parts of `start..end` by sector.
fn sectors(start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let first = start - start % SECTOR;
    let part = move |sector: u64| (sector.max(start), (sector + SECTOR).min(end));
    (first..end).step_by(SECTOR as usize).map(part)
}
