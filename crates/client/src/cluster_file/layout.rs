//! Lays out a new cluster and writes its file.

use std::path::{Path, PathBuf};

use nacre_clock::Random;
use nacre_object::{Error, Result};

use super::document::{Document, unwritable};
use super::role_name::NewNodes;
use super::{ClusterFile, FolderLock, NodeEntry, RoleName};
use crate::targets::{self, UniqueId};

/// What a new cluster is to look like.
#[derive(Debug, Clone)]
pub struct Layout {
    /// What keeps the data, if that is not the nodes: `ceph:…`.
    pub engine: Option<String>,
    /// The number of storage targets. If another system such as Ceph keeps the data, it is the
    /// number of nodes: each has every role, keeps no data, and serves any object.
    pub storage: usize,
    /// The number of metadata nodes, which host sequencers. Ignored if another system such as Ceph
    /// keeps the data, because every node is then a metadata node too.
    pub metadata: usize,
    /// The addresses (`HOST:PORT`) at which the nodes listen with mutual TLS, storage nodes first.
    /// Empty if they listen only on Unix sockets.
    pub addresses: Vec<String>,
    /// Whether they listen on Unix sockets, too.
    pub sockets: bool,
}

impl Layout {
    /// How many nodes the cluster will have.
    pub fn node_count(&self) -> usize {
        self.nodes().len()
    }

    /// Every node's name and what it does.
    fn nodes(&self) -> Vec<NodeEntry> {
        let named: Vec<(String, Vec<RoleName>)> = match &self.engine {
            // Nodes that keep nothing themselves are alike: each has every role.
            Some(_) => {
                let gateway = |n| (format!("gateway.{n}"), RoleName::ALL.to_vec());
                (0..self.storage).map(gateway).collect()
            }
            None => {
                let nodes = |role: RoleName| {
                    let NewNodes { prefix, count } = role.new_nodes(self);
                    (0..count).map(move |n| (format!("{prefix}.{n}"), vec![role]))
                };
                RoleName::ALL.into_iter().flat_map(nodes).collect()
            }
        };
        let entry = |(number, (name, roles)): (usize, (String, Vec<RoleName>))| {
            let socket = self.sockets.then(|| Path::new("run").join(format!("{name}.sock")));
            let address = self.addresses.get(number).cloned();
            NodeEntry { name, known_as: None, id: None, roles, weight: 1.0, socket, address }
        };
        named.into_iter().enumerate().map(entry).collect()
    }
}

pub(super) fn holds_one(folder: &Path) -> Error {
    Error::exists(format!("{} holds a cluster", folder.display()))
        .hint("run it with `nacre up`, or name another folder with --cluster DIR")
}

/// Gives the nodes of a new folder names that no other folder's have.
fn know_by_folder(nodes: &mut [NodeEntry]) {
    let folder = Random::from_system().next_u64() as u32;
    for node in nodes {
        node.known_as = Some(format!("{}.{folder:08x}", node.name));
    }
}

/// Gives the storage targets of a new cluster ids that no other cluster's have.
fn identify_targets(nodes: &mut [NodeEntry]) {
    for node in nodes.iter_mut().filter(|node| node.has(RoleName::Storage)) {
        node.id = Some(UniqueId::fresh());
    }
}

impl ClusterFile {
    /// Lays out a new cluster of `storage` targets and one metadata node on Unix sockets, and
    /// writes its file.
    ///
    /// # Errors
    /// Those of [`ClusterFile::lay_out`].
    pub fn create(folder: impl Into<PathBuf>, storage: usize) -> Result<Self> {
        Self::lay_out(
            folder,
            &Layout { engine: None, storage, metadata: 1, addresses: vec![], sockets: true },
        )
    }

    /// Lays out a new cluster that needs no keys, and writes its file at once.
    ///
    /// # Errors
    /// Those of [`ClusterFile::draft`] and [`ClusterFile::store`].
    pub fn lay_out(folder: impl Into<PathBuf>, layout: &Layout) -> Result<Self> {
        let cluster = Self::draft(folder, layout)?;
        cluster.store()?;
        Ok(cluster)
    }

