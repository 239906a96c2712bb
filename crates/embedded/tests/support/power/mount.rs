//! The volume as a mounted file system.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use nacre_clock::Random;
use tempfile::TempDir;

use super::volume::{File, Folder, Node, Plan, Volume};

/// The kernel caches nothing, so every call reaches the volume.
const NOT_AT_ALL: Duration = Duration::ZERO;
const BLOCK: u32 = 4096;

/// A mounted disk, unmounted with the value. It has one folder, for one machine.
pub struct PowerDisk {
    volume: Arc<Mutex<Volume>>,
    _session: BackgroundSession,
    mounted: TempDir,
    lives: u64,
}

impl PowerDisk {
    /// Mounts an empty disk.
    ///
    /// # Panics
    /// If FUSE cannot be used. The message says what to do. The tests must fail then and not be
    /// skipped silently.
    pub fn mount() -> Self {
        let mounted = TempDir::new().unwrap();
        let volume = Arc::new(Mutex::new(Volume::default()));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("nacre-test".into()), MountOption::NoAtime];
        let session = fuser::spawn_mount(Mounted(Arc::clone(&volume)), mounted.path(), &config)
            .unwrap_or_else(|error| {
                panic!("cannot mount with FUSE: {error}; run as root where there is /dev/fuse")
            });
        let disk = Self { volume, _session: session, mounted, lives: 0 };
        std::fs::create_dir(disk.folder()).unwrap();
        disk
    }

    fn volume(&self) -> MutexGuard<'_, Volume> {
        self.volume.lock().unwrap()
    }

    /// The folder of the simulated machine. Each power cut moves it.
    pub fn folder(&self) -> PathBuf {
        self.mounted.path().join(self.lives.to_string())
    }

    /// Where a store is to be kept.
    pub fn store(&self) -> PathBuf {
        self.folder().join("store")
    }

    /// Makes calls fail as planned. Counts calls from 1 again.
    pub fn plan(&self, plan: Plan) {
        self.volume().set_plan(Some(plan));
    }

    /// Has no call fail any more.
    pub fn heal(&self) {
        self.volume().set_plan(None);
    }

    /// Calls that changed something, since the plan was made.
    pub fn calls(&self) -> u64 {
        self.volume().calls()
    }

    /// Whether a call has failed as planned.
    pub fn met_fault(&self) -> bool {
        self.volume().met_fault()
    }

    /// Cuts the power and brings it back. Open files are lost. Each unsynced change survives with a
    /// probability of `keep` in 8.
    pub fn cut(&mut self, keep: u64, random: &mut Random) {
        let (old, new) = (self.lives.to_string(), (self.lives + 1).to_string());
        self.volume().cut(OsStr::new(&old), OsStr::new(&new), keep, random);
        self.lives += 1;
    }
}

struct Mounted(Arc<Mutex<Volume>>);

impl Mounted {
    fn volume(&self) -> MutexGuard<'_, Volume> {
        self.0.lock().unwrap()
    }

    fn attributes(&self, number: u64) -> Result<FileAttr, Errno> {
        let (kind, size) = match self.volume().node(number)? {
            Node::File(file) => (FileType::RegularFile, file.current.len()),
            Node::Folder(_) => (FileType::Directory, 0),
        };
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        })
    }

    fn entry(&self, number: Result<u64, Errno>, reply: ReplyEntry) {
        match number.and_then(|number| self.attributes(number)) {
            Ok(attributes) => reply.entry(&NOT_AT_ALL, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }
}

fn done(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Mounted {
    fn init(&mut self, _: &Request, _: &mut fuser::KernelConfig) -> io::Result<()> {
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.volume().find(parent.0, name);
        self.entry(found, reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino.0) {
            Ok(attributes) => reply.attr(&NOT_AT_ALL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = size.map_or(Ok(()), |size| self.volume().set_len(ino.0, size));
        match changed.and_then(|()| self.attributes(ino.0)) {
            Ok(attributes) => reply.attr(&NOT_AT_ALL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.volume().make(parent.0, name, Node::Folder(Folder::default()));
        self.entry(made, reply);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.volume().make(parent.0, name, Node::File(File::default()));
        match made.and_then(|number| self.attributes(number)) {
            Ok(attributes) => reply.created(
                &NOT_AT_ALL,
                &attributes,
                Generation(0),
                FileHandle(0),
                FopenFlags::empty(),
            ),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.attributes(ino.0) {
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.volume().remove(parent.0, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.volume().remove(parent.0, name), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        done(self.volume().rename(parent.0, name, newparent.0, newname), reply);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.volume().read(ino.0, offset, u64::from(size)) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.volume().write(ino.0, offset, data) {
            Ok(taken) => reply.written(taken as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(self.volume().sync(ino.0), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(self.volume().sync(ino.0), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        done(self.volume().set_len(ino.0, offset + length), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let names = match self.volume().names(ino.0) {
            Ok(names) => names,
            Err(error) => return reply.error(error),
        };
        for (index, (name, number)) in names.into_iter().enumerate().skip(offset as usize) {
            let kind = match self.attributes(number) {
                Ok(attributes) => attributes.kind,
                Err(error) => return reply.error(error),
            };
            if reply.add(INodeNo(number), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = 1 << 30;
        reply.statfs(blocks, blocks, blocks, 1 << 20, 1 << 20, BLOCK, 255, BLOCK);
    }
}
