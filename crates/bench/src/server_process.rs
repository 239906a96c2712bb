//! Starts a server of others, beside which a bench measures.

use std::process::Stdio;
use std::time::Duration;

use nacre_object::{Error, Result};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// How long to wait for the server's first answer.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts while it starts.
const START_PAUSE: Duration = Duration::from_millis(10);

/// Starts a server, which ends with the returned value. `package` is the Debian package that has
/// it.
///
/// # Errors
/// `Unavailable` if it cannot be started; the error says what to install.
pub(crate) fn spawn(command: &mut Command, package: &str) -> Result<Child> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.kill_on_drop(true).spawn().map_err(|error| {
        Error::unavailable(format!("{name} cannot be started: {error}"))
            .hint(format!("install it: `apt-get install {package}`, or run `make bench`"))
    })
}

/// Waits until the server `name` answers an attempt.
///
/// # Errors
/// `Unavailable` after ten seconds.
pub(crate) async fn until_ready<T, F: Future<Output = Result<T>>>(
    name: &str,
    attempt: impl Fn() -> F,
) -> Result<()> {
    let ready = async {
        while attempt().await.is_err() {
            sleep(START_PAUSE).await;
        }
    };
    let answered = timeout(START_PATIENCE, ready).await;
    answered.map_err(|_| Error::unavailable(format!("{name} does not answer")))
}
