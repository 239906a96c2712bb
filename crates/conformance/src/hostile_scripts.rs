//! Scripts that try to hang, starve or escape whatever runs them: `crates/class/tests/hostile`.

use std::path::Path;

/// The least number of scripts. If fewer were found, for example because the folder was moved, the
/// tests would test too little.
const MIN_SCRIPTS: usize = 20;

/// One hostile script.
#[derive(Debug, Clone)]
pub struct HostileScript {
    /// The name of its file, which says what the script does.
    pub name: String,
    /// Its source; the handler is `h`.
    pub source: String,
    /// How a call of the script must end: `status N`, or the kind of an error.
    pub expected: String,
}

/// All hostile scripts, sorted by name.
///
/// # Panics
/// If the scripts cannot be read, or if a script's first line does not say which error it must end
/// with.
pub fn hostile_scripts() -> Vec<HostileScript> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../class/tests/hostile");
    let entries = std::fs::read_dir(folder).expect("the scripts are there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let is_script = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "lua");
    let mut scripts: Vec<_> = paths.filter(is_script).map(|path| read(&path)).collect();
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(scripts.len() >= MIN_SCRIPTS, "only {} scripts", scripts.len());
    scripts
}

fn read(path: &Path) -> HostileScript {
    let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
    let source = std::fs::read_to_string(path).expect("it can be read");
    let expected = source.lines().next().and_then(|line| line.strip_prefix("-- expect: "));
    let expected = expected.unwrap_or_else(|| panic!("{name} says what it expects")).to_owned();
    HostileScript { name, source, expected }
}
