//! Files and folders for their owner alone, and small files that a crash leaves whole.
//!
//! A cluster's files hold other people's data and keys. Everything that a process of nacre makes for a
//! cluster therefore has mode 0700 (folders) or 0600 (files), whatever the umask of the shell is:
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
