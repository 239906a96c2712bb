//! Explains why the monitors refused a client's key. It looks for the key in the same files and
//! settings as librados.
//!
//! librados reports the same status for three causes: there is no keyring, the keyring has no key
//! of the client, or the monitors have another key. After a refusal, this search finds out which of
//! them it is.

use std::io;

/// The characters by which librados separates the files of `keyring`.
const SEPARATORS: [char; 5] = [';', ',', '=', ' ', '\t'];

/// The settings that say where a client's key is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySettings {
    /// `key`: the key itself.
    pub key: String,
    /// `keyfile`: a file with the key and nothing else.
    pub keyfile: String,
    /// `keyring`: files with keys by name; the first that can be opened counts.
    pub keyring: String,
}

/// The result of the search.
#[derive(Debug)]
pub enum KeySearch {
    /// The client has a key, from here.
    Found { place: String },
    /// None of the files exists.
    NoKeyring { files: Vec<String> },
    /// The file exists, but this process may not read it.
    Unreadable { file: String, error: io::Error },
    /// The file has only keys of other users.
    NotIn { file: String, others: Vec<String> },
}

impl KeySearch {
    /// Looks for the key of `client.USER`; `read` reads a file.
    pub fn new(
        user: &str,
        settings: &KeySettings,
        read: impl Fn(&str) -> io::Result<Vec<u8>>,
    ) -> Self {
        if !settings.key.is_empty() {
            return Self::Found { place: "the configuration".to_owned() };
        }
        if !settings.keyfile.is_empty() {
            let file = settings.keyfile.clone();
            return match read(&file) {
                Ok(_) => Self::Found { place: file },
                Err(error) => Self::Unreadable { file, error },
            };
        }
        Self::in_keyrings(user, &settings.keyring, read)
    }

    fn in_keyrings(user: &str, keyrings: &str, read: impl Fn(&str) -> io::Result<Vec<u8>>) -> Self {
        let files = keyrings.split(SEPARATORS).filter(|file| !file.is_empty());
        let files: Vec<String> = files.map(str::to_owned).collect();
        let mut unreadable = None;
        for file in &files {
            match read(file) {
                Ok(text) => return Self::in_keyring(user, file, &String::from_utf8_lossy(&text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    unreadable.get_or_insert(Self::Unreadable { file: file.clone(), error });
                }
            }
        }
        unreadable.unwrap_or(Self::NoKeyring { files })
    }

    /// In a file of sections `[client.USER]` with a line `key = KEY` each.
    fn in_keyring(user: &str, file: &str, text: &str) -> Self {
        let (mut others, mut section) = (Vec::new(), "");
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.trim();
            } else if line.split_once('=').is_some_and(|(setting, _)| setting.trim() == "key") {
                others.push(section.to_owned());
            }
        }
        match others.contains(&format!("client.{user}")) {
            true => Self::Found { place: file.to_owned() },
            false => Self::NotIn { file: file.to_owned(), others },
        }
    }

    /// Explains why the monitors refused a client with this key, and what to do: an error message
    /// and a hint. `conf` names the file with the settings.
    pub fn explain(&self, user: &str, conf: &str) -> (String, String) {
        let fetch = |file: &str| {
            format!("an administrator's `ceph auth get client.{user} >> {file}` puts it there")
        };
        match self {
            Self::Found { place } => (
                format!("the monitors have no client.{user} with the key that is in {place}"),
                format!("compare it with `ceph auth get client.{user}`"),
            ),
            Self::NoKeyring { files } => {
                let file = files.first().map_or("KEYRING", String::as_str);
                (
                    format!("there is no key of client.{user}: no file {}", files.join(" or ")),
                    format!("name its keyring in {conf} (keyring = PATH); {}", fetch(file)),
                )
            }
            Self::Unreadable { file, error } => (
                format!("the key of client.{user} cannot be read: {file}: {error}"),
                "run as a user who may read it, or name another keyring (keyring = PATH)"
                    .to_owned(),
            ),
            Self::NotIn { file, others } => {
                let others = match others.join(", ") {
                    none if none.is_empty() => "no key at all".to_owned(),
                    others => format!("keys of {others} only"),
                };
                (
                    format!("there is no key of client.{user}: {file} has {others}"),
                    format!(
                        "write ?user=NAME, or make the user as `ceph auth get-or-create client.{user} mon 'allow r' osd 'allow rwx pool=POOL' >> {file}`"
                    ),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYRING: &str =
        "[client.admin]\n\tkey = AQ==\n\tcaps mon = \"allow *\"\n[osd.0]\nkey=AQ==\n[client.x]\n";

    /// Simulates three files: a keyring, an empty keyring, and a file that only others may read.
    fn read(file: &str) -> io::Result<Vec<u8>> {
        match file {
            "/keyring" => Ok(KEYRING.into()),
            "/empty" => Ok(vec![]),
            "/secret" => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn said(user: &str, keyring: &str) -> String {
        let settings = KeySettings { keyring: keyring.to_owned(), ..Default::default() };
        KeySearch::new(user, &settings, read).explain(user, "CONF").0
    }

    #[test]
    fn the_error_says_what_is_wrong_with_a_key() {
        for (user, keyring, expected) in [
            (
                "admin",
                "/keyring",
                "the monitors have no client.admin with the key that is in /keyring",
            ),
            (
                "admin",
                "/none,/keyring",
                "the monitors have no client.admin with the key that is in /keyring",
            ),
            (
                "x",
                "/keyring",
                "there is no key of client.x: /keyring has keys of client.admin, osd.0 only",
            ),
            ("x", "/empty,/keyring", "there is no key of client.x: /empty has no key at all"),
            ("x", "/none, /gone", "there is no key of client.x: no file /none or /gone"),
            (
                "x",
                "/none,/secret",
                "the key of client.x cannot be read: /secret: permission denied",
            ),
        ] {
            assert_eq!(said(user, keyring), expected);
        }
    }

    #[test]
    fn a_key_in_the_settings_takes_precedence_over_keyrings() {
        let keyring = "/empty".to_owned();
        let key =
            KeySettings { key: "AQ==".into(), keyring: keyring.clone(), ..Default::default() };
        assert!(matches!(KeySearch::new("x", &key, read), KeySearch::Found { .. }));
        let keyfile = KeySettings { keyfile: "/none".into(), keyring, ..Default::default() };
        assert!(matches!(KeySearch::new("x", &keyfile, read), KeySearch::Unreadable { .. }));
    }
}