    /// Lays out a new cluster without writing its file. Call [`ClusterFile::store`] once everything
    /// else is there, such as the [keys](Keys::create) of a cluster with addresses.
    ///
    /// # Errors
    /// `Exists` if the folder holds a cluster; `Corrupt` if it holds the targets of a cluster whose
    /// file is lost; `Invalid` unless there is one address for each node.
    pub fn draft(folder: impl Into<PathBuf>, layout: &Layout) -> Result<Self> {
        let folder = folder.into();
        if Document::is_in(&folder) {
            return Err(holds_one(&folder));
        }
        targets::refuse_targets_without_cluster(&folder)?;
        let (mut nodes, addresses) = (layout.nodes(), layout.addresses.len());
        if addresses != 0 && addresses != nodes.len() {
            let text = format!("{addresses} addresses are given for {} nodes", nodes.len());
            return Err(Error::invalid(text));
        }
        let id = match layout.engine {
            Some(_) => {
                know_by_folder(&mut nodes);
                None
            }
            None => {
                identify_targets(&mut nodes);
                Some(UniqueId::fresh())
            }
        };
        let engine = layout.engine.clone();
        let cluster = Self { folder, id, engine, nodes, identity: None };
        cluster.check()?;
        Ok(cluster)
    }

    /// Makes the folders of a new cluster's targets, then writes its file.
    ///
    /// # Errors
    /// `Exists` if another process was faster; `Unavailable` if the folder cannot be written.
    pub fn store(&self) -> Result<()> {
        nacre_files::create_folder(&self.folder)
            .map_err(|error| unwritable(&self.folder, &error))?;
        // A folder that existed before may have wider permissions, so tighten them. A failure does
        // not matter, because every file in the folder is private.
        let _ = nacre_files::tighten_folder(&self.folder);
        let _lock = FolderLock::take(&self.folder)?;
        if Document::is_in(&self.folder) {
            return Err(holds_one(&self.folder));
        }
        if self.engine.is_none() {
            targets::create(self)?;
        }
        Document::of(self).write(&self.folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_two_folders_on_one_system_have_different_names() {
        let layout = Layout {
            engine: Some("ceph:/etc/ceph/ceph.conf".to_owned()),
            storage: 2,
            metadata: 1,
            addresses: vec![],
            sockets: true,
        };
        let names = [(); 2].map(|()| {
            let folder = tempfile::tempdir().unwrap();
            let made = ClusterFile::lay_out(folder.path(), &layout).unwrap();
            let read = ClusterFile::read(folder.path()).unwrap();
            assert_eq!(made.nodes(), read.nodes());
            read.nodes().iter().map(|node| node.node_name().unwrap()).collect::<Vec<_>>()
        });
        assert!(names[0].iter().all(|name| !names[1].contains(name)), "{names:?}");
    }

    #[test]
    fn a_new_cluster_can_be_read_back_and_is_not_laid_out_twice() {
        let folder = tempfile::tempdir().unwrap();
        let made = ClusterFile::create(folder.path(), 3).unwrap();
        let read = ClusterFile::read(folder.path()).unwrap();
        assert_eq!(made.nodes(), read.nodes());
        assert_eq!(read.with_role(RoleName::Storage).count(), 3);
        let again = ClusterFile::create(folder.path(), 3).unwrap_err();
        assert_eq!(again.kind(), nacre_object::ErrorKind::Exists);
    }

    #[test]
    fn of_two_processes_that_lay_out_one_folder_one_gets_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let layout = |storage| Layout {
            engine: None,
            storage,
            metadata: 1,
            addresses: vec![],
            sockets: true,
        };
        let [first, second] =
            [1, 2].map(|storage| ClusterFile::draft(folder.path(), &layout(storage)).unwrap());
        first.store().unwrap();
        assert_eq!(second.store().unwrap_err().kind(), nacre_object::ErrorKind::Exists);
        assert_eq!(ClusterFile::read(folder.path()).unwrap().nodes(), first.nodes());
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 4, "its file, the lock, run/ and storage.0/");
    }

    #[test]
    fn a_folder_deeper_than_a_socket_path_is_laid_out_like_any_other() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(120));
        let made = ClusterFile::create(&deep, 1).unwrap();
        assert_eq!(ClusterFile::read(&deep).unwrap().nodes(), made.nodes());
    }
}
