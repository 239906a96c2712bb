//! Makes files and folders that only their owner can access, and replaces small files so that a
//! crash leaves the old or the new content.
//!
//! A cluster's files hold other people's data and keys. So every folder that a process of nacre
//! makes for a cluster has mode 0700, and every file 0600, whatever umask the shell has:
//! [`restrict_process`] sets the umask once, and the functions here give the modes explicitly.

mod private;
mod replace;
mod store_presence;

pub use private::{
    FILE_MODE, FOLDER_MODE, Tightened, create_folder, folder_permissions, open_options,
    restrict_process, tighten_folder,
};
pub use replace::replace;
pub use store_presence::{STORE_JOURNAL, STORE_MANIFEST, STORE_TREE, holds_store};
