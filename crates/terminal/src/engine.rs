//! `--engine`: the argument that says whether nacre's own nodes or a Ceph cluster keep a cluster's
//! data.

use std::fmt;
use std::str::FromStr;

use nacre::ClusterFile;
use nacre_object::{Error, Result};
use nacre_rados::{PlainClient, RadosOptions};

/// What keeps a new cluster's data
#[derive(Debug, clap::Args)]
pub struct EngineArgument {
    /// What keeps a new cluster's data: `embedded` (nacre's own nodes), or a Ceph cluster:
    /// `ceph:/path/ceph.conf[?user=NAME&pool=NAME]`
    #[arg(long, default_value_t = Engine::Embedded)]
    pub engine: Engine,
}

/// What keeps the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// The nodes themselves.
    Embedded,
    /// A Ceph cluster, named as [`RadosOptions`] are, with an absolute path.
    Ceph(String),
}

impl Engine {
    /// The engine's entry in the cluster's file; none for the embedded engine.
    pub fn to_entry(&self) -> Option<String> {
        match self {
            Self::Embedded => None,
            Self::Ceph(entry) => Some(entry.clone()),
        }
    }

    /// Fails if the Ceph cluster cannot be reached. A command calls this before it creates a
    /// folder, so that no cluster file names an unusable Ceph cluster.
    ///
    /// # Errors
    /// Those of [`PlainClient::connect`].
    pub async fn check_reachable(&self) -> Result<()> {
        if let Self::Ceph(entry) = self {
            PlainClient::connect(entry.parse()?, "").await?;
        }
        Ok(())
    }

    /// Returns the existing cluster if its engine is this one. The embedded engine is the default
    /// of `--engine`, so it accepts every cluster.
    ///
    /// # Errors
    /// `Invalid` if the command line names a Ceph cluster and another engine keeps the data.
    pub fn check(&self, cluster: ClusterFile) -> Result<ClusterFile> {
        match self {
            Self::Ceph(asked) if cluster.engine() != Some(asked) => {
                let folder = cluster.folder().display();
                let kept = cluster.engine().unwrap_or("embedded");
                Err(Error::invalid(format!("the cluster at {folder} keeps its data in {kept}"))
                    .hint("name another folder with --cluster, or leave --engine out"))
            }
            _ => Ok(cluster),
        }
    }
}

impl FromStr for Engine {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "embedded" {
            return Ok(Self::Embedded);
        }
        let options: RadosOptions = text.parse()?;
        let Some(path) = options.conf else { return Ok(Self::Ceph(text.to_owned())) };
        // Nodes may be started in another folder.
        let absolute = std::path::absolute(&path).map_err(|error| {
            let text = format!("the path {} in --engine cannot be used: {error}", path.display());
            Error::invalid(text).hint("give an absolute path")
        })?;
        let rest = &text[RadosOptions::PREFIX.len() + path.as_os_str().len()..];
        Ok(Self::Ceph(format!("{}{}{rest}", RadosOptions::PREFIX, absolute.display())))
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded"),
            Self::Ceph(entry) => f.write_str(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engines_path_is_made_absolute_and_its_other_settings_kept() {
        let here = std::env::current_dir().unwrap();
        let engine: Engine = "ceph:a/ceph.conf?user=me".parse().unwrap();
        let expected = format!("ceph:{}/a/ceph.conf?user=me", here.display());
        assert_eq!(engine, Engine::Ceph(expected));
        assert_eq!("ceph:".parse::<Engine>().unwrap(), Engine::Ceph("ceph:".to_owned()));
        assert_eq!("embedded".parse::<Engine>().unwrap(), Engine::Embedded);
        assert!("redis".parse::<Engine>().is_err());
    }
}
