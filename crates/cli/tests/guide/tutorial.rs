//! Follows a tutorial as a reader would: runs its commands in an empty folder, and compares their
//! output with the page.
//!
//! | block | how the test uses it |
//! | --- | --- |
//! | `sh` | a shell runs it, and it must succeed |
//! | `sh fails` | a shell runs it, and it must fail |
//! | `sh background` | a separate shell runs it, and gets Ctrl-C at the end of the page |
//! | `output` | the commands before it must print this, errors included; commands without such a block must print nothing |
//! | any other, after a paragraph with "into `NAME`" | the test writes it into that file, with the block `sh file` for a script |

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nacre_conformance::wait::{eventually_blocking, within_deadline_blocking};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::page::{Block, Page};
use super::shown::is_shown;

/// The command under test.
const NACRE: &str = env!("CARGO_BIN_EXE_nacre");

/// Follows all steps of a tutorial.
pub fn follow(page: &Page) {
    let reader = Reader { folder: tempfile::tempdir().unwrap(), page };
    let mut background = Vec::new();
    let mut blocks = page.blocks.iter().peekable();
    while let Some(block) = blocks.next() {
        let words: Vec<_> = block.words.iter().map(String::as_str).collect();
        let output = |block: &&&Block| block.words == ["output"];
        match words[..] {
            ["sh", "background"] => {
                let shown = blocks.next().filter(|block| output(&block)).expect("it shows output");
                background.push(reader.start(block, shown));
            }
            ["sh"] => reader.run(block, blocks.next_if(|block| output(&block)), true),
            ["sh", "fails"] => reader.run(block, blocks.next_if(|block| output(&block)), false),
            ["output"] => panic!("{} has no command before it", reader.place(block)),
            _ => reader.write(block),
        }
    }
    for command in background {
        command.end();
    }
}

/// Who follows the page, in a folder of their own.
struct Reader<'a> {
    folder: TempDir,
    page: &'a Page,
}

impl Reader<'_> {
    /// Where a block is, for messages.
    fn place(&self, block: &Block) -> String {
        format!("{}:{}", self.page.path.display(), block.line)
    }

    /// Writes the file that the page tells to write.
    fn write(&self, block: &Block) {
        let name = block.before.split_once("nto `").and_then(|(_, rest)| rest.split_once('`'));
        let Some((name, _)) = name else {
            panic!("{}: the paragraph before it names no file", self.place(block));
        };
        fs::write(self.folder.path().join(name), &block.text).unwrap();
    }

    /// Runs commands to their end.
    fn run(&self, block: &Block, shown: Option<&Block>, works: bool) {
        let place = self.place(block);
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut shell = self.shell(&["-ec", &block.text]);
        shell.stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = shell.spawn().unwrap();
        // The command holds the pipe open, too.
        drop(shell);
        let (printed, status) = within_deadline_blocking(&place, move || {
            let mut printed = String::new();
            reader.read_to_string(&mut printed).unwrap();
            (printed, child.wait().unwrap())
        });
        assert_eq!(status.success(), works, "{place}: {status}, and it printed\n{printed}");
        let shown = shown.map_or("", |shown| &shown.text);
        assert!(matches(shown, &printed), "{place}: it printed\n{printed}instead of\n{shown}");
    }

    /// Starts a command in the background, and waits until it has printed the output of the page.
    fn start(&self, block: &Block, shown: &Block) -> Background {
        let place = self.place(block);
        let log = self.folder.path().join(format!(".output-{}", block.line));
        let file = File::create(&log).unwrap();
        let mut shell = self.shell(&["-c", &format!("exec {}", block.text)]);
        shell.stdout(file.try_clone().unwrap()).stderr(file);
        let command = Background { child: Some(shell.spawn().unwrap()), place, log };
        eventually_blocking(&format!("{}: it prints what the page shows", command.place), || {
            matches(&shown.text, &command.printed())
        });
        command
    }

    /// A shell in the folder of the reader, which finds the built `nacre`.
    fn shell(&self, arguments: &[&str]) -> Command {
        let built = Path::new(NACRE).parent().unwrap().to_str().unwrap();
        let mut shell = Command::new("sh");
        shell.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        shell.env("PATH", format!("{built}:/usr/local/bin:/usr/bin:/bin"));
        shell.env_remove("NACRE_CLUSTER").env_remove("NACRE_IDENTITY");
        shell
    }
}

fn matches(shown: &str, printed: &str) -> bool {
    is_shown(&Vec::from_iter(shown.lines()), &Vec::from_iter(printed.lines()))
}

/// A command that goes on until it is interrupted.
struct Background {
    child: Option<Child>,
    place: String,
    log: PathBuf,
}

impl Background {
    fn printed(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Interrupts it; it has to end well.
    fn end(mut self) {
        let status = self.interrupt().expect("it runs until now");
        assert!(status.success(), "{}: {status}, and it printed\n{}", self.place, self.printed());
    }

    fn interrupt(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::INT);
        let ended =
            within_deadline_blocking(&format!("{}: its end", self.place), move || child.wait());
        Some(ended.unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.interrupt();
    }
}
